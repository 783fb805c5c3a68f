//! A connection: its settings, the checks of the server at its other end, and statements on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use escale::{Code, Error, Result};
use tokio::runtime::Handle;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Socket, Statement};

use super::address::{Address, cure_of};
use super::failed::{cause, failed};
use super::wait::{Encoded, Pending, wait};

/// The answer of the client.
type Answer<T> = std::result::Result<T, tokio_postgres::Error>;

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The oldest version that is known to work: 14.
const VERSION_MIN: i32 = 140_000;

/// How long a connection may take to be made, for each host.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// After this silence the system asks whether the other end is there, and how long an answer may take.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The settings of each connection, unless the `options` of the address name them. Every query has its index, so the
/// planner must not prefer to read a whole table while it knows too little of it. If it has no other choice, it believes
/// the query to be dear, and would compile it each time. A lost machine frees its org after three seconds.
const SETTINGS: [(&str, &str); 8] = [
    ("search_path", "escale"),
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "3s"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("timezone", "UTC"),
    ("client_min_messages", "warning"),
    ("default_transaction_isolation", "read committed"),
];

/// Counts connections, so that each has a number of its own.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A connection to the database, used by one thread at a time.
pub(super) struct Connection {
    client: Arc<Client>,
    pending: RefCell<Pending>,
    statements: RefCell<HashMap<&'static str, Statement>>,
    /// Its number: no other connection of this process has it.
    pub(super) number: u64,
    /// The system and the database at its other end, which stay the same.
    pub(super) database: String,
}

impl Connection {
    /// Connects, and checks the server. Errors: `unavailable`; `bad_option` for a server that cannot be used.
    pub(super) fn open(address: &Address, runtime: &Handle) -> Result<Self> {
        let options = address.config.get_options().unwrap_or_default();
        let settings = SETTINGS.iter().filter(|(name, _)| !options.contains(name));
        let settings: Vec<_> = settings.map(|(name, value)| format!("SET {name} = '{value}';")).collect();
        let Address { mut config, tls } = address.clone();
        config
            .connect_timeout(CONNECT_MAX)
            .keepalives_idle(SILENCE_MAX)
            .tcp_user_timeout(SILENCE_MAX)
            .application_name("escale-server");
        let connecting = runtime.spawn(async move {
            let Some(tls) = tls else { return connect(&config, NoTls).await };
            match connect(&config, tls).await {
                // A preference is no condition.
                Err(error) if config.get_ssl_mode() == SslMode::Prefer && cure_of(&error).is_some() => {
                    connect(config.ssl_mode(SslMode::Disable), NoTls).await
                }
                connected => connected,
            }
        });
        let client = match wait(connecting) {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(not_connected(&error)),
            Err(error) => return Err(Error::new(Code::Internal, error.to_string())),
        };
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (client, database) = (Arc::new(client), String::new());
        let (pending, statements) = (RefCell::default(), RefCell::default());
        let mut connection = Connection { client, pending, statements, number, database };
        connection.check_server()?;
        connection.batch(&settings.concat())?;
        Ok(connection)
    }

    fn check_server(&mut self) -> Result<()> {
        let row = self.one(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
               current_setting('server_encoding'), pg_is_in_recovery(),
               current_setting('transaction_read_only')::bool,
               (SELECT system_identifier FROM pg_control_system())::text || '/' ||
                 (SELECT oid FROM pg_database WHERE datname = current_database())",
            &[],
        )?;
        let row = row.ok_or_else(|| Error::new(Code::Internal, "a query without a row"))?;
        let bad = |detail: String| Err(Error::new(Code::BadOption, detail));
        let (version, name, encoding): (i32, &str, &str) = (row.get(0), row.get(1), row.get(2));
        if version < VERSION_MIN {
            return bad(format!("the database is PostgreSQL {name}: 14 or later is needed, so upgrade it"));
        }
        if encoding != "UTF8" {
            return bad(format!(
                "the database has the encoding {encoding}: make one with ENCODING 'UTF8' TEMPLATE template0"
            ));
        }
        let (is_replica, is_read_only): (bool, bool) = (row.get(3), row.get(4));
        if is_replica {
            return Err(Error::new(
                Code::Unavailable,
                "the database is a read-only replica: name the primary, or all hosts, as in \
                 postgres://HOST1,HOST2/NAME?target_session_attrs=read-write",
            ));
        }
        if is_read_only {
            return Err(Error::new(
                Code::Unavailable,
                "the database is read-only: see `default_transaction_read_only` of the database and its role",
            ));
        }
        self.database = row.get(5);
        Ok(())
    }

    /// Whether the connection is lost.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// The client, for statements that are sent together. See [`Connection::after_pending`].
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for this, and for the statements that were sent before it and not waited for. Errors: the first one.
    pub(super) fn after_pending<T>(&self, last: impl Future<Output = Result<T>>) -> Result<T> {
        self.pending.take().wait_with(last)
    }

    /// The statement of this text, prepared once for each connection.
    pub(super) fn prepared(&self, sql: &'static str) -> Result<Statement> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.ask(self.client.prepare(sql))?;
        self.statements.borrow_mut().insert(sql, statement.clone());
        Ok(statement)
    }

    fn ask<T>(&self, asked: impl Future<Output = Answer<T>>) -> Result<T> {
        self.after_pending(async { asked.await.map_err(failed) })
    }

    /// The rows of a query.
    pub(super) fn rows(&self, sql: &'static str, params: Params) -> Result<Vec<Row>> {
        let statement = self.prepared(sql)?;
        self.ask(self.client.query(&statement, params))
    }

    /// The only row of a query, if there is one.
    pub(super) fn one(&self, sql: &'static str, params: Params) -> Result<Option<Row>> {
        let statement = self.prepared(sql)?;
        self.ask(self.client.query_opt(&statement, params))
    }

    /// Runs a statement. Returns the number of rows that it changed.
    pub(super) fn run(&self, sql: &'static str, params: Params) -> Result<u64> {
        let statement = self.prepared(sql)?;
        self.ask(self.client.execute(&statement, params))
    }

    /// Runs a statement that nobody waits for. A later statement, or the commit, has its error.
    pub(super) fn send(&self, sql: &'static str, params: Params) -> Result<()> {
        let statement = self.prepared(sql)?;
        let params = Encoded::all(params, statement.params())?;
        let client = Arc::clone(&self.client);
        self.pending.borrow_mut().send(async move {
            let params = params.iter().map(|param| param as &(dyn ToSql + Sync));
            client.execute_raw(&statement, params).await.map(drop).map_err(failed)
        });
        Ok(())
    }

    /// Runs statements without parameters, in one message.
    pub(super) fn batch(&self, sql: &str) -> Result<()> {
        self.ask(self.client.batch_execute(sql))
    }

    /// The same, without waiting.
    pub(super) fn send_batch(&self, sql: &'static str) {
        let client = Arc::clone(&self.client);
        self.pending.borrow_mut().send(async move { client.batch_execute(sql).await.map_err(failed) });
    }
}

/// Connects, and lets the connection work on the runtime of the caller.
async fn connect<T>(config: &Config, tls: T) -> Answer<Client>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::warn!(error = cause(&error), "a connection to the database was lost");
        }
    });
    Ok(client)
}

/// The error of a connection that was not made. A refusal of the server can be corrected by its operator only.
fn not_connected(error: &tokio_postgres::Error) -> Error {
    let why = cause(error);
    let state = error.code().map(|state| state.code().to_owned()).unwrap_or_default();
    let cure = match state.as_str() {
        // The server's own words say whether it wants TLS.
        "28000" if why.contains("no encryption") => "let it have TLS: sslmode=verify-full and sslrootcert",
        "28P01" | "28000" => "correct the role and its password in the address, or in PGUSER and PGPASSWORD",
        "3D000" => "make it with `createdb`, or correct the name in the address",
        "53300" => "raise its `max_connections`: each instance of the server takes up to 17",
        _ if cure_of(error).is_some() => cure_of(error).unwrap_or_default(),
        _ => "check that it runs, and the host and port of the address",
    };
    Error::new(Code::Unavailable, format!("cannot connect to the database: {why}; {cure}"))
}
