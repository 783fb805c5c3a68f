//! `cargo bench -p escale-benches --bench items`: the server's work for the end of a parent of 10 and of 10,000 items. Prints
//! a line of JSON for each, which `make bench SET=items` reads.

#![allow(clippy::print_stdout)] // figures without a statistic

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use escale::codec::{Format, Sub, SyncRequest, encode};
use escale::model::schema::Schema;
use escale::model::{Pk, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Opening};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

const NOON: u64 = 1_800_000_000_000;
const SCHEMA: &str = r#"{"Note": {"key": ["id"]}, "Doc": {"in": "Note", "key": ["note", "id"]},
    "Cover": {"in": "Note", "key": ["note"]}}"#;
/// Each of them is deleted, and the median of their times counts. Few enough that the feed has room for all writes: it would
/// drop as many lines as it gets.
const PARENTS: usize = 3;

type Row = BTreeMap<String, Value>;

fn text(name: &str, value: &str) -> (String, Value) {
    (name.to_owned(), Value::from(value))
}

fn parent(number: usize) -> Row {
    BTreeMap::from([text("id", &format!("n{number}"))])
}

/// An engine that holds the parents with so many items each.
fn filled(folder: &Path, clock: &std::sync::Arc<ManualClock>, items: usize) -> Engine {
    let opening = Opening {
        schema: Schema::from_json(SCHEMA).expect("a schema"),
        settings: Settings::default(),
        seal: Seal::clear(),
        clock: clock.clone(),
    };
    let engine = Engine::open(folder, opening).expect("an engine");
    for number in 0..PARENTS {
        engine.write("o", |w| w.put("Note", parent(number))).expect("written");
        for from in (0..items).step_by(500) {
            clock.advance(1);
            let item =
                |n: usize| Row::from([text("note", &format!("n{number}")), text("id", &n.to_string())]);
            let upto = items.min(from + 500);
            engine
                .write("o", |w| (from..upto).try_for_each(|n| w.put("Doc", item(n)).map(drop)))
                .expect("written");
        }
    }
    engine
}

/// Every row of the database, with the name of its table.
fn rows(folder: &Path) -> BTreeSet<String> {
    let raw = rusqlite::Connection::open(Engine::database_in(folder)).expect("a database");
    let mut tables = raw.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").expect("a query");
    let names = tables.query_map([], |row| row.get::<_, String>(0)).expect("names");
    let names: Vec<String> = names.map(|name| name.expect("a name")).collect();
    let mut found = BTreeSet::new();
    for name in names {
        let mut all = raw.prepare(&format!("SELECT * FROM {name}")).expect("a query");
        let columns = all.column_count();
        let mut rows = all.query([]).expect("rows");
        while let Some(row) = rows.next().expect("a row") {
            let values = (0..columns).map(|at| format!("{:?}", row.get_ref(at).expect("a value")));
            found.insert(format!("{name} {}", values.collect::<Vec<_>>().join(" ")));
        }
    }
    found
}

/// Deletes a parent of so many items. Gives JSON: times in milliseconds, and the rows that were written or removed. The
/// bytes are those of the reply to a session that held the tree.
fn end(items: usize) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(NOON);
    let engine = filled(folder.path(), &clock, items);
    let caller = Caller { may_write: true, ..Caller::default() };
    let (mut times, mut changed, mut bytes) = (Vec::new(), 0, 0);
    for number in 0..PARENTS {
        clock.advance(1);
        let before = rows(folder.path());
        let began = Instant::now();
        engine.write("o", |w| w.delete("Note", &parent(number))).expect("deleted");
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
        changed = rows(folder.path()).symmetric_difference(&before).count();
        let pk = Pk::from_key(&[&format!("n{number}")]).expect("a pk");
        let subs = ["Note@", "Doc/in@", "Cover/in@"].map(|def| {
            let def = format!("{def}{pk}").parse().expect("a def");
            Sub { def, v: NOON, cursor: None }
        });
        let request = SyncRequest { subs: subs.to_vec(), ..SyncRequest::of("s") };
        let reply = engine.sync("o", &caller, &request).expect("a reply");
        bytes = encode(Format::Msgpack, &reply).expect("encoded").len();
    }
    times.sort_by(f64::total_cmp);
    let (median, most) = (times[PARENTS / 2], times[PARENTS - 1]);
    format!(
        r#"{{"items": {items}, "ms": {median:.3}, "mostMs": {most:.3}, "rows": {changed}, "reply": {bytes}}}"#
    )
}

fn main() {
    for items in [10, 10_000] {
        println!("{}", end(items));
    }
}
