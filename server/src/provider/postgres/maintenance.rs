//! Maintenance: a transaction of no org, which holds the lock of the site alone.

use escale::Result;

use super::read::document_of;
use super::transaction::PostgresTransaction;
use super::{heads, operations};
use crate::provider::{Head, Maintenance, RewriteResult, RewriteState, Site, Walked};

impl Maintenance for PostgresTransaction<'_> {
    fn put_site(&mut self, site: &Site) -> Result<()> {
        heads::put_site(self.connection(), site)
    }

    fn put_head(&mut self, org: &str, head: &Head) -> Result<()> {
        heads::put_head(self.connection(), org, head)
    }

    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>> {
        let (org, class, pk) = after.unwrap_or_default();
        let rows = self.connection().rows(
            "SELECT org, class, pk, v, deleted, max_life, ttl, shown, data FROM documents
             WHERE (org, class, pk) > ($1, $2, $3) ORDER BY org, class, pk LIMIT $4",
            &[&org, &class, &pk, &(limit as i64)],
        )?;
        let walked = rows.iter().map(|row| {
            let document = document_of(row, 3)?;
            Ok(Walked { org: row.get(0), class: row.get(1), pk: row.get(2), document })
        });
        walked.collect()
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
