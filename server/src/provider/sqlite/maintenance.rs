//! Maintenance: a write transaction of no org. It excludes every write, because the file has one lock.

use escale::Result;
use rusqlite::params;

use super::rows::{all, document_of};
use super::transaction::SqliteTransaction;
use super::{heads, operations};
use crate::provider::{Head, Maintenance, RewriteResult, RewriteState, Site, Walked};

impl Maintenance for SqliteTransaction<'_> {
    fn put_site(&mut self, site: &Site) -> Result<()> {
        heads::put_site(self.connection(), site)
    }

    fn put_head(&mut self, org: &str, head: &Head) -> Result<()> {
        heads::put_head(self.connection(), org, head)
    }

    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>> {
        let (org, class, pk) = after.unwrap_or_default();
        let rows = all(
            self.connection(),
            "SELECT org, class, pk, v, deleted, max_life, ttl, shown, data FROM documents
             WHERE (org, class, pk) > (?1, ?2, ?3) ORDER BY org, class, pk LIMIT ?4",
            params![org, class, pk, limit as u64],
            |row| {
                let (org, class, pk) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(document_of(row, 3)?.map(|document| Walked { org, class, pk, document }))
            },
        )?;
        rows.into_iter().collect()
    }

    fn rewrite_actions(&mut self, from: (i64, usize), change: &RewriteState) -> Result<Option<i64>> {
        operations::rewrite_actions(self.connection(), from, change)
    }

    fn rewrite_results(&mut self, from: (i64, usize), change: &RewriteResult) -> Result<Option<i64>> {
        operations::rewrite_results(self.connection(), from, change)
    }

    fn commit(mut self: Box<Self>) -> Result<u64> {
        self.end()
    }
}
