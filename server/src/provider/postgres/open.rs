//! Opening a database: its tables are made or brought up to the present format.

use std::sync::Mutex;
use std::time::Duration;

use escale::{Code, Error, Result};
use tokio::runtime::{Builder, Handle};

use super::connect::Connection;
use super::feed::Follower;
use super::heads::{put_site, signed};
use super::pool::Pool;
use super::transaction::lock_site;
use super::turns::Turns;
use super::{Address, PostgresProvider};
use crate::provider::Site;

/// The tables that each format added to the one before it.
const TABLES: [&str; 5] = [
    include_str!("tables.sql"),
    include_str!("trees.sql"),
    include_str!("files.sql"),
    include_str!("kept.sql"),
    include_str!("rows.sql"),
];

/// Connections of an instance: for writes, and for snapshots. One more follows the feed.
const WRITERS_MAX: usize = 8;
const READERS_MAX: usize = 8;

/// How long the opening waits for the writes of other instances.
const OPEN_WAIT: Duration = Duration::from_secs(5);

impl PostgresProvider {
    /// Opens the database, and makes its tables if there are none, with `first`. Errors: `bad_option` for a
    /// database that cannot be reached or used, with the step that would help; `store_too_new`.
    pub fn open(address: &Address, first: &Site) -> Result<Self> {
        Self::open_with(address, Some(first))
    }

    /// The same for a database that must exist. Errors: also `no_store`.
    pub fn open_existing(address: &Address) -> Result<Self> {
        Self::open_with(address, None)
    }

    fn open_with(address: &Address, first: Option<&Site>) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        let pool = |connections_max| Pool::new(address.clone(), runtime.handle().clone(), connections_max);
        make_tables(address, runtime.handle(), first)?;
        Ok(PostgresProvider {
            writers: pool(WRITERS_MAX),
            readers: pool(READERS_MAX),
            follower: Mutex::new(Follower::new(address.clone(), runtime.handle().clone())),
            turns: Turns::default(),
            runtime: Some(runtime),
        })
    }
}

/// Brings the tables up to the present format. Instances that open at once come one after another.
fn make_tables(address: &Address, runtime: &Handle, first: Option<&Site>) -> Result<()> {
    let bad = |error: Error| match error.code() {
        Code::Unavailable => Error::new(Code::BadOption, error.detail()),
        _ => error,
    };
    let connection = Connection::open(address, runtime).map_err(bad)?;
    if format_of(&connection)? == TABLES.len() {
        return Ok(());
    }
    lock_site(&connection, OPEN_WAIT)?;
    let format = format_of(&connection)?;
    if format == 0 && first.is_none() {
        return Err(Error::new(Code::NoStore, "no database here: import something first"));
    }
    // `IF NOT EXISTS` would ask for the right to make it in either case.
    if format == 0 && !has_schema(&connection)? {
        connection.batch("CREATE SCHEMA escale").map_err(|error| {
            let detail = format!(
                "{}; GRANT CREATE ON DATABASE to the role, or CREATE SCHEMA escale AUTHORIZATION of it",
                error.detail()
            );
            Error::new(Code::BadOption, detail)
        })?;
    }
    for (number, tables) in TABLES.iter().enumerate().skip(format) {
        connection.batch(tables)?;
        connection.batch(&format!("INSERT INTO migrations (format) VALUES ({})", number + 1))?;
    }
    if let Some(first) = first.filter(|_| format == 0) {
        put_site(&connection, first)?;
        connection.one("SELECT setval('commits', $1)", &[&signed(first.commits)])?;
    }
    connection.batch("COMMIT")
}

fn has_schema(connection: &Connection) -> Result<bool> {
    Ok(connection.one("SELECT 1 FROM pg_namespace WHERE nspname = 'escale'", &[])?.is_some())
}

/// The format of the tables; 0 if there are none.
fn format_of(connection: &Connection) -> Result<usize> {
    let refused = |error: Error| match error.code() {
        Code::StorageFailed => Error::new(
            Code::BadOption,
            format!("{}; grant the role all rights on the schema escale and its tables", error.detail()),
        ),
        _ => error,
    };
    let sql = "SELECT count(*), count(*) FILTER (WHERE relname = 'migrations') FROM pg_class
               WHERE relnamespace = to_regnamespace('escale') AND relkind = 'r'";
    let row = connection.one(sql, &[])?;
    let (tables, own) = row.map_or((0, 0), |row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
    match (tables, own) {
        (0, _) => return Ok(0),
        (_, 0) => {
            let detail = "the database's schema `escale` belongs to another program";
            return Err(Error::new(Code::BadOption, detail));
        }
        _ => {}
    }
    let row = connection.one("SELECT max(format) FROM escale.migrations", &[]).map_err(refused)?;
    let format = row.map_or(0, |row| row.get::<_, Option<i32>>(0).unwrap_or(0)) as usize;
    if format > TABLES.len() {
        let detail = format!("the database is of format {format}, {} known", TABLES.len());
        return Err(Error::new(Code::StoreTooNew, detail));
    }
    Ok(format)
}
