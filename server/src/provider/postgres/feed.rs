//! The feed of recent writes (R40).
//!
//! Transactions commit in another order than they begin, so no number of a row tells which rows a reader has
//! seen. The reader remembers a snapshot. The rows since then are those of the transactions that the snapshot did
//! not see, and that the present one sees. That set is exact in any order of commits, and waits for no transaction.

use std::time::{Duration, Instant};

use escale::{Code, Result};
use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Address;
use super::connect::Connection;
use super::failed::{damaged, failed};
use super::heads::{signed, unsigned};
use super::wait::wait;
use crate::provider::feed::Position;
use crate::provider::{Changed, FeedRow, Seen};

/// A reader that was away for longer may have missed rows.
const AWAY_MAX: Duration = Duration::from_secs(9 * 60);

/// How often old rows are removed.
const REMOVE_EVERY: Duration = Duration::from_secs(60);

/// The connection that looks at the feed.
pub(super) struct Follower {
    address: Address,
    runtime: Handle,
    connection: Option<Connection>,
    removed: Instant,
}

impl Follower {
    pub(super) fn new(address: Address, runtime: Handle) -> Self {
        Follower { address, runtime, connection: None, removed: Instant::now() }
    }

    /// See [`crate::provider::Provider::changed`].
    pub(super) fn look(
        &mut self,
        since: Option<&Seen>,
        visit: &mut dyn FnMut(FeedRow) -> Result<()>,
    ) -> Result<Changed> {
        self.connection.take_if(|connection| connection.is_closed());
        let connection = match &self.connection {
            Some(connection) => connection,
            None => self.connection.insert(Connection::open(&self.address, &self.runtime)?),
        };
        let at = Instant::now();
        if at.duration_since(self.removed) > REMOVE_EVERY {
            connection.run("DELETE FROM feed WHERE at < clock_timestamp() - interval '10 min'", &[])?;
            self.removed = at;
        }
        let (number, before) = (connection.number, since.and_then(Seen::snapshot));
        // A crash of the database empties the feed, and ends every connection.
        let is_whole = since.is_none()
            || before.is_some_and(|(connection, _, before)| {
                connection == number && at.duration_since(before) < AWAY_MAX
            });
        let text = match look(connection, before.map(|(_, text, _)| text), visit) {
            Ok(text) => text,
            Err(error) => {
                if error.code() == Code::Unavailable {
                    self.connection = None;
                }
                return Err(error);
            }
        };
        Ok(Changed { seen: Seen(Position::Snapshot { connection: number, text, at }), is_whole })
    }
}

/// Visits the rows since a snapshot. Returns the present one, as of the same statement.
fn look(
    connection: &Connection,
    since: Option<&str>,
    visit: &mut dyn FnMut(FeedRow) -> Result<()>,
) -> Result<String> {
    let Some(since) = since else {
        let row = connection.one("SELECT pg_current_snapshot()::text", &[])?;
        return row.map(|row| row.get(0)).ok_or_else(|| damaged("no snapshot"));
    };
    let statement = connection.prepared(
        "SELECT now.text, f.org, f.class, f.pk, f.v, f.links
         FROM (SELECT pg_current_snapshot()::text AS text) now LEFT JOIN feed f
           ON f.xid >= pg_snapshot_xmax($1::text::pg_snapshot)
           OR f.xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))
         ORDER BY f.number",
    )?;
    wait(async {
        let params: [&(dyn ToSql + Sync); 1] = [&since];
        let rows = connection.client().query_raw(&statement, params).await.map_err(failed)?;
        let mut rows = std::pin::pin!(rows);
        let mut now = String::new();
        while let Some(row) = rows.next().await {
            let row = row.map_err(failed)?;
            now = row.get(0);
            if row.get::<_, Option<&str>>(1).is_some() {
                visit(row_of(&row)?)?;
            }
        }
        Ok(now)
    })
}

fn row_of(row: &Row) -> Result<FeedRow> {
    let links = serde_json::from_str(row.get(5)).map_err(|_| damaged("a line of the feed"))?;
    Ok(FeedRow { org: row.get(1), class: row.get(2), pk: row.get(3), v: unsigned(row.get(4)), links })
}

/// Appends a row. It has the number of the transaction, and is visible with its commit.
pub(super) fn append(connection: &Connection, row: &FeedRow) -> Result<()> {
    let links = serde_json::to_string(&row.links).map_err(|_| damaged("a line of the feed"))?;
    connection.send(
        "INSERT INTO feed (org, class, pk, v, links) VALUES ($1, $2, $3, $4, $5)",
        &[&row.org, &row.class, &row.pk, &signed(row.v), &links],
    )
}
