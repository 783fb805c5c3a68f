//! The databases that the same test runs on: a folder with SQLite, or PostgreSQL.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use escale::Result;
use escale_server::engine::{Engine, Opening};

use crate::support::outside::Outside;
#[cfg(feature = "postgres")]
use crate::support::postgres::{Database, Raw, Server};
use crate::support::world::quick_folder;

/// A database, past the provider.
pub enum Base {
    Folder(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Postgres(Database, Box<Raw>),
}

/// A line of the journal: actor, cause, time, type; the state as stored; the version.
pub type JournalLine = ([String; 4], Option<Vec<u8>>, u64);

impl Base {
    /// A new folder, in memory if the system has such folders.
    pub fn folder() -> Self {
        Base::Folder(quick_folder())
    }

    /// A new database with its tables, and a clock that the test sets if `clock` says so.
    #[cfg(feature = "postgres")]
    pub fn postgres(server: &Server, clock: Option<u64>) -> Self {
        let database = server.database();
        let database = match clock {
            Some(ms) => database.with_clock(ms),
            None => database,
        };
        let raw = database.raw();
        Base::Postgres(database, Box::new(raw))
    }

    /// The folder of the data.
    fn data(&self) -> PathBuf {
        match self {
            Base::Folder(folder) => folder.path().join("data"),
            #[cfg(feature = "postgres")]
            Base::Postgres(..) => panic!("a database has no folder"),
        }
    }

    /// Starts the real binary on it. `folder` is for the schema.
    pub fn serve(&self, folder: &Path) -> Outside {
        self.serve_with(folder, &[])
    }

    /// The same with more arguments.
    pub fn serve_with(&self, folder: &Path, args: &[&str]) -> Outside {
        match self {
            Base::Folder(_) => Outside::start_on(folder, self.data().to_str().unwrap(), args),
            #[cfg(feature = "postgres")]
            Base::Postgres(database, _) => Outside::start_on(folder, &database.url(), args),
        }
    }

    /// Ends every connection of the instances.
    #[cfg(feature = "postgres")]
    pub fn cut(&self) {
        let Base::Postgres(database, _) = self else { return };
        database.raw().rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'escale-server'",
        );
    }

    /// The same database on a new connection past the provider, after its server was stopped.
    #[cfg(feature = "postgres")]
    pub fn again(self) -> Self {
        match self {
            Base::Postgres(database, _) => {
                let raw = database.raw();
                Base::Postgres(database, Box::new(raw))
            }
            folder @ Base::Folder(_) => folder,
        }
    }

    /// Panics if the file of the database is damaged.
    pub fn check(&self) {
        if matches!(self, Base::Folder(_)) {
            let sql = "PRAGMA integrity_check";
            let sound: String = self.sqlite().query_row(sql, [], |row| row.get(0)).unwrap();
            assert_eq!(sound, "ok");
        }
    }

    fn sqlite(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(Engine::database_in(&self.data())).unwrap()
    }

    /// Opens an instance.
    pub fn open(&self, opening: Opening) -> Result<Engine> {
        match self {
            Base::Folder(_) => Engine::open(&self.data(), opening),
            #[cfg(feature = "postgres")]
            Base::Postgres(database, _) => database.open_engine(opening),
        }
    }

    /// Sets the clock of the database, if it has one of its own.
    #[allow(unused_variables)] // without PostgreSQL
    pub fn set_clock(&self, ms: u64) {
        match self {
            Base::Folder(_) => {}
            #[cfg(feature = "postgres")]
            Base::Postgres(_, raw) => raw.set_clock(ms),
        }
    }

    /// Whether the feed keeps its place over a restart of the instance.
    pub fn keeps_place_of_feed(&self) -> bool {
        matches!(self, Base::Folder(_))
    }

    /// The journal, in the order of its lines.
    pub fn journal(&self) -> Vec<JournalLine> {
        match self {
            Base::Folder(_) => {
                let raw = self.sqlite();
                let sql =
                    "SELECT goblin, commitId, timestamp, type, action, version FROM actions ORDER BY rowid";
                let mut statement = raw.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| {
                    let texts = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
                    Ok((texts, row.get(4)?, row.get(5)?))
                });
                rows.unwrap().map(std::result::Result::unwrap).collect()
            }
            #[cfg(feature = "postgres")]
            Base::Postgres(_, raw) => {
                let sql = "SELECT goblin, convert_from(commit_id, 'UTF8'), timestamp, type, action, version
                           FROM escale.actions ORDER BY number";
                let line = |row: &tokio_postgres::Row| {
                    let texts = [row.get(0), row.get(1), row.get(2), row.get(3)];
                    (texts, row.get(4), row.get::<_, i64>(5) as u64)
                };
                raw.rows(sql).iter().map(line).collect()
            }
        }
    }

    /// The ids of the stored operations with the versions that they gave, ascending.
    pub fn operations(&self) -> Vec<(String, u64)> {
        match self {
            Base::Folder(_) => {
                let raw = self.sqlite();
                let mut statement = raw.prepare("SELECT id, v FROM ops ORDER BY id").unwrap();
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.map(std::result::Result::unwrap).collect()
            }
            #[cfg(feature = "postgres")]
            Base::Postgres(_, raw) => {
                let sql = "SELECT convert_from(id, 'UTF8'), v FROM escale.ops ORDER BY id";
                raw.rows(sql).iter().map(|row| (row.get(0), row.get::<_, i64>(1) as u64)).collect()
            }
        }
    }

    /// The first bytes of all that is stored sealed, or in clear.
    pub fn first_bytes(&self) -> BTreeSet<u8> {
        let columns = [("documents", "data"), ("actions", "action"), ("ops", "result")];
        let found = columns.map(|(table, column)| match self {
            Base::Folder(_) => {
                let raw = self.sqlite();
                let sql = format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL");
                let mut statement = raw.prepare(&sql).unwrap();
                let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
                rows.map(|row| row.unwrap()[0]).collect::<BTreeSet<u8>>()
            }
            #[cfg(feature = "postgres")]
            Base::Postgres(_, raw) => {
                let sql = format!("SELECT {column} FROM escale.{table} WHERE {column} IS NOT NULL");
                raw.rows(&sql).iter().map(|row| row.get::<_, Vec<u8>>(0)[0]).collect()
            }
        });
        found.into_iter().flatten().collect()
    }
}
