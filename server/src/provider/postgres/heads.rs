//! The heads of the orgs, and the state that all orgs share.

use escale::Result;
use escale::model::Epoch;
use tokio_postgres::Row;

use super::connect::Connection;
use super::failed::damaged;
use crate::provider::{Head, Server, ServerId, Site};

/// The site, and the server: its clock, the table's number, and its timeline. A promotion and a restore to a point in
/// time begin a timeline, whose number begins the names of the log's files.
pub(super) const SITE: &str = "SELECT epoch, last_epoch, generation, told, cursor_key, schema, seal_check,
    (SELECT last_value FROM commits), server, clock_ms(), tableoid,
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) FROM site";

/// The site and its server, as one statement sees them.
pub(super) fn site(connection: &Connection) -> Result<(Site, Server)> {
    site_of(connection, &connection.one(SITE, &[])?.ok_or_else(|| damaged("no site"))?)
}

pub(super) fn site_of(connection: &Connection, row: &Row) -> Result<(Site, Server)> {
    let timeline = u32::from_str_radix(row.get(11), 16).map_err(|_| damaged("a timeline"))?;
    // A dump that is loaded into the same database makes another table.
    let database = format!("{}/{}", connection.database, row.get::<_, u32>(10));
    let server = Server { id: ServerId { database, timeline }, now_ms: unsigned(row.get(9)) };
    let before: &str = row.get(8);
    let before = (!before.is_empty()).then(|| serde_json::from_str(before)).transpose();
    let site = Site {
        epoch: epoch_of(row.get(0))?,
        last_epoch: epoch_of(row.get(1))?,
        generation: unsigned(row.get(2)),
        promised_now: unsigned(row.get(3)),
        cursor_key: row.get(4),
        schema: row.get(5),
        seal_check: row.get(6),
        commits: unsigned(row.get(7)),
        server: before.map_err(|_| damaged("the identity of a server"))?,
    };
    Ok((site, server))
}

/// Stores everything but the number of commits.
pub(super) fn put_site(connection: &Connection, site: &Site) -> Result<()> {
    let (epoch, last_epoch) = (epoch_text(&site.epoch)?, epoch_text(&site.last_epoch)?);
    let server = site.server.as_ref().map(serde_json::to_string).transpose();
    let server = server.map_err(|_| damaged("the identity of a server"))?.unwrap_or_default();
    connection.send(
        "INSERT INTO site (epoch, last_epoch, generation, told, cursor_key, schema, seal_check, server)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (is_only) DO UPDATE SET epoch = $1, last_epoch = $2, generation = $3, told = $4,
           cursor_key = $5, schema = $6, seal_check = $7, server = $8",
        &[
            &epoch,
            &last_epoch,
            &signed(site.generation),
            &signed(site.promised_now),
            &site.cursor_key,
            &site.schema,
            &site.seal_check,
            &server,
        ],
    )
}

/// The head of an org. `FOR NO KEY UPDATE` holds it until the transaction ends.
pub(super) const LOCK_HEAD: &str = "SELECT org, epoch, commits, highest, told, horizon, kept FROM heads
    WHERE org = $1 FOR NO KEY UPDATE";

pub(super) fn head(connection: &Connection, org: &str) -> Result<Option<Head>> {
    let sql = "SELECT org, epoch, commits, highest, told, horizon, kept FROM heads WHERE org = $1";
    connection.one(sql, &[&org])?.map(|row| head_of(&row)).transpose()
}

pub(super) fn heads(connection: &Connection, after: &str, limit: usize) -> Result<Vec<(String, Head)>> {
    let sql = "SELECT org, epoch, commits, highest, told, horizon, kept FROM heads WHERE org > $1
               ORDER BY org LIMIT $2";
    let rows = connection.rows(sql, &[&after, &(limit as i64)])?;
    rows.iter().map(|row| Ok((row.get(0), head_of(row)?))).collect()
}

pub(super) fn head_of(row: &Row) -> Result<Head> {
    Ok(Head {
        epoch: epoch_of(row.get(1))?,
        commits: unsigned(row.get(2)),
        highest: unsigned(row.get(3)),
        promised_now: unsigned(row.get(4)),
        horizon: unsigned(row.get(5)),
        kept: unsigned(row.get(6)),
    })
}

pub(super) fn put_head(connection: &Connection, org: &str, head: &Head) -> Result<()> {
    connection.send(
        "INSERT INTO heads (org, epoch, commits, highest, told, horizon, kept)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (org) DO UPDATE SET epoch = $2, commits = $3, highest = $4, told = $5, horizon = $6,
           kept = $7",
        &[
            &org,
            &epoch_text(&head.epoch)?,
            &signed(head.commits),
            &signed(head.highest),
            &signed(head.promised_now),
            &signed(head.horizon),
            &signed(head.kept),
        ],
    )
}

/// A number as the database stores it. One beyond that is stored as the largest: none occurs.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A stored number. None is negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn epoch_of(text: &str) -> Result<Epoch> {
    serde_json::from_str(text).map_err(|_| damaged("an epoch"))
}

fn epoch_text(epoch: &Epoch) -> Result<String> {
    serde_json::to_string(epoch).map_err(|_| damaged("an epoch"))
}
