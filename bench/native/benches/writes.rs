//! `cargo bench -p escale-benches --bench writes`: writes a second on PostgreSQL, by the engine and by
//! pgbench. pgbench sends the statements that the database's log shows of one such write, with a version that rises: an
//! update that repeats the indexed values of a row costs PostgreSQL far less, and no write of the engine is one. Both
//! take turns. `SECONDS` sets the length of a turn, `TURNS` their number.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::clock::SystemClock;
use escale_server::database::Database;
use escale_server::engine::{Engine, Opening};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

const SCHEMA: &str =
    r#"{"Note": {"key": ["id"], "collections": {"shelf": {"key": ["shelf"], "mutable": true}}}}"#;

/// As the provider sets its connections.
const OPTIONS: &str = "-c search_path=escale -c enable_seqscan=off -c jit=off";

/// The org of the recorded write. Clients take `o0`, `o1` and so on.
const RECORDED: &str = "'o0'";

/// A server of its own, which ends with this process.
struct Postgres {
    folder: String,
}

impl Postgres {
    fn start(settings: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
        let id = std::process::id().to_string();
        let output = Command::new(script).arg("start").arg(id).args(settings).output().expect("the script");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        Postgres { folder: String::from_utf8_lossy(&output.stdout).trim().to_owned() }
    }

    fn tool(&self, name: &str) -> Command {
        let folder = std::env::var("PG_BIN").unwrap_or_else(|_| "/usr/lib/postgresql/15/bin".into());
        let path = Path::new(&folder).join(name);
        let mut command = Command::new(if path.exists() { path } else { name.into() });
        command.args(["--host", &self.folder, "--username", "postgres"]).env("PGOPTIONS", OPTIONS);
        command
    }

    fn sql(&self, sql: &str) {
        let status = self.tool("psql").args(["--quiet", "--command", sql, "postgres"]).status();
        assert!(status.expect("psql").success(), "{sql}");
    }

    fn engine(&self) -> Engine {
        let url = format!("postgres://postgres@{}/postgres", self.folder.replace('/', "%2F"));
        let opening = Opening {
            schema: Schema::from_json(SCHEMA).expect("a schema"),
            settings: Settings::default(),
            seal: Seal::clear(),
            clock: SystemClock::shared(),
        };
        Database::parse(&url).and_then(|database| database.engine(opening)).expect("an engine")
    }

    /// The statements of the last write of the org `o0`, as a script of pgbench.
    fn recorded(&self) -> String {
        self.sql("ALTER DATABASE postgres SET log_statement = 'all'");
        let engine = self.engine();
        write(&engine, 0, 0);
        write(&engine, 0, 1);
        drop(engine);
        self.sql("ALTER DATABASE postgres RESET log_statement");
        let log = std::fs::read_to_string(format!("{}/log", self.folder)).expect("the log");
        let version = self.answer(&format!("SELECT highest FROM heads WHERE org = {RECORDED}"));
        let (recorded, rising) = (script(&log), ":v");
        let script = recorded.replace(&format!("'{version}'"), rising);
        // The head, the document, its membership and the feed have the version.
        assert!(script.matches(rising).count() >= 4, "the version {version}: {recorded}");
        format!("\\set v :v + 1\n{script}")
    }

    /// The answer to a query, as text.
    fn answer(&self, sql: &str) -> String {
        let args = ["--quiet", "--tuples-only", "--no-align", "--command", sql, "postgres"];
        let output = self.tool("psql").args(args).output().expect("psql");
        String::from_utf8(output.stdout).expect("a text").trim().to_owned()
    }

    /// Updates so far, and those of them that left the indexes alone.
    fn updates(&self) -> (u64, u64) {
        let sql = "SELECT sum(n_tup_upd) || ' ' || sum(n_tup_hot_upd) FROM pg_stat_user_tables
                   WHERE relname IN ('documents', 'memberships')";
        let answer = self.answer(sql);
        let (all, few) = answer.split_once(' ').expect("two numbers");
        (all.parse().expect("a number"), few.parse().expect("a number"))
    }
}

/// One write: a note moves to another text.
fn write(engine: &Engine, org: usize, number: u64) {
    let of = |name: &str, value: String| (name.to_owned(), Value::from(value.as_str()));
    let note = BTreeMap::from([
        of("id", "a".into()),
        of("shelf", "one".into()),
        of("text", format!("{number} {}", "a line that says nothing new ".repeat(16))),
    ]);
    engine.write(&format!("o{org}"), |w| w.put("Note", note.clone()).map(drop)).expect("written");
}

/// The statements of the log from the last BEGIN with an org's lock to its COMMIT.
fn statements(log: &str) -> Vec<String> {
    let mut all = Vec::<String>::new();
    for line in log.lines() {
        if line.starts_with('\t') {
            if let Some(last) = all.last_mut() {
                last.push(' ');
                last.push_str(line.trim());
            }
            continue;
        }
        let Some((_, said)) = line.split_once("] ") else { continue };
        if let Some(parameters) = said.strip_prefix("DETAIL:  parameters: ") {
            let last = all.last_mut().expect("a statement");
            *last = with_parameters(last, parameters);
        } else if let Some((_, sql)) = said.strip_prefix("LOG:  ").and_then(|said| said.split_once(": ")) {
            all.push(sql.to_owned());
        }
    }
    let begin =
        all.iter().rposition(|sql| sql.starts_with("BEGIN; SET LOCAL lock_timeout")).expect("a write");
    let length = all[begin..].iter().position(|sql| sql == "COMMIT").expect("its end");
    all[begin..=begin + length].to_vec()
}

/// A statement with its parameters, `$1 = 'a', $2 = NULL`, in their places.
fn with_parameters(sql: &str, parameters: &str) -> String {
    let mut sql = sql.to_owned();
    let mut rest = parameters;
    let mut values = Vec::new();
    while let Some((_, from)) = rest.split_once(" = ") {
        let length = if from.starts_with('\'') { quoted(from) } else { "NULL".len() };
        values.push(&from[..length]);
        rest = &from[length..];
    }
    for (at, value) in values.iter().enumerate().rev() {
        let value = if *value == RECORDED { "('o'||:client_id::text)" } else { value };
        sql = sql.replace(&format!("${}", at + 1), value);
    }
    sql
}

/// The length of a quoted text, in which two quotes stand for one.
fn quoted(text: &str) -> usize {
    let mut at = 1;
    loop {
        at += text[at..].find('\'').expect("its end") + 1;
        if !text[at..].starts_with('\'') {
            return at;
        }
        at += 1;
    }
}

/// The statements as a script: the beginning in one message, as the provider sends it, then one by one, and the end
/// in one message. The provider does not wait for most of those between.
fn script(log: &str) -> String {
    let statements = statements(log);
    let (begin, rest) = statements.split_at(3);
    let (middle, end) = rest.split_at(rest.len() - 2);
    assert!(begin[1].contains("FROM heads") && begin[2].contains("FROM site"), "{begin:#?}");
    assert!(end[0].contains("nextval"), "{end:#?}");
    let lines = |group: &[String]| format!("{};\n", group.join(";\n"));
    let begin = lines(begin).replace("; S", ";\nS");
    format!(
        "\\startpipeline\n{begin}\\endpipeline\n{}\\startpipeline\n{}\\endpipeline\n",
        lines(middle),
        lines(end)
    )
}

fn by_engine(postgres: &Postgres, clients: usize, time: Duration) -> f64 {
    let engine = Arc::new(postgres.engine());
    for org in 0..clients {
        write(&engine, org, 0);
    }
    let (writes, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for org in 0..clients {
            let (engine, writes, is_over) = (&engine, &writes, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    write(engine, org, writes.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
        std::thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
    });
    writes.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

fn by_pgbench(postgres: &Postgres, script: &Path, clients: usize, time: Duration) -> f64 {
    let (clients, seconds) = (clients.to_string(), time.as_secs().to_string());
    let before = postgres.updates();
    let mut pgbench = postgres.tool("pgbench");
    // Above the versions of the turn before.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
    pgbench.args(["--define", &format!("v={now}")]);
    pgbench.args(["--no-vacuum", "--protocol=prepared", "--client", &clients, "--time", &seconds, "--file"]);
    let output = pgbench.arg(script).arg("postgres").output().expect("pgbench");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("number of failed transactions: 0"), "{out}{err}");
    let (all, cheap) = postgres.updates();
    let (all, cheap) = (all - before.0, cheap - before.1);
    assert!(
        cheap * 100 <= all,
        "{cheap} of {all} updates repeat indexed values, and those of the engine never do"
    );
    let line = out.lines().find_map(|line| line.strip_prefix("tps = ")).expect("a figure");
    line.split(' ').next().and_then(|figure| figure.parse().ok()).expect("a number")
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let time = Duration::from_secs(number("SECONDS", 5).max(1));
    let turns = number("TURNS", 5).max(1);
    for fsync in ["off", "on"] {
        let postgres = Postgres::start(&[&format!("fsync={fsync}")]);
        let script = std::env::temp_dir().join(format!("escale-writes-{}.sql", std::process::id()));
        std::fs::write(&script, postgres.recorded()).expect("the script of pgbench");
        for clients in [1, 8] {
            let (mut engine, mut pgbench) = (Vec::new(), Vec::new());
            for _ in 0..turns {
                engine.push(by_engine(&postgres, clients, time));
                pgbench.push(by_pgbench(&postgres, &script, clients, time));
            }
            let ratios: Vec<f64> = engine.iter().zip(&pgbench).map(|(e, p)| e / p).collect();
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let ratio = median(ratios);
            let (engine, pgbench) = (median(engine), median(pgbench));
            eprintln!(
                "fsync {fsync}, {clients} clients, an org each: engine {engine:.0} writes/s, pgbench {pgbench:.0}; \
                 median of the ratios {ratio:.2}, least {least:.2}"
            );
        }
        std::fs::remove_file(&script).expect("the script");
    }
}
