//! Databases of a PostgreSQL server that this process starts, and that ends with it.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use escale_server::engine::first_site;
use escale_server::provider::{Address, PostgresProvider};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Row};

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
}

impl Server {
    /// Starts a server with settings of its own. It ends with this process.
    pub fn start(settings: &[&str]) -> Self {
        let id = std::process::id().to_string();
        let folder = script(&[&["start", &id], settings].concat());
        Server { base: format!("postgres://postgres@{}", folder.replace('/', "%2F")) }
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
        Some(base) => Server { base },
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

    pub fn address(&self) -> Address {
        Address::parse(&self.url(), |name| std::env::var(name).ok()).unwrap()
    }

    pub fn open(&self) -> PostgresProvider {
        PostgresProvider::open(&self.address(), &first_site(1).unwrap()).unwrap()
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

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.runtime.block_on(self.client.query(sql, &[])).unwrap()
    }
}
