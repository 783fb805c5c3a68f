//! The tables of files.

use std::collections::HashMap;

use escale::Result;
use tokio_postgres::Row;

use super::connect::Connection;
use super::heads::{signed, unsigned};
use super::transaction::PostgresTransaction;
use crate::provider::{File, FileEdits, FileReads, Place, Purge, Uploads};

/// A file from the four columns that start at `first`.
fn file_of(row: &Row, first: usize) -> File {
    let number = |place: usize| row.get::<_, Option<i64>>(first + place).map(unsigned);
    File { name: row.get(first), size: unsigned(row.get(first + 1)), list: number(2), until: number(3) }
}

/// The texts of the first column.
fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.get(0)).collect()
}

impl FileReads for Connection {
    fn file(&self, org: &str, sha: &str) -> Result<Option<File>> {
        let sql = "SELECT name, size, list, until FROM files WHERE org = $1 AND sha = $2";
        Ok(self.one(sql, &[&org, &sha])?.map(|row| file_of(&row, 0)))
    }

    fn those(&self, org: &str, shas: &[&str]) -> Result<HashMap<String, File>> {
        let sql = "SELECT sha, name, size, list, until FROM files WHERE org = $1 AND sha = ANY ($2)";
        let rows = self.rows(sql, &[&org, &shas])?;
        Ok(rows.iter().map(|row| (row.get(0), file_of(row, 1))).collect())
    }

    fn files_after(&self, org: &str, after: &str, limit: usize) -> Result<Vec<(String, File)>> {
        let sql = "SELECT sha, name, size, list, until FROM files WHERE org = $1 AND sha > $2
                   ORDER BY sha LIMIT $3";
        let rows = self.rows(sql, &[&org, &after, &(limit as i64)])?;
        Ok(rows.iter().map(|row| (row.get(0), file_of(row, 1))).collect())
    }

    fn has_files(&self) -> Result<bool> {
        Ok(self.one("SELECT 1 FROM files LIMIT 1", &[])?.is_some())
    }

    fn due_files(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>> {
        let sql = "SELECT sha FROM files WHERE org = $1 AND until IS NOT NULL AND until <= $2 LIMIT $3";
        Ok(texts(&self.rows(sql, &[&org, &signed(now), &(limit as i64)])?))
    }

    fn references(&self, at: Place) -> Result<Vec<String>> {
        let sql = "SELECT sha FROM file_refs WHERE org = $1 AND class = $2 AND pk = $3 ORDER BY sha";
        Ok(texts(&self.rows(sql, &[&at.org, &at.class, &at.pk])?))
    }

    fn referring(&self, org: &str, sha: &str, limit: usize) -> Result<Vec<(String, String)>> {
        let sql = "SELECT class, pk FROM file_refs WHERE org = $1 AND sha = $2 ORDER BY class, pk LIMIT $3";
        let rows = self.rows(sql, &[&org, &sha, &(limit as i64)])?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    fn lists_of(&self, org: &str, chunk: &str, limit: usize) -> Result<Vec<String>> {
        let sql =
            "SELECT DISTINCT list FROM file_chunks WHERE org = $1 AND chunk = $2 ORDER BY list LIMIT $3";
        Ok(texts(&self.rows(sql, &[&org, &chunk, &(limit as i64)])?))
    }

    fn chunks(&self, org: &str, list: &str) -> Result<Vec<String>> {
        let sql = "SELECT chunk FROM file_chunks WHERE org = $1 AND list = $2 ORDER BY place";
        Ok(texts(&self.rows(sql, &[&org, &list])?))
    }

    fn has_uploaded(&self, org: &str, account: &str, sha: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM file_uploads WHERE org = $1 AND sha = $2 AND account = $3";
        Ok(self.one(sql, &[&org, &sha, &account.as_bytes()])?.is_some())
    }

    fn open_uploads(&self, org: &str, account: &str) -> Result<Uploads> {
        // A chunk has 2^20 bytes.
        let sql = "SELECT (count(*) + coalesce(sum((f.list + 1048575) / 1048576), 0))::bigint,
                     coalesce(sum(f.size + coalesce(f.list, 0)), 0)::bigint
                   FROM file_uploads u JOIN files f ON f.org = u.org AND f.sha = u.sha
                   WHERE u.org = $1 AND u.account = $2 AND u.open";
        let row = self.one(sql, &[&org, &account.as_bytes()])?;
        let read = |row: Row| Uploads { objects: unsigned(row.get(0)), bytes: unsigned(row.get(1)) };
        Ok(row.map(read).unwrap_or_default())
    }

    fn purge(&self, org: &str, name: &str) -> Result<Option<Purge>> {
        let row = self.one("SELECT at, claimed FROM purges WHERE org = $1 AND name = $2", &[&org, &name])?;
        Ok(row.map(|row| Purge { at: unsigned(row.get(0)), is_claimed: row.get(1) }))
    }

    fn due_purges(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>> {
        let sql = "SELECT name FROM purges WHERE org = $1 AND at <= $2 LIMIT $3";
        Ok(texts(&self.rows(sql, &[&org, &signed(now), &(limit as i64)])?))
    }
}

impl FileEdits for PostgresTransaction<'_> {
    fn put_file(&mut self, org: &str, sha: &str, file: &File) -> Result<()> {
        let File { name, size, list, until } = file;
        self.connection().send(
            "INSERT INTO files (org, sha, name, size, list, until) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (org, sha) DO UPDATE SET name = $3, size = $4, list = $5, until = $6",
            &[&org, &sha, name, &signed(*size), &list.map(signed), &until.map(signed)],
        )?;
        self.connection().send(
            "UPDATE file_uploads SET open = $3 WHERE org = $1 AND sha = $2 AND open <> $3",
            &[&org, &sha, &until.is_some()],
        )
    }

    fn remove_file(&mut self, org: &str, sha: &str) -> Result<()> {
        for sql in [
            "DELETE FROM files WHERE org = $1 AND sha = $2",
            "DELETE FROM file_uploads WHERE org = $1 AND sha = $2",
            "DELETE FROM file_chunks WHERE org = $1 AND list = $2",
        ] {
            self.connection().send(sql, &[&org, &sha])?;
        }
        Ok(())
    }

    fn refer(&mut self, at: Place, sha: &str) -> Result<()> {
        self.connection().send(
            "INSERT INTO file_refs (org, sha, class, pk) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            &[&at.org, &sha, &at.class, &at.pk],
        )
    }

    fn unrefer(&mut self, at: Place, sha: &str) -> Result<()> {
        self.connection().send(
            "DELETE FROM file_refs WHERE org = $1 AND sha = $2 AND class = $3 AND pk = $4",
            &[&at.org, &sha, &at.class, &at.pk],
        )
    }

    /// In one statement: a list has thousands.
    fn put_chunks(&mut self, org: &str, list: &str, chunks: &[&str]) -> Result<()> {
        self.connection().send(
            "INSERT INTO file_chunks (org, list, place, chunk)
             SELECT $1, $2, place - 1, chunk FROM unnest($3::text[]) WITH ORDINALITY AS c (chunk, place)",
            &[&org, &list, &chunks],
        )
    }

    fn put_upload(&mut self, org: &str, account: &str, sha: &str) -> Result<()> {
        self.connection().send(
            "INSERT INTO file_uploads (org, sha, account, open)
             SELECT org, sha, $3, until IS NOT NULL FROM files WHERE org = $1 AND sha = $2
             ON CONFLICT DO NOTHING",
            &[&org, &sha, &account.as_bytes()],
        )
    }

    fn put_purge(&mut self, org: &str, name: &str, purge: &Purge) -> Result<()> {
        self.connection().send(
            "INSERT INTO purges (org, name, at, claimed) VALUES ($1, $2, $3, $4)
             ON CONFLICT (org, name) DO UPDATE SET at = $3, claimed = $4",
            &[&org, &name, &signed(purge.at), &purge.is_claimed],
        )
    }

    fn remove_purge(&mut self, org: &str, name: &str) -> Result<()> {
        self.connection().send("DELETE FROM purges WHERE org = $1 AND name = $2", &[&org, &name])
    }
}
