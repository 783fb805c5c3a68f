//! The heads of the orgs, and the state that all orgs share, in SQLite.

use std::collections::BTreeMap;

use escale::Result;
use escale::model::Epoch;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::failed::{damaged, failed};
use super::rows::{all, one};
use crate::provider::{Head, Site};

pub(super) fn head(connection: &Connection, org: &str) -> Result<Option<Head>> {
    let sql = "SELECT org, epoch, commits, highest, told, horizon, kept FROM heads WHERE org = ?1";
    let found = one(connection, sql, [org], head_of)?.transpose()?;
    Ok(found.map(|(_, head)| head))
}

pub(super) fn heads(connection: &Connection, after: &str, limit: usize) -> Result<Vec<(String, Head)>> {
    let sql = "SELECT org, epoch, commits, highest, told, horizon, kept FROM heads WHERE org > ?1
               ORDER BY org LIMIT ?2";
    all(connection, sql, params![after, limit as u64], head_of)?.into_iter().collect()
}

fn head_of(row: &Row) -> rusqlite::Result<Result<(String, Head)>> {
    let (org, epoch): (String, String) = (row.get(0)?, row.get(1)?);
    let (commits, highest) = (row.get(2)?, row.get(3)?);
    let (promised_now, horizon, kept) = (row.get(4)?, row.get(5)?, row.get(6)?);
    Ok(epoch_of(&epoch).map(|epoch| (org, Head { epoch, commits, highest, promised_now, horizon, kept })))
}

pub(super) fn put_head(connection: &Connection, org: &str, head: &Head) -> Result<()> {
    let sql = "INSERT INTO heads (org, epoch, commits, highest, told, horizon, kept)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT DO UPDATE SET epoch = ?2, commits = ?3, highest = ?4, told = ?5, horizon = ?6,
                 kept = ?7";
    let Head { epoch, commits, highest, promised_now, horizon, kept } = head;
    let epoch = epoch_text(epoch)?;
    let mut put = connection.prepare_cached(sql).map_err(failed)?;
    put.execute(params![org, epoch, commits, highest, promised_now, horizon, kept]).map_err(failed)?;
    Ok(())
}

pub(super) fn site(connection: &Connection) -> Result<Site> {
    let rows = all(connection, "SELECT name, value FROM meta", [], |row| {
        let value = match row.get_ref(1)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        };
        Ok((row.get::<_, String>(0)?, value))
    })?;
    let mut values: BTreeMap<String, Vec<u8>> = rows.into_iter().collect();
    let mut bytes = |name: &str| values.remove(name).ok_or_else(|| damaged(name));
    let mut text = |name: &str| String::from_utf8(bytes(name)?).map_err(|_| damaged(name));
    let mut number = |name: &str| text(name)?.parse::<u64>().map_err(|_| damaged(name));
    let (generation, commits, promised_now) = (number("generation")?, number("commits")?, number("told")?);
    Ok(Site {
        epoch: epoch_of(&text("epoch")?)?,
        last_epoch: epoch_of(&text("last_epoch")?)?,
        generation,
        commits,
        promised_now,
        schema: text("schema")?,
        cursor_key: bytes("cursor_key")?,
        seal_check: bytes("seal_check")?,
        server: None,
    })
}

/// Stores everything but the number of commits, which [`count_commit`] stores.
pub(super) fn put_site(connection: &Connection, site: &Site) -> Result<()> {
    let (epoch, last_epoch) = (epoch_text(&site.epoch)?, epoch_text(&site.last_epoch)?);
    let (generation, promised_now) = (site.generation.to_string(), site.promised_now.to_string());
    for (name, bytes) in [
        ("epoch", epoch.as_bytes()),
        ("last_epoch", last_epoch.as_bytes()),
        ("generation", generation.as_bytes()),
        ("told", promised_now.as_bytes()),
        ("schema", site.schema.as_bytes()),
        ("cursor_key", &site.cursor_key),
        ("seal_check", &site.seal_check),
    ] {
        put(connection, name, bytes)?;
    }
    Ok(())
}

fn put(connection: &Connection, name: &str, bytes: &[u8]) -> Result<()> {
    let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
    connection.prepare_cached(sql).and_then(|mut put| put.execute(params![name, bytes])).map_err(failed)?;
    Ok(())
}

/// Stores the number of commits of a new file.
pub(super) fn count_commits_from(connection: &Connection, commits: u64) -> Result<()> {
    put(connection, "commits", commits.to_string().as_bytes())
}

/// Counts the transaction that is about to be committed. Returns the number of all.
pub(super) fn count_commit(connection: &Connection) -> Result<u64> {
    let sql = "SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE name = 'commits'";
    let commits = one(connection, sql, [], |row| row.get::<_, u64>(0))?.unwrap_or(0) + 1;
    put(connection, "commits", commits.to_string().as_bytes())?;
    Ok(commits)
}

fn epoch_of(text: &str) -> Result<Epoch> {
    serde_json::from_str(text).map_err(|_| damaged("an epoch"))
}

fn epoch_text(epoch: &Epoch) -> Result<String> {
    serde_json::to_string(epoch).map_err(|_| damaged("an epoch"))
}
