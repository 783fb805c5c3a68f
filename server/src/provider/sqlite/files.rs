//! The tables of files in SQLite.

use std::collections::HashMap;

use escale::Result;
use rusqlite::{Connection, Params, Row, params};

use super::failed::failed;
use super::rows::{all, one};
use super::transaction::SqliteTransaction;
use crate::provider::{File, FileEdits, FileReads, Place, Purge, Uploads};

/// A file from the four columns that start at `first`.
fn file_of(row: &Row, first: usize) -> rusqlite::Result<File> {
    let (name, size) = (row.get(first)?, row.get(first + 1)?);
    Ok(File { name, size, list: row.get(first + 2)?, until: row.get(first + 3)? })
}

fn run(connection: &Connection, sql: &str, params: impl Params) -> Result<()> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.execute(params).map(drop).map_err(failed)
}

impl FileReads for Connection {
    fn file(&self, org: &str, sha: &str) -> Result<Option<File>> {
        let sql = "SELECT name, size, list, until FROM files WHERE org = ?1 AND sha = ?2";
        one(self, sql, params![org, sha], |row| file_of(row, 0))
    }

    fn those(&self, org: &str, shas: &[&str]) -> Result<HashMap<String, File>> {
        let mut found = HashMap::new();
        for sha in shas {
            found.extend(self.file(org, sha)?.map(|file| ((*sha).to_owned(), file)));
        }
        Ok(found)
    }

    fn files_after(&self, org: &str, after: &str, limit: usize) -> Result<Vec<(String, File)>> {
        let sql = "SELECT sha, name, size, list, until FROM files WHERE org = ?1 AND sha > ?2
                   ORDER BY sha LIMIT ?3";
        all(self, sql, params![org, after, limit as u64], |row| Ok((row.get(0)?, file_of(row, 1)?)))
    }

    fn has_files(&self) -> Result<bool> {
        Ok(one(self, "SELECT 1 FROM files LIMIT 1", [], |_| Ok(()))?.is_some())
    }

    fn due_files(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>> {
        let sql = "SELECT sha FROM files INDEXED BY files_until
                   WHERE org = ?1 AND until IS NOT NULL AND until <= ?2 LIMIT ?3";
        all(self, sql, params![org, now, limit as u64], |row| row.get(0))
    }

    fn references(&self, at: Place) -> Result<Vec<String>> {
        let sql = "SELECT sha FROM file_refs INDEXED BY file_refs_pk
                   WHERE org = ?1 AND class = ?2 AND pk = ?3 ORDER BY sha";
        all(self, sql, params![at.org, at.class, at.pk], |row| row.get(0))
    }

    fn referring(&self, org: &str, sha: &str, limit: usize) -> Result<Vec<(String, String)>> {
        let sql = "SELECT class, pk FROM file_refs WHERE org = ?1 AND sha = ?2 ORDER BY class, pk LIMIT ?3";
        all(self, sql, params![org, sha, limit as u64], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn lists_of(&self, org: &str, chunk: &str, limit: usize) -> Result<Vec<String>> {
        let sql = "SELECT DISTINCT list FROM file_chunks INDEXED BY file_chunks_chunk
                   WHERE org = ?1 AND chunk = ?2 ORDER BY list LIMIT ?3";
        all(self, sql, params![org, chunk, limit as u64], |row| row.get(0))
    }

    fn chunks(&self, org: &str, list: &str) -> Result<Vec<String>> {
        let sql = "SELECT chunk FROM file_chunks WHERE org = ?1 AND list = ?2 ORDER BY place";
        all(self, sql, params![org, list], |row| row.get(0))
    }

    fn has_uploaded(&self, org: &str, account: &str, sha: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM file_uploads WHERE org = ?1 AND sha = ?2 AND account = ?3";
        Ok(one(self, sql, params![org, sha, account], |_| Ok(()))?.is_some())
    }

    fn open_uploads(&self, org: &str, account: &str) -> Result<Uploads> {
        // A chunk has 2^20 bytes.
        let sql = "SELECT count(*) + coalesce(sum((f.list + 1048575) / 1048576), 0),
                     coalesce(sum(f.size + coalesce(f.list, 0)), 0)
                   FROM file_uploads u INDEXED BY file_uploads_open
                   JOIN files f ON f.org = u.org AND f.sha = u.sha
                   WHERE u.org = ?1 AND u.account = ?2 AND u.open = 1";
        let read = |row: &Row| Ok(Uploads { objects: row.get(0)?, bytes: row.get(1)? });
        Ok(one(self, sql, params![org, account], read)?.unwrap_or_default())
    }

    fn purge(&self, org: &str, name: &str) -> Result<Option<Purge>> {
        let sql = "SELECT at, claimed FROM purges WHERE org = ?1 AND name = ?2";
        one(self, sql, params![org, name], |row| Ok(Purge { at: row.get(0)?, is_claimed: row.get(1)? }))
    }

    fn due_purges(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>> {
        let sql = "SELECT name FROM purges INDEXED BY purges_at WHERE org = ?1 AND at <= ?2 LIMIT ?3";
        all(self, sql, params![org, now, limit as u64], |row| row.get(0))
    }
}

impl FileEdits for SqliteTransaction<'_> {
    fn put_file(&mut self, org: &str, sha: &str, file: &File) -> Result<()> {
        let File { name, size, list, until } = file;
        let sql = "INSERT INTO files (org, sha, name, size, list, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT DO UPDATE SET name = ?3, size = ?4, list = ?5, until = ?6";
        run(self.connection(), sql, params![org, sha, name, size, list, until])?;
        let sql = "UPDATE file_uploads SET open = ?3 WHERE org = ?1 AND sha = ?2 AND open <> ?3";
        run(self.connection(), sql, params![org, sha, until.is_some()])
    }

    fn remove_file(&mut self, org: &str, sha: &str) -> Result<()> {
        for sql in [
            "DELETE FROM files WHERE org = ?1 AND sha = ?2",
            "DELETE FROM file_uploads WHERE org = ?1 AND sha = ?2",
            "DELETE FROM file_chunks WHERE org = ?1 AND list = ?2",
        ] {
            run(self.connection(), sql, params![org, sha])?;
        }
        Ok(())
    }

    fn refer(&mut self, at: Place, sha: &str) -> Result<()> {
        let sql =
            "INSERT INTO file_refs (org, sha, class, pk) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        run(self.connection(), sql, params![at.org, sha, at.class, at.pk])
    }

    fn unrefer(&mut self, at: Place, sha: &str) -> Result<()> {
        let sql = "DELETE FROM file_refs WHERE org = ?1 AND sha = ?2 AND class = ?3 AND pk = ?4";
        run(self.connection(), sql, params![at.org, sha, at.class, at.pk])
    }

    fn put_chunks(&mut self, org: &str, list: &str, chunks: &[&str]) -> Result<()> {
        let sql = "INSERT INTO file_chunks (org, list, place, chunk) VALUES (?1, ?2, ?3, ?4)";
        for (place, chunk) in chunks.iter().enumerate() {
            run(self.connection(), sql, params![org, list, place as u64, chunk])?;
        }
        Ok(())
    }

    fn put_upload(&mut self, org: &str, account: &str, sha: &str) -> Result<()> {
        let sql = "INSERT INTO file_uploads (org, sha, account, open)
                   SELECT org, sha, ?3, until IS NOT NULL FROM files WHERE org = ?1 AND sha = ?2
                   ON CONFLICT DO NOTHING";
        run(self.connection(), sql, params![org, sha, account])
    }

    fn put_purge(&mut self, org: &str, name: &str, purge: &Purge) -> Result<()> {
        let sql = "INSERT INTO purges (org, name, at, claimed) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT DO UPDATE SET at = ?3, claimed = ?4";
        run(self.connection(), sql, params![org, name, purge.at, purge.is_claimed])
    }

    fn remove_purge(&mut self, org: &str, name: &str) -> Result<()> {
        run(self.connection(), "DELETE FROM purges WHERE org = ?1 AND name = ?2", params![org, name])
    }
}
