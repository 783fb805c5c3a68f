//! `import`: only changed documents get new versions, and a bad line is named.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use escale::Code;
use escale::model::schema::Schema;
use escale_server::clock::Clock;
use escale_server::engine::{Engine, Opening};
use escale_server::import::{Summary, Target, import, import_file};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::world::*;

const TARGET: Target = Target { org: "o", class: "Note" };

fn run(engine: &Engine, text: &str) -> escale::Result<Summary> {
    import(engine, TARGET, text.as_bytes(), |_| {})
}

fn summary(lines: u64, written: u64, deleted: u64, unchanged: u64) -> Summary {
    Summary { lines, written, deleted, unchanged }
}

fn lines(n: usize) -> String {
    let line = |i| format!("{{\"id\":\"{i}\",\"shelf\":\"one\",\"size\":{i}}}\n");
    (0..n).map(line).collect::<Vec<_>>().concat()
}

#[test]
fn changed_rows_alone_are_stamped() {
    let world = world();
    assert_eq!(run(&world.engine, &lines(1_200)).unwrap(), summary(1_200, 1_200, 0, 0));
    let before = pull(&world.engine, &def("Note"), 0);
    world.clock.advance(60_000);
    assert_eq!(run(&world.engine, &lines(1_200)).unwrap(), summary(1_200, 0, 0, 1_200));
    assert_eq!(pull(&world.engine, &def("Note"), 0).rows, before.rows);
    // Another order of properties, other spacing, another spelling of a number: the same document.
    let same = "\r\n  { \"size\" : 3.0, \"shelf\":\"one\",\t\"id\":\"3\" }  \r\n\n";
    assert_eq!(run(&world.engine, same).unwrap(), summary(1, 0, 0, 1));
    let changed = lines(1_200).replace("\"size\":7}", "\"size\":-7}");
    assert_eq!(run(&world.engine, &changed).unwrap(), summary(1_200, 1, 0, 1_199));
    let after = pull(&world.engine, &def("Note"), NOON + 60_000);
    assert_eq!(ids(&after), ["7"]);
}

#[test]
fn a_line_can_delete() {
    let world = world();
    run(&world.engine, &lines(3)).unwrap();
    let text = "{\"_deleted\":true,\"id\":\"1\"}\n{\"_deleted\":true,\"id\":\"9\"}\n{\"_deleted\":false,\"id\":\"2\",\"shelf\":\"two\"}";
    assert_eq!(run(&world.engine, text).unwrap(), summary(3, 1, 1, 1));
    assert_eq!(run(&world.engine, text).unwrap(), summary(3, 0, 0, 3));
    assert_eq!(
        ids(&pull(&world.engine, &def("Note"), 0)).iter().filter(|id| !id.starts_with('-')).count(),
        2
    );
}

#[test]
fn a_bad_line_is_named_and_the_transactions_before_it_stay() {
    let world = world();
    let text = format!("{}{{\"id\":7}}\n{}", lines(1_100), lines(1));
    let error = run(&world.engine, &text).unwrap_err();
    assert_eq!(error.code(), Code::BadKey);
    assert!(error.detail().starts_with("line 1101: "), "{error}");
    assert_eq!(pull(&world.engine, &def("Note"), 0).rows.len(), 1_000);
    for (line, code) in [
        ("nonsense", Code::Malformed),
        ("[]", Code::Malformed),
        ("{\"shelf\":\"x\"}", Code::BadKey),
        ("{\"id\":\"a\",\"shelf\":3}", Code::BadKey),
        ("{\"id\":\"a\",\"tags\":\"x\"}", Code::BadKey),
        ("{\"id\":\"a\",\"size\":\"x\"}", Code::BadValue),
        ("{\"id\":\"a\",\"_x\":1}", Code::BadValue),
        ("{\"id\":\"a\",\"_deleted\":1}", Code::BadValue),
        ("{\"_deleted\":true}", Code::BadKey),
        ("{\"id\":\"a\",\"x\":1e999}", Code::Malformed),
        ("{\"id\":\"a\",\"maxLife\":-1}", Code::BadValue),
        ("{\"id\":\"a\",\"release\":2}", Code::BadValue),
        ("{\"id\":\"a\",\"__proto__\":{}}", Code::Malformed),
        ("{\"id\":\"a\",\"id\":\"b\"}", Code::Malformed),
        ("<html>", Code::Malformed),
    ] {
        let error = run(&world.engine, &format!("\n{line}\n")).unwrap_err();
        assert_eq!(error.code(), code, "{line}: {error}");
        assert!(error.detail().starts_with("line 2: "), "{error}");
    }
    let huge = format!("{{\"id\":\"a\",\"x\":\"{}\"}}", "x".repeat(5 << 20));
    assert_eq!(run(&world.engine, &huge).unwrap_err().code(), Code::TooLarge);
    let deep = format!("{{\"id\":\"a\",\"x\":{}{}}}", "[".repeat(40), "]".repeat(40));
    assert!(run(&world.engine, &deep).is_err());
}

#[test]
fn a_key_twice_in_a_transaction_ends_as_its_last_line() {
    let world = world();
    let text = "{\"id\":\"a\",\"shelf\":\"one\"}\n{\"id\":\"a\",\"shelf\":\"two\"}\n{\"_deleted\":true,\"id\":\"a\"}\n{\"id\":\"a\",\"shelf\":\"three\"}\n";
    run(&world.engine, text).unwrap();
    assert_eq!(ids(&pull(&world.engine, &shelf("three"), 1)), ["a"]);
    for gone in ["one", "two"] {
        let part = pull(&world.engine, &shelf(gone), 1);
        assert_eq!((part.rows.len(), part.present), (0, None));
    }
}

#[test]
fn gzip_is_known_by_its_content() {
    let world = world();
    let path = world.folder.path().join("notes.jsonl");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines(10).as_bytes()).unwrap();
    let bytes = gzip.finish().unwrap();
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(import_file(&world.engine, TARGET, &path, |_| {}).unwrap(), summary(10, 10, 0, 0));
    std::fs::write(&path, lines(10)).unwrap();
    assert_eq!(import_file(&world.engine, TARGET, &path, |_| {}).unwrap(), summary(10, 0, 0, 10));
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(import_file(&world.engine, TARGET, &path, |_| {}).unwrap_err().code(), Code::Malformed);
    let none = world.folder.path().join("none");
    assert_eq!(import_file(&world.engine, TARGET, &none, |_| {}).unwrap_err().code(), Code::BadOption);
}

#[test]
fn what_cannot_be_imported_into_is_refused_at_once() {
    let world = world();
    let to = |org, class| {
        import(&world.engine, Target { org, class }, lines(1).as_bytes(), |_| {}).unwrap_err().code()
    };
    assert_eq!(to("o", "Nope"), Code::UnknownClass);
    assert_eq!(to("a/b", "Note"), Code::BadOption);
    assert_eq!(to("", "Note"), Code::BadOption);
    assert_eq!(world.engine.provider().read().unwrap().head("o").unwrap(), None);
}

/// A machine on which each reading of the clock takes 3 ms.
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now_ms(&self) -> u64 {
        NOON
    }
    fn elapsed_ms(&self) -> u64 {
        self.0.fetch_add(3, Ordering::SeqCst)
    }
    fn pass(&self, _: u64) -> bool {
        false
    }
}

#[test]
fn on_a_slow_machine_transactions_are_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let opening = Opening {
        schema: Schema::from_json(SCHEMA).unwrap(),
        settings: Settings::default(),
        seal: Seal::clear(),
        clock: Arc::new(Slow(AtomicU64::new(0))),
    };
    let engine = Engine::open(folder.path(), opening).unwrap();
    assert_eq!(run(&engine, &lines(700)).unwrap(), summary(700, 700, 0, 0));
}
