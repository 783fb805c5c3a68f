//! TLS between an instance and PostgreSQL: each `sslmode`, on every connection, and the refusals.

use std::path::{Path, PathBuf};

use escale::Code;
use escale_server::engine::first_site;
use escale_server::provider::{Address, PostgresProvider, Provider};

use crate::support::postgres::{Database, Server};

fn given(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/requests/certificates").join(name)
}

/// A server that listens to an address of this machine that no other process of tests has.
struct Networked {
    server: Server,
    ip: String,
}

impl Networked {
    fn start() -> Self {
        let [_, a, b, c] = std::process::id().to_be_bytes();
        // The last digits are neither those of a network nor of all its members.
        let ip = format!("127.{}.{b}.{}", a | 128, c.clamp(1, 254));
        Networked { server: Server::start(&[&format!("listen_addresses={ip}")]), ip }
    }

    fn speak_tls(&self) {
        let [cert, key] = ["first.cert.pem", "first.key.pem"].map(|name| given(name).display().to_string());
        self.server.command_with("tls", &[&cert, &key]);
    }

    /// Opens a database by the network, under that name.
    fn open(&self, database: &Database, host: &str, query: &str) -> escale::Result<PostgresProvider> {
        let (name, ip) = (&database.name, &self.ip);
        let text = format!("postgres://postgres@{host}/{name}?hostaddr={ip}{query}");
        PostgresProvider::open(&Address::parse(&text, |_| None)?, &first_site(1)?)
    }
}

/// Whether the instance's connections are encrypted: to write, to read, and for the feed.
fn protected(database: &Database, provider: &PostgresProvider) -> Vec<bool> {
    let read = provider.read().unwrap();
    let write = provider.write("o", std::time::Duration::from_secs(5)).unwrap();
    drop(provider.changed(None, &mut |_| Ok(())).unwrap());
    let raw = database.raw();
    let protected = loop {
        let rows = raw.rows(
            "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
             WHERE a.application_name = 'escale-server' AND a.datname = current_database()",
        );
        // Connections of an instance that has ended leave a moment later.
        if rows.len() <= 3 {
            break rows.iter().map(|row| row.get(0)).collect();
        }
        std::thread::yield_now();
    };
    drop((read, write));
    protected
}

/// An address whose root is that of this certificate.
fn mode(mode: &str, root: &str) -> String {
    format!("&sslmode={mode}&sslrootcert={}", given(root).display().to_string().replace('/', "%2F"))
}

#[test]
fn every_connection_is_as_protected_as_the_address_says() {
    let network = Networked::start();
    let database = network.server.database();
    // The server has no TLS yet. A preference does without, and a demand is refused.
    let provider = network.open(&database, "localhost", "").unwrap();
    assert_eq!(protected(&database, &provider), [false; 3]);
    drop(provider);
    let refused = |host: &str, query: &str| {
        let error = network.open(&database, host, query).err().unwrap_or_else(|| panic!("{host} {query}"));
        assert_eq!(error.code(), Code::BadOption, "{error}");
        error.detail().to_owned()
    };
    for query in ["&sslmode=require".to_owned(), mode("verify-full", "first.cert.pem")] {
        let said = refused("localhost", &query);
        assert!(said.contains("`ssl = on`"), "{said}");
    }

    network.speak_tls();
    for (host, query) in [
        ("localhost", String::new()),
        ("another.test", "&sslmode=require".into()),
        ("another.test", mode("verify-ca", "first.cert.pem")),
        ("localhost", mode("verify-full", "first.cert.pem")),
    ] {
        let provider =
            network.open(&database, host, &query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(protected(&database, &provider), [true; 3], "{host} {query}");
    }
    for (host, query) in [
        ("another.test", mode("verify-full", "first.cert.pem")),
        ("localhost", mode("verify-full", "second.cert.pem")),
        ("localhost", mode("verify-ca", "second.cert.pem")),
        ("localhost", mode("require", "second.cert.pem")),
    ] {
        let said = refused(host, &query);
        assert!(said.contains("subjectAltName"), "{host} {query}: {said}");
    }

    // Now the database takes nobody without TLS.
    let rules = Path::new(network.server.folder()).join("data/pg_hba.conf");
    std::fs::write(&rules, "local all all trust\nhostssl all all all trust\n").unwrap();
    let raw = database.raw();
    raw.batch("SELECT pg_reload_conf()");
    let said = loop {
        match network.open(&database, "localhost", "&sslmode=disable") {
            // The server reads its rules a moment later.
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(said.code() == Code::BadOption && said.detail().contains("sslmode=verify-full"), "{said}");
    assert!(network.open(&database, "localhost", "").is_ok());
}
