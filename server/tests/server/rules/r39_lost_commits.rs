//! R39: a database in PostgreSQL that may have lost commits begins new epochs. R35: its clock is the one that
//! counts.

use escale::Code;
use escale::model::Epoch;
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, adopt_server};
use escale_server::settings::Settings;

use crate::support::postgres::{Database, Raw, Server, server};
use crate::support::session::Session;
use crate::support::world::*;

fn epoch(engine: &Engine) -> Epoch {
    ask(engine, Vec::new()).epoch
}

fn lossless() -> Settings {
    Settings { is_failover_lossless: true, ..Settings::default() }
}

fn database() -> (Database, Raw) {
    let database = server().database().with_clock(NOON);
    let raw = database.raw();
    (database, raw)
}

fn open(database: &Database, settings: Settings) -> Engine {
    database.engine(&ManualClock::at(NOON), settings).unwrap()
}

/// The database as another server would show it: the identity in the table is not its own any more.
fn become_another(raw: &Raw, from: &str, to: &str) {
    let changed = raw.rows(&format!(
        "UPDATE escale.site SET server = regexp_replace(server, '{from}', '{to}') RETURNING server"
    ));
    let server: String = changed[0].get(0);
    assert!(server.contains(to), "{server}");
}

const TIMELINE: (&str, &str) = (r#""timeline":\d+"#, r#""timeline":77"#);
const COPY: (&str, &str) = (r#""database":"[^"]*""#, r#""database":"another""#);

#[test]
fn r39_another_server_begins_new_epochs_before_any_write() {
    let (database, raw) = database();
    let (first, second) = (open(&database, Settings::default()), open(&database, Settings::default()));
    put(&first, note("a", "one")).unwrap();
    let mut before = epoch(&first);
    for (from, to) in [TIMELINE, COPY] {
        become_another(&raw, from, to);
        put(&first, note("b", to)).unwrap();
        let renewed = epoch(&second);
        assert!(renewed > before, "every org's, also for a pull");
        assert_eq!(epoch(&first), renewed, "once, whichever instance notices it");
        assert_eq!(
            open(&database, Settings::default()).sync("p", &caller(), &nothing()).unwrap().epoch,
            renewed
        );
        before = renewed;
    }
    // A reader notices it, too, and so does an instance that nobody asks.
    become_another(&raw, TIMELINE.0, TIMELINE.1);
    let renewed = epoch(&second);
    assert!(renewed > before);
    become_another(&raw, TIMELINE.0, TIMELINE.1);
    first.check_database().unwrap();
    assert!(epoch(&second) > renewed);
}

fn nothing() -> escale::codec::SyncRequest {
    escale::codec::SyncRequest::of("s")
}

#[test]
fn r39_a_lossless_failover_keeps_the_epochs_and_a_copy_does_not() {
    let (database, raw) = database();
    let engine = open(&database, lossless());
    put(&engine, note("a", "one")).unwrap();
    let before = epoch(&engine);
    become_another(&raw, TIMELINE.0, TIMELINE.1);
    put(&engine, note("b", "one")).unwrap();
    assert_eq!(epoch(&engine), before);
    // It was recorded: the next instance renews nothing either, with any settings.
    assert_eq!(epoch(&open(&database, Settings::default())), before);
    become_another(&raw, COPY.0, COPY.1);
    put(&engine, note("c", "one")).unwrap();
    assert!(epoch(&engine) > before);
}

#[test]
fn r39_a_new_server_is_accepted_by_command() {
    let (database, raw) = database();
    let engine = open(&database, Settings::default());
    put(&engine, note("a", "one")).unwrap();
    let before = epoch(&engine);
    become_another(&raw, COPY.0, COPY.1);
    adopt_server(&database.open()).unwrap();
    put(&engine, note("b", "one")).unwrap();
    assert_eq!(epoch(&engine), before);
}

/// The same server, whose tables went back under a running instance.
#[test]
fn r39_a_head_that_is_behind_begins_new_epochs_in_either_mode() {
    for settings in [Settings::default(), lossless()] {
        let (database, raw) = database();
        let (writer, reader) = (open(&database, settings.clone()), open(&database, settings));
        put(&writer, note("a", "one")).unwrap();
        raw.batch("CREATE TABLE escale.backup AS SELECT * FROM escale.heads");
        put(&writer, note("b", "one")).unwrap();
        let before = epoch(&reader);
        let restore = "DELETE FROM escale.heads; INSERT INTO escale.heads SELECT * FROM escale.backup";
        raw.batch(restore);
        let renewed = epoch(&reader);
        assert!(renewed > before, "a pull notices it");
        put(&writer, note("c", "one")).unwrap();
        assert_eq!(epoch(&writer), renewed, "and a write of another instance finds it done");
        raw.batch(restore);
        put(&writer, note("d", "one")).unwrap();
        assert!(epoch(&writer) > renewed, "a head of an earlier epoch, too, by a write");
        raw.batch("DELETE FROM escale.heads");
        let renewed = epoch(&writer);
        assert_eq!(epoch(&reader), renewed);
    }
}

/// A restored backup, and a session that knows a document that the backup lacks.
#[test]
fn r39_a_database_loaded_from_a_copy_begins_new_epochs() {
    let (database, raw) = database();
    let engine = open(&database, Settings::default());
    put(&engine, note("a", "one")).unwrap();
    drop((engine, raw));
    let copy = database.copy();
    let engine = open(&database, Settings::default());
    put(&engine, note("b", "one")).unwrap();
    let mut session = Session::new(&shelf("one"));
    session.pull(&engine);
    assert_eq!(session.held(NOON).len(), 2);
    let before = epoch(&engine);
    let restored = open(&copy, Settings::default());
    assert!(epoch(&restored) > before);
    session.pull(&restored);
    assert_eq!(session.held(NOON).keys().collect::<Vec<_>>(), ["a"]);
    let renewed = epoch(&restored);
    drop(restored);
    assert_eq!(epoch(&open(&copy, Settings::default())), renewed, "once");
}

/// A real promotion of a real standby.
#[test]
fn r39_a_promoted_replica_begins_new_epochs() {
    let server = Server::start(&[]);
    let database = server.database().with_clock(NOON);
    let engine = open(&database, Settings::default());
    put(&engine, note("a", "one")).unwrap();
    let before = epoch(&engine);
    server.command("standby");
    let error = put(&engine, note("b", "one")).unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.detail().contains("read-only replica"), "{error}");
    let error = database.engine(&ManualClock::at(NOON), Settings::default()).err().unwrap();
    assert_eq!(error.code(), Code::BadOption);
    assert!(error.detail().contains("target_session_attrs"), "{error}");
    server.command("promote");
    put(&engine, note("b", "one")).unwrap();
    assert!(epoch(&engine) > before);
    let mut session = Session::new(&shelf("one"));
    session.pull(&engine);
    assert_eq!(session.held(NOON).len(), 2);
    server.command("halt");
    assert_eq!(
        put(&engine, note("c", "one")).unwrap_err().code(),
        Code::Unavailable,
        "the database is stopped"
    );
    server.command("go");
    let renewed = epoch(&engine);
    put(&engine, note("c", "one")).unwrap();
    assert_eq!(epoch(&engine), renewed, "a restart loses nothing");
    drop(engine);
    std::mem::forget(database);
    server.command("stop");
}

#[test]
fn r35_the_database_s_clock_counts_and_must_agree_with_the_instance_s() {
    let (database, raw) = database();
    let engine = open(&database, Settings::default());
    raw.set_clock(NOON + 5_000);
    assert_eq!(put(&engine, note("a", "one")).unwrap(), Some(NOON + 5_000));
    let now = ask(&engine, Vec::new()).now;
    for wrong in [NOON + 60_001, NOON - 60_001] {
        raw.set_clock(wrong);
        let error = put(&engine, note("b", "one")).unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.detail().contains("clocks"), "{error}");
        assert_eq!(engine.check_database().unwrap_err().code(), Code::Unavailable);
        // Stored data can be read, and time stands still.
        let reply = ask(&engine, vec![sub(&shelf("one"), 0)]);
        assert_eq!((ids(&reply.parts[0]), reply.now), (vec!["a".to_owned()], now));
    }
    // A clock that is set back within the bound: versions go on from the highest.
    raw.set_clock(NOON - 60_000);
    assert_eq!(put(&engine, note("b", "one")).unwrap(), Some(now + 1));
}
