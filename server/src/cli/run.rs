//! The commands: their arguments, and the process that runs them.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use escale::{Code, Error, Result};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::account::{AccountAction, SignUpPolicy};
use super::backup::{BackupArgs, RestoreArgs};
use super::files::AuditArgs;
use super::log::LogFormat;
use super::private::{keep_private, warn_if_open};
use super::schema::{SchemaArgs, read_schema};
use super::sweep::SweepArgs;
use crate::clock::SystemClock;
use crate::database::Database;
use crate::engine::{Engine, Opening, with_files};
use crate::files;
use crate::http::{DEFS_BYTES_MAX, Origins, Proxies, ServeOptions, Tls, Tokens, start};
use crate::import::{Summary, Target, import_file};
use crate::seal::Seal;
use crate::settings::Settings;

/// The reference server of Escale.
#[derive(Parser)]
#[command(name = "escale-server", version)]
struct Cli {
    /// Whether each line of the log, on the standard error, is text or JSON.
    #[arg(long, global = true, value_enum, default_value = "text")]
    log: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answers sessions.
    Serve(Box<ServeArgs>),
    /// Imports documents from lines of JSON. A second run gives new versions to changed documents only.
    Import(ImportArgs),
    /// Prints an epoch, or renews it after a restoration from a backup.
    Epoch(EpochArgs),
    /// Writes a copy of a folder's database to a file, while a server may serve it.
    Backup(BackupArgs),
    /// Puts such a copy back, and renews the epochs.
    Restore(RestoreArgs),
    /// Removes from journals the actions that a retention rule no longer keeps; only reports them without --apply.
    Sweep(SweepArgs),
    /// Checks a schema's file, without a database.
    Schema(SchemaArgs),
    /// Invites to an org, and changes the roles of its accounts.
    Account(AccountArgs),
    /// Compares the database with the stored files.
    Files(FilesArgs),
}

#[derive(Args)]
struct DataArgs {
    /// The schema, as JSON.
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// The folder of the database, made where there is none, or postgres://ROLE@HOST:PORT/NAME.
    #[arg(long, visible_alias = "database", value_name = "DIR|URL", value_parser = Database::parse)]
    data: Database,
    /// Seal data at rest under the 32 bytes of this file (hexadecimal or base64).
    #[arg(long, value_name = "FILE")]
    site_key: Option<PathBuf>,
    /// Seal a database that was in clear until now. A new one, and one that is sealed, need no word.
    #[arg(long, requires = "site_key")]
    seal: bool,
    /// The bytes of files: a folder, or s3://BUCKET/PREFIX with the environment of AWS. By default it is `files` in the folder
    /// of the database; with PostgreSQL there are no files without it. All instances share it.
    #[arg(long, value_name = "DIR|URL")]
    files: Option<String>,
    /// How far the clocks of several instances may disagree.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    skew: u64,
    /// Days for which tombstones and departures are kept.
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    retention: u64,
    /// Of PostgreSQL: whether a server that takes over has every commit, as synchronous standbys have. If it may lack
    /// some, all sessions load their collections again.
    #[arg(long, value_enum, default_value = "lossy")]
    failover: Failover,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Failover {
    Lossy,
    Lossless,
}

#[derive(Args)]
struct ServeArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7700")]
    listen: String,
    /// Speak TLS with the certificate of this file of PEM, and those that lead to a root. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A path before /ORG, such as /api.
    #[arg(long, value_name = "PATH", default_value = "")]
    base: String,
    /// Ask for a bearer token: {token: {account, orgs: [..], role: "read" | "write" | "admin", until?: MS}}.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Have accounts: who may make one. Sessions then need a token, of an account or of --tokens.
    #[arg(long, value_enum, value_name = "WHO")]
    sign_up: Option<SignUpPolicy>,
    /// Pages of this origin may call, as pages of this machine may. Can be given several times.
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    /// Milliseconds that sessions take off the server's time for their collections' version: at least 1000 + skew.
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    delta: u64,
    /// Days for which the results of operations are kept.
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    results: u64,
    /// The newest states of each document that the journal keeps, 1 to 100; 0 keeps all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    journal: u32,
    /// Bytes of rows after which a reply stops.
    #[arg(long, value_name = "BYTES", default_value_t = escale::limits::PAGE_BYTES)]
    page_bytes: usize,
    /// Bytes of a file.
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 30)]
    file_max: u64,
    /// Days for which an upload is kept that no document references.
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    upload_days: u64,
    /// Days for which a file is kept after its last reference has ended: at least as many.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    file_days: u64,
    /// Days after which the bytes of such a file go. A backup of the database that is younger still finds them.
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    purge_days: u64,
    /// Believe the X-Forwarded-For of proxies in this network: the limits then count their callers, and not the proxy. Can
    /// be given several times.
    #[arg(long, value_name = "NETWORK")]
    trusted_proxy: Vec<String>,
    /// Answer /livez, /readyz and /metrics here, for operators only: never on an address that strangers reach.
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Export spans of requests to this collector, by OTLP over HTTP, such as http://127.0.0.1:4318.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Seconds between the first SIGTERM and the end of new connections, in which /readyz says 503 (5 with --admin).
    #[arg(long, value_name = "S")]
    drain_wait: Option<u64>,
    /// Seconds over which sockets are then closed (20 with --admin). A second SIGTERM ends it at once.
    #[arg(long, value_name = "S")]
    drain: Option<u64>,
    /// Sockets open at once. Allow the process as many files, and 2,048 more for other connections.
    #[arg(long, value_name = "N", default_value_t = 12_000)]
    sockets: usize,
    /// Bytes of the names that a socket may follow, all together. A socket with more of them is closed.
    #[arg(long, value_name = "BYTES", default_value_t = DEFS_BYTES_MAX)]
    defs_bytes: usize,
    /// Pulls that hints and confirmations may cause in a second. Further ones wait, in a random order.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pulls: u64,
    /// Whether replies of 1 KiB or more are compressed for callers that accept it. The lengths of compressed replies tell
    /// more to who sees the network (docs/security.md).
    #[arg(long, value_enum, default_value = "on")]
    compress: Switch,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Args)]
struct ImportArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The org to import into.
    #[arg(long)]
    org: String,
    /// The class of the documents.
    #[arg(long)]
    class: String,
    /// Lines of JSON, compressed by gzip or not.
    #[arg(value_name = "FILE.jsonl[.gz]")]
    file: PathBuf,
}

#[derive(Args)]
struct AccountArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The org.
    #[arg(long)]
    org: String,
    #[command(subcommand)]
    action: AccountAction,
}

#[derive(Args)]
struct FilesArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    audit: AuditArgs,
}

#[derive(Args)]
struct EpochArgs {
    /// Begin a new epoch: the sessions of the org, or all sessions, load their collections again.
    #[arg(long)]
    renew: bool,
    /// Of PostgreSQL: accept the server as it is now, without new epochs, for example after pg_upgrade.
    #[arg(long, conflicts_with_all = ["renew", "org"])]
    adopt: bool,
    /// The org; without it, the epoch is that of all orgs in which nothing was written, and all are renewed.
    #[arg(long)]
    org: Option<String>,
    /// The folder of the database, or postgres://ROLE@HOST:PORT/NAME.
    #[arg(long, visible_alias = "database", value_name = "DIR|URL", value_parser = Database::parse)]
    data: Database,
}

/// Runs the command of the process's arguments.
pub fn run() -> Result<()> {
    run_with(Ok)
}

/// Like [`run`], for a server with application-defined operations: `prepare` registers them on the engine
/// that serves.
pub fn run_with(prepare: impl FnOnce(Engine) -> Result<Engine>) -> Result<()> {
    keep_private();
    let Cli { log, command } = Cli::parse();
    let collector = match &command {
        Command::Serve(args) => args.otlp.as_deref(),
        _ => None,
    };
    // It ends after the command, with its last spans.
    let _exporting = log.start(collector)?;
    match command {
        Command::Serve(args) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .map_err(|e| Error::new(Code::Internal, e.to_string()))?;
            runtime.block_on(serve(*args, prepare))
        }
        Command::Import(args) => import(&args),
        Command::Epoch(args) => epoch(&args),
        Command::Backup(args) => args.run(say),
        Command::Restore(args) => args.run(SystemClock::shared().now_ms(), say),
        Command::Sweep(args) => args.run(SystemClock::shared().now_ms(), say),
        Command::Schema(args) => args.run(say),
        Command::Account(args) => {
            args.action.run(&open(&args.data, settings_of(&args.data))?, &args.org, say)
        }
        Command::Files(FilesArgs { data, audit }) => audit.run(&open(&data, settings_of(&data))?, say),
    }
}

fn open(args: &DataArgs, settings: Settings) -> Result<Engine> {
    let schema = read_schema(&args.schema)?;
    let seal = match &args.site_key {
        Some(path) if args.seal => Seal::from_file(path)?.adopting(),
        Some(path) => Seal::from_file(path)?,
        None => Seal::clear(),
    };
    let engine = args.data.engine(Opening { schema, settings, seal, clock: SystemClock::shared() })?;
    match &args.files {
        Some(address) => with_files(engine, files::open(address)?),
        None => Ok(engine),
    }
}

async fn serve(args: ServeArgs, prepare: impl FnOnce(Engine) -> Result<Engine>) -> Result<()> {
    let settings = Settings {
        delta_ms: args.delta,
        skew_ms: args.data.skew,
        retention_days: args.data.retention,
        results_days: args.results,
        journal_max: args.journal,
        page_bytes: args.page_bytes,
        file_bytes_max: args.file_max,
        upload_days: args.upload_days,
        file_days: args.file_days,
        purge_days: args.purge_days,
        is_failover_lossless: args.data.failover == Failover::Lossless,
        ..Settings::default()
    };
    let tokens = match args.tokens {
        Some(path) => Tokens::from_file(path)?,
        None => Tokens::none(),
    };
    let engine = Arc::new(prepare(open(&args.data, settings)?)?);
    if !tokens.are_required() && args.sign_up.is_none() {
        tracing::warn!("without --tokens and --sign-up anyone who reaches this address may enter");
    }
    if !engine.is_sealing() {
        tracing::warn!("without --site-key data rests in clear in the database");
    }
    if let Some(folder) = args.data.data.folder() {
        warn_if_open(folder);
    }
    let mut options = ServeOptions::new(engine, &args.listen);
    options.base = args.base;
    options.tokens = tokens;
    options.sign_up = args.sign_up.map(Into::into);
    options.origins = Origins::new(&args.origin)?;
    options.proxies = Proxies::new(&args.trusted_proxy)?;
    options.tls = match args.tls_cert.zip(args.tls_key) {
        Some((cert, key)) => Some(Tls::from_files(cert, key)?),
        None => None,
    };
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    options.sockets_max.1 = args.sockets.min(1_000_000);
    options.pulls = args.pulls.min(1_000_000);
    options.defs_bytes_max = args.defs_bytes.min(16 << 20);
    options.compresses = args.compress == Switch::On;
    // Without a load balancer that asks, waiting helps nobody.
    let seconds = |given: Option<u64>, with_admin| {
        Duration::from_secs(given.unwrap_or(if args.admin.is_some() { with_admin } else { 0 }).min(600))
    };
    let (wait, drain) = (seconds(args.drain_wait, 5), seconds(args.drain, 20));
    options.drain = drain;
    options.admin = args.admin;
    let base = options.base.trim_end_matches('/').to_owned();
    // The signals are caught before the address is printed: a script that waits for that line may stop the
    // server at once.
    let mut stop = stop_signals()?;
    let running = start(options).await?;
    if let Some(admin) = running.admin {
        say(&format!("for operators on http://{admin}"))?;
    }
    say(&format!("listening on {scheme}://{}{base}", running.address))?;
    stop.recv().await;
    tracing::info!("stopping");
    running.drain();
    let ended = async {
        tokio::time::sleep(wait).await;
        running.stop().await;
    };
    tokio::select! {
        () = ended => {}
        _ = stop.recv() => tracing::warn!("stopped by a second signal"),
    }
    Ok(())
}

/// One item for each SIGTERM or SIGINT.
fn stop_signals() -> Result<UnboundedReceiver<()>> {
    let (sender, signals) = unbounded_channel();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |e: std::io::Error| Error::new(Code::Internal, e.to_string());
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let (mut signal, sender) = (signal(kind).map_err(failed)?, sender.clone());
            tokio::spawn(async move { while signal.recv().await.is_some() && sender.send(()).is_ok() {} });
        }
    }
    #[cfg(not(unix))]
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {} });
    Ok(signals)
}

/// The settings of a command that answers no sessions.
fn settings_of(data: &DataArgs) -> Settings {
    Settings {
        skew_ms: data.skew,
        retention_days: data.retention,
        delta_ms: Settings::default().delta_ms + data.skew,
        is_failover_lossless: data.failover == Failover::Lossless,
        ..Settings::default()
    }
}

fn import(args: &ImportArgs) -> Result<()> {
    let engine = open(&args.data, settings_of(&args.data))?;
    let started = Instant::now();
    let mut shown = Instant::now();
    let target = Target { org: &args.org, class: &args.class };
    let summary = import_file(&engine, target, &args.file, |so_far| {
        if shown.elapsed() > Duration::from_secs(1) {
            shown = Instant::now();
            tracing::info!(lines = so_far.lines, "importing");
        }
    })?;
    let Summary { lines, written, deleted, unchanged } = summary;
    let seconds = started.elapsed().as_secs_f64();
    say(&format!(
        "{lines} lines: {written} written, {deleted} deleted, {unchanged} unchanged, in {seconds:.1} s"
    ))
}

fn epoch(args: &EpochArgs) -> Result<()> {
    let org = args.org.as_deref();
    if args.adopt {
        args.data.adopt()?;
    }
    let epoch = if args.renew {
        args.data.renew_epoch(org, SystemClock::shared().now_ms())?
    } else {
        args.data.epoch(org)?
    };
    say(&serde_json::to_string(&epoch).map_err(|e| Error::new(Code::Internal, e.to_string()))?)
}

/// Prints a line on the standard output, for people and scripts.
fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|e| Error::new(Code::Internal, format!("the standard output: {e}")))
}
