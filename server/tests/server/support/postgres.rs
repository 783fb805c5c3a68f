//! Databases of a PostgreSQL server that this process starts, and that ends with it.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use escale::Result;
use escale::model::schema::Schema;
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Opening, first_site, fresh_name};
use escale_server::mark::Mark;
use escale_server::provider::{Address, PostgresProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Row};

use crate::support::world::SCHEMA;

/// Runs scripts/postgres, and returns its output.
pub fn script(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres");
    let output = Command::new(script).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    assert!(
        output.status.success(),
        "the tests on PostgreSQL need a server: {}\n(`make test` installs one; ESCALE_POSTGRES names another, as \
         postgres://ROLE@HOST:PORT)",
        text(output.stderr)
    );
    text(output.stdout)
}

/// A server, by the address of its databases without their names.
pub struct Server {
    pub base: String,
    /// The folder of its address.
    address: String,
    /// The folder of its data, if this process has started it.
    folder: Option<String>,
}

impl Server {
    /// Starts a server with settings of its own. It ends with this process.
    pub fn start(settings: &[&str]) -> Self {
        let id = std::process::id().to_string();
        Server::of(script(&[&["start", &id], settings].concat()))
    }

    fn of(folder: String) -> Self {
        let base = format!("postgres://postgres@{}", folder.replace('/', "%2F"));
        Server { base, address: folder.clone(), folder: Some(folder) }
    }

    /// Runs a command of scripts/postgres on a server that this process has started.
    pub fn command(&self, command: &str) {
        self.command_with(command, &[]);
    }

    /// The same with more arguments.
    pub fn command_with(&self, command: &str, more: &[&str]) {
        script(&[&[command, self.folder()], more].concat());
    }

    /// Its folder: a server that this process has started.
    pub fn folder(&self) -> &str {
        self.folder.as_ref().expect("a server of this process")
    }

    /// A base backup, made while the server serves. It is not started, and ends with this process.
    pub fn copy(&self) -> Server {
        Server::of(script(&["copy", self.folder(), &std::process::id().to_string()]))
    }

    /// Makes a standby that misses no acknowledged commit, and lets it take over after a crash, under the same address.
    /// `meanwhile` is called between the two.
    pub fn fail_over(&mut self, meanwhile: impl FnOnce()) {
        let standby = self.copy();
        standby.command("standby");
        let raw = Raw::of(&format!("{}/postgres", self.base));
        raw.batch("ALTER SYSTEM SET synchronous_standby_names = '*'");
        raw.batch("SELECT pg_reload_conf()");
        while raw.rows("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").is_empty() {
            std::thread::yield_now();
        }
        meanwhile();
        drop(raw);
        self.command("crash");
        standby.command("promote");
        script(&["move", &self.address, standby.folder()]);
        if self.folder() != self.address {
            self.command("stop");
        }
        self.folder = standby.folder;
    }

    /// A new database.
    pub fn database(&self) -> Database {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("escale_test_{}_{number}", std::process::id());
        Raw::of(&format!("{}/postgres", self.base)).batch(&format!("CREATE DATABASE {name}"));
        Database { base: self.base.clone(), name }
    }
}

/// The server that most tests share: the one of `ESCALE_POSTGRES`, or one of this process.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| match std::env::var("ESCALE_POSTGRES").ok().filter(|base| !base.is_empty()) {
        Some(base) => Server { base, address: String::new(), folder: None },
        None => Server::start(&[]),
    })
}

/// A database of a test. It is dropped with this value.
pub struct Database {
    base: String,
    pub name: String,
}

impl Database {
    pub fn url(&self) -> String {
        format!("{}/{}", self.base, self.name)
    }

    /// Its address. A test on a busy machine may hold a transaction for long.
    pub fn address(&self) -> Address {
        let url = format!("{}?options=-c%20idle_in_transaction_session_timeout%3D0", self.url());
        Address::parse(&url, |name| std::env::var(name).ok()).unwrap()
    }

    pub fn open(&self) -> PostgresProvider {
        PostgresProvider::open(&self.address(), &first_site(1).unwrap()).unwrap()
    }

    /// A copy, as a backup that is loaded elsewhere. Nobody may be connected.
    pub fn copy(&self) -> Database {
        let name = format!("{}_copy", self.name);
        let admin = Raw::of(&format!("{}/postgres", self.base));
        admin.rows(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
        admin.batch(&format!("CREATE DATABASE {name} TEMPLATE {}", self.name));
        Database { base: self.base.clone(), name }
    }

    /// An instance with the schema of the other tests. Its clock must be near the database's.
    pub fn engine(&self, clock: &Arc<ManualClock>, settings: Settings) -> Result<Engine> {
        let schema = Schema::from_json(SCHEMA).unwrap();
        self.open_engine(Opening { schema, settings, seal: Seal::clear(), clock: clock.clone() })
    }

    /// An instance.
    pub fn open_engine(&self, opening: Opening) -> Result<Engine> {
        let provider = PostgresProvider::open(&self.address(), &first_site(opening.clock.now_ms())?)?;
        Engine::over(Box::new(provider), Mark::none(), opening, fresh_name().unwrap())
    }

    /// Makes the tables, and gives the database a clock that tests set.
    pub fn with_clock(self, ms: u64) -> Self {
        drop(self.open());
        let raw = self.raw();
        raw.batch("CREATE TABLE escale.test_clock (ms bigint); INSERT INTO escale.test_clock VALUES (0)");
        raw.batch(
            "CREATE OR REPLACE FUNCTION escale.clock_ms() RETURNS bigint LANGUAGE sql VOLATILE
               AS 'SELECT ms FROM escale.test_clock'",
        );
        raw.set_clock(ms);
        self
    }

    /// A connection past the provider.
    pub fn raw(&self) -> Raw {
        Raw::of(&self.url())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
            Raw::of(&format!("{}/postgres", self.base)).batch(&sql);
        }
    }
}

/// A connection past the provider.
pub struct Raw {
    runtime: Runtime,
    client: Client,
}

impl Raw {
    pub fn of(url: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).unwrap();
        runtime.spawn(connection);
        Raw { runtime, client }
    }

    pub fn batch(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    /// Sets the database's clock.
    pub fn set_clock(&self, ms: u64) {
        self.batch(&format!("UPDATE escale.test_clock SET ms = {ms}"));
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.runtime.block_on(self.client.query(sql, &[])).unwrap()
    }
}
