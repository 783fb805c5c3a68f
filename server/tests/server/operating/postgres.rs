//! The provider on PostgreSQL: the conformance suite, and the parts that only this database has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use escale::codec::SyncRequest;
use escale::model::schema::Schema;
use escale::{Code, Error};
use escale_server::clock::Clock;
use escale_server::engine::{Opening, first_site};
use escale_server::provider::{
    Address, Entry, EntryValue, FeedRow, Place, PostgresProvider, Provider, Seen, Transaction, conformance,
};

use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::chance::Chance;
use crate::support::operating::{op, put_args};
use crate::support::postgres::{Database, server};
use crate::support::proof::{shown, times};
use crate::support::world::{NOON, SCHEMA, caller};

const WAIT: Duration = Duration::from_secs(5);

#[test]
fn postgres_conforms() {
    let mut chance = Chance::new();
    let fresh = || -> Box<dyn Fn() -> PostgresProvider> {
        let database = server().database();
        Box::new(move || database.open())
    };
    conformance::all(fresh, &mut |below| chance.below(below));
}

fn refused(url: &str) -> Error {
    let address = Address::parse(url, |_| None).unwrap();
    PostgresProvider::open(&address, &first_site(1).unwrap()).err().expect("a refusal")
}

/// The error of an opening, which must name the step that helps.
#[track_caller]
fn assert_refused(url: &str, code: Code, words: &[&str]) {
    let error = refused(url);
    assert_eq!(error.code(), code, "{error}");
    for word in words {
        assert!(error.detail().contains(word), "`{word}` in {error}");
    }
}

#[test]
fn a_database_that_cannot_be_used_is_refused_with_the_step_that_helps() {
    let database = server().database();
    let (url, raw) = (database.url(), database.raw());
    let elsewhere = |name: &str| url.replace(&database.name, name);
    assert_refused(&elsewhere("no_such_database"), Code::BadOption, &["cannot connect", "createdb"]);
    assert_refused("postgres://r@127.0.0.1:1/d", Code::BadOption, &["cannot connect", "host and port"]);
    assert_refused("postgres://r@%2Fno%2Fsuch%2Ffolder/d", Code::BadOption, &["cannot connect"]);
    let latin = format!("{}_latin", database.name);
    raw.batch(&format!("CREATE DATABASE {latin} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"));
    assert_refused(&elsewhere(&latin), Code::BadOption, &["SQL_ASCII", "UTF8"]);
    raw.batch(&format!("DROP DATABASE {latin}"));
    let read_only = |value| {
        raw.batch(&format!("ALTER DATABASE {} SET default_transaction_read_only = {value}", database.name));
    };
    read_only("on");
    assert_refused(&url, Code::BadOption, &["read-only", "default_transaction_read_only"]);
    let raw = database.raw();
    raw.batch("SET default_transaction_read_only = off");
    raw.batch(&format!("ALTER DATABASE {} RESET ALL", database.name));
    raw.batch("CREATE SCHEMA escale; CREATE TABLE escale.other (x int)");
    assert_refused(&url, Code::BadOption, &["another program"]);
    raw.batch("DROP SCHEMA escale CASCADE");
    drop(database.open());
    raw.batch("INSERT INTO escale.migrations (format) VALUES (9)");
    assert_refused(&url, Code::StoreTooNew, &["format 9"]);
}

#[test]
fn an_ordinary_role_needs_rights_on_one_schema_only() {
    let database = server().database();
    let (name, raw) = (&database.name, database.raw());
    raw.batch(&format!("CREATE ROLE {name}_role LOGIN"));
    let url = database.url().replace("postgres://postgres@", &format!("postgres://{name}_role@"));
    assert_refused(&url, Code::BadOption, &["permission denied", "CREATE SCHEMA"]);
    raw.batch(&format!("CREATE SCHEMA escale AUTHORIZATION {name}_role"));
    let address = Address::parse(&url, |_| None).unwrap();
    let provider = PostgresProvider::open(&address, &first_site(1).unwrap()).unwrap();
    append(&provider, "o", "a");
    drop(provider);
    raw.batch(&format!("CREATE ROLE {name}_guest LOGIN"));
    let other = url.replace("_role@", "_guest@");
    assert_refused(&other, Code::BadOption, &["permission denied", "grant the role"]);
    raw.batch(&format!("DROP OWNED BY {name}_role; DROP ROLE {name}_role; DROP ROLE {name}_guest"));
}

#[test]
fn instances_that_open_a_new_database_at_once_make_it_once() {
    let database = server().database();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| database.open());
        }
    });
    assert_eq!(database.raw().rows("SELECT format FROM escale.migrations").len(), 5);
    assert_eq!(database.raw().rows("SELECT 1 FROM escale.site").len(), 1);
}

fn row(org: &str, pk: &str) -> FeedRow {
    FeedRow { org: org.into(), class: "C".into(), pk: pk.into(), v: 1, links: BTreeMap::new() }
}

fn append(provider: &PostgresProvider, org: &str, pk: &str) {
    let mut tx = provider.write(org, WAIT).unwrap();
    tx.append_feed(&row(org, pk)).unwrap();
    tx.commit().unwrap();
}

/// The rows since a position, whether none is missing, and the next position.
fn look(provider: &PostgresProvider, since: &Seen) -> (Vec<String>, bool, Seen) {
    let mut pks = Vec::new();
    let mut visit = |row: FeedRow| {
        pks.push(row.pk);
        Ok(())
    };
    let changed = provider.changed(Some(since), &mut visit).unwrap();
    (pks, changed.is_whole, changed.seen)
}

fn end_of_feed(provider: &PostgresProvider) -> Seen {
    provider.changed(None, &mut |_| Ok(())).unwrap().seen
}

/// Ends every connection of the provider, as a restart of the database would.
fn cut(database: &Database) {
    database.raw().rows(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'escale-server'",
    );
}

#[test]
fn an_instance_goes_on_after_its_connections_were_cut() {
    let database = server().database();
    let provider = database.open();
    append(&provider, "o", "before");
    let start = end_of_feed(&provider);
    let (snapshot, tx) = (provider.read().unwrap(), provider.write("o", WAIT).unwrap());
    let mut writing = provider.write("p", WAIT).unwrap();
    cut(&database);
    // Nobody waits for a savepoint. The engine then undoes the operation: the error is that of the connection.
    writing.savepoint().unwrap();
    assert_eq!(writing.undo().unwrap_err().code(), Code::Unavailable);
    assert_eq!(snapshot.heads("", 1).unwrap_err().code(), Code::Unavailable, "a snapshot in progress fails");
    assert_eq!(tx.commit().unwrap_err().code(), Code::Unavailable, "and so does a write");
    drop(snapshot);
    assert!(provider.read().unwrap().site().is_ok(), "the next one has a new connection");
    append(&provider, "o", "after");
    // The connection that follows the feed notices its end at the next look, or before it.
    let looked = provider.changed(Some(&start), &mut |_| Ok(()));
    assert!(looked.is_ok_and(|changed| !changed.is_whole) || !look(&provider, &start).1, "rows may be lost");
    let (_, _, next) = look(&provider, &start);
    append(&provider, "o", "later");
    let (rows, is_whole, _) = look(&provider, &next);
    assert_eq!((rows, is_whole), (vec!["later".to_owned()], true));
}

/// A clock that cuts the connections at one of its readings, in the middle of the engine's work.
struct CuttingClock {
    readings_left: AtomicU64,
    database: Database,
}

impl Clock for CuttingClock {
    fn now_ms(&self) -> u64 {
        self.read();
        NOON
    }

    fn elapsed_ms(&self) -> u64 {
        self.read();
        0
    }

    fn pass(&self, _: u64) -> bool {
        false
    }
}

impl CuttingClock {
    fn read(&self) {
        if self.readings_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            cut(&self.database);
        }
    }
}

#[test]
fn a_connection_cut_at_any_moment_of_a_write_makes_it_unavailable_and_no_failure() {
    let database = server().database().with_clock(NOON);
    let clock = Arc::new(CuttingClock { readings_left: AtomicU64::new(0), database });
    let (schema, settings) = (Schema::from_json(SCHEMA).unwrap(), Settings::default());
    let opening = Opening { schema, settings, seal: Seal::clear(), clock: clock.clone() };
    let engine = clock.database.open_engine(opening).unwrap();
    let mut cuts = 0;
    for readings in 1..40 {
        let session = format!("s{readings}");
        let ops =
            (1..=3).map(|seq| op(&format!("{session}-{seq}"), seq, "doc.put", put_args(&session, "one")));
        let request = SyncRequest { ops: ops.collect(), ..SyncRequest::of(session.as_str()) };
        clock.readings_left.store(readings, Ordering::Relaxed);
        let codes: Vec<String> = match engine.sync("o", &caller(), &request) {
            Ok(reply) => {
                reply.results.into_iter().filter_map(|result| result.fault).map(|f| f.code).collect()
            }
            Err(error) => vec![error.code().as_str().to_owned()],
        };
        cuts += usize::from(!codes.is_empty());
        let passes = |code: &String| ["unavailable", "contention"].contains(&&**code);
        assert!(codes.iter().all(passes), "cut at reading {readings}: {codes:?}");
    }
    assert!(cuts > 0, "no cut was met");
}

/// Histories that use one database, one after another.
const OF_ONE_DATABASE: u64 = 50;

/// R40: whichever order transactions commit in, each committed row is met once. A transaction of another program is open
/// all the time. `make feeds` plays many histories.
#[test]
fn r40_each_row_of_the_feed_is_met_once_in_any_order_of_commits() {
    let since = Instant::now();
    let (histories, mut chance, mut rows) = (times("FEEDS", 100), Chance::new(), 0);
    for from in (0..histories).step_by(OF_ONE_DATABASE as usize) {
        let database = server().database();
        let provider = database.open();
        let other = database.raw();
        other.batch("BEGIN; SELECT pg_current_xact_id()");
        for _ in from..histories.min(from + OF_ONE_DATABASE) {
            rows += feed_history(&provider, &mut chance);
        }
        other.batch("ROLLBACK");
    }
    eprintln!("{rows} rows in {histories} histories");
    shown("feed", "each row of the feed is met once, in any order of commits", histories, "histories", since);
}

/// Plays one history. Returns how many rows were committed.
fn feed_history(provider: &PostgresProvider, chance: &mut Chance) -> usize {
    let orgs = ["a", "b", "c", "d", "e"];
    let mut open: BTreeMap<&str, (Box<dyn Transaction + '_>, Vec<String>)> = BTreeMap::new();
    let (mut seen, mut met, mut committed) = (end_of_feed(provider), Vec::new(), Vec::new());
    for n in 0..60 {
        let org = chance.pick(&orgs);
        match open.remove(org) {
            None => {
                open.insert(org, (provider.write(org, WAIT).unwrap(), Vec::new()));
            }
            Some((mut tx, mut rows)) if chance.is(50) => {
                let is_undone = chance.is(30);
                tx.savepoint().unwrap();
                tx.append_feed(&row(org, &n.to_string())).unwrap();
                if is_undone {
                    tx.undo().unwrap();
                } else {
                    rows.push(n.to_string());
                }
                tx.release().unwrap();
                open.insert(org, (tx, rows));
            }
            Some((tx, rows)) if chance.is(80) => {
                tx.commit().unwrap();
                committed.extend(rows);
            }
            Some(_) => {}
        }
        if chance.is(60) {
            let (rows, is_whole, next) = look(provider, &seen);
            assert!(is_whole);
            met.extend(rows);
            seen = next;
            let (mut met, mut committed) = (met.clone(), committed.clone());
            met.sort();
            committed.sort();
            assert_eq!(met, committed);
        }
    }
    committed.len()
}

/// Savepoints, values and names that PostgreSQL would not store as text.
#[test]
fn a_zero_byte_is_stored_wherever_a_caller_may_send_it() {
    let database = server().database();
    let provider = database.open();
    let text = "a\0b";
    let session = escale_server::provider::Session { account: text.into(), seq: 1 };
    let operation = escale_server::provider::Operation {
        session: text.into(),
        seq: 1,
        id: text.into(),
        name: "n".into(),
        v: None,
        at: 1,
        result: vec![0],
    };
    let entry = Entry { index: "i".into(), value: EntryValue::Text(text.into()) };
    let at = Place { org: "o", class: "C", pk: "a" };
    let mut tx = provider.write("o", WAIT).unwrap();
    tx.put_session(text, &session).unwrap();
    tx.append_operation(text, &operation).unwrap();
    tx.put_entry(at, "", &entry).unwrap();
    tx.commit().unwrap();
    let snapshot = provider.read().unwrap();
    assert_eq!(snapshot.session("o", text).unwrap(), Some(session));
    assert_eq!(snapshot.operation("o", text, text).unwrap(), Some(operation));
    assert!(snapshot.is_held(Place { pk: "b", ..at }, "", &entry).unwrap());
}

/// The longest names that the rules allow fit into the indexes, even if they cannot be compressed.
#[test]
fn the_longest_names_fit_into_the_indexes() {
    let database = server().database();
    let provider = database.open();
    let mut chance = Chance::new();
    let mut text = |n: usize| -> String {
        (0..n).map(|_| chance.pick(&['a', 'b', 'X', '7', '-', '_', 'q', 'Z'])).collect()
    };
    let (org, class, pk, name, long) = (text(1_024), text(64), text(1_024), text(64), text(9_000));
    let at = Place { org: &org, class: &class, pk: &pk };
    let entry = Entry { index: name.as_str().into(), value: EntryValue::Text(long) };
    let hash = text(22);
    let link = escale_server::provider::Link {
        collection: &name,
        hash: &hash,
        v: 1,
        state: escale_server::provider::ChangeState::Alive,
        max_life: None,
    };
    let mut tx = provider.write(&org, WAIT).unwrap();
    tx.put_link(at, &link).unwrap();
    tx.put_entry(at, "", &entry).unwrap();
    tx.put_entry(at, &org, &entry).unwrap();
    tx.commit().unwrap();
    assert!(provider.read().unwrap().is_held(Place { pk: "b", ..at }, &org, &entry).unwrap());
}
