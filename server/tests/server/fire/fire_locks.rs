//! Under fire: callers who choose how much there is to look at. The rows that a request looks at are bounded, and most of them come
//! before the lock of the writes. So an honest write waits for a bounded number of rows, under any requests of others.
//!
//! The database in memory counts the rows. No time is measured here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use escale::codec::{Op, SyncRequest};
use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::clock::SystemClock;
use escale_server::engine::{Caller, Engine, Filing, Object, Opening, Put, first_site, sha_of, with_files};
use escale_server::files::MemoryFiles;
use escale_server::mark::Mark;
use escale_server::provider::{MemoryDatabase, MemoryProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::proof::times;

const SCHEMA: &str = r#"{ "Note": {
    "key": ["id"], "properties": { "files": "file[]", "owner": "string" }, "rights": { "read": { "own": "owner" } } } }"#;

/// Objects, and documents that reference each of them.
const OBJECTS: usize = 40;
const DOCUMENTS: usize = 30;

/// Rows that one write may look at for one request of this test: a few for each object, and each document once.
const ROWS_MAX: u64 = (8 * OBJECTS + 2 * DOCUMENTS) as u64;

struct World {
    engine: Engine,
    database: Arc<MemoryDatabase>,
    objects: Vec<Object>,
}

fn of(account: &str) -> Caller {
    Caller { account: account.into(), may_write: true, ..Caller::default() }
}

fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

fn args(id: &str, owner: &str, files: &[&Object]) -> Value {
    let reference = |object: &&Object| {
        Value::from([("sha", text(object.sha())), ("size", Value::from(object.bytes().len() as i64))])
    };
    let files = Value::Array(files.iter().map(reference).collect());
    let data = Value::from([("id", text(id)), ("owner", text(owner)), ("files", files)]);
    Value::from([("class", text("Note")), ("data", data)])
}

impl World {
    /// An account has uploaded objects, and referenced each in many documents that nobody else reads.
    fn new() -> Self {
        let database = MemoryDatabase::new(first_site(1).unwrap());
        let opening = Opening {
            schema: Schema::from_json(SCHEMA).unwrap(),
            settings: Settings::default(),
            seal: Seal::clear(),
            clock: SystemClock::shared(),
        };
        let provider = MemoryProvider::open(&database);
        let engine = Engine::over(Box::new(provider), Mark::none(), opening, 7).unwrap();
        let engine = with_files(engine, Box::new(MemoryFiles::default())).unwrap();
        let plain = |n: usize| {
            let bytes = n.to_be_bytes().to_vec();
            Object::new(&sha_of(&bytes), None, bytes, 1 << 31).unwrap()
        };
        let objects: Vec<Object> = (0..OBJECTS).map(plain).collect();
        let world = World { engine, database, objects };
        for object in &world.objects {
            Filing::of(&world.engine).put_object("o", &of("owner"), object).unwrap();
        }
        for n in 0..DOCUMENTS {
            let files: Vec<&Object> = world.objects.iter().collect();
            assert_eq!(world.run("owner", n as u64 + 1, args(&n.to_string(), "owner", &files)), "ok");
        }
        world.database.take_most_looked_at();
        world
    }

    fn run(&self, account: &str, seq: u64, args: Value) -> String {
        let id = format!("{account}-{seq}");
        let op = Op { id, seq, name: "doc.put".into(), args, at: 0, after: None };
        let request = SyncRequest { ops: vec![op], ..SyncRequest::of(account) };
        let result = self.engine.sync("o", &of(account), &request).unwrap().results.remove(0);
        result.fault.map_or("ok".into(), |fault| fault.code)
    }

    /// A list that names all objects, by one who knows their hashes alone.
    fn list(&self, account: &str) -> Put {
        use base64::Engine as _;
        let digest =
            |object: &Object| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(object.sha()).unwrap();
        let bytes: Vec<u8> = self.objects.iter().flat_map(digest).collect();
        let list = Object::new(&sha_of(&bytes), Some((OBJECTS as u64) << 20), bytes, 1 << 31).unwrap();
        Filing::of(&self.engine).put_object("o", &of(account), &list).unwrap()
    }

    fn all(&self) -> Vec<&Object> {
        self.objects.iter().collect()
    }
}

#[test]
fn a_refused_list_looks_at_no_document_under_the_lock() {
    let world = World::new();
    let Put::Missing(missing) = world.list("stranger") else { panic!("it was stored") };
    assert_eq!(missing.len(), OBJECTS);
    let (before, under) = world.database.take_most_looked_at();
    assert!(under <= 2 * OBJECTS as u64, "{under} rows under the lock");
    assert!(before <= (OBJECTS * DOCUMENTS) as u64 + ROWS_MAX, "{before} rows before it");
}

#[test]
fn a_write_looks_at_each_document_once_for_all_its_files() {
    let world = World::new();
    assert_eq!(world.run("stranger", 1, args("mine", "stranger", &world.all())), "file_missing");
    let (_, under) = world.database.take_most_looked_at();
    let references = (OBJECTS * DOCUMENTS) as u64;
    assert!(under <= references + ROWS_MAX, "{under} rows, of which {references} are references");
    // A reader of one of them may name all its files, and no further document is looked at.
    assert_eq!(world.run("owner", DOCUMENTS as u64 + 1, args("more", "reader", &world.all())), "ok");
    world.database.take_most_looked_at();
    assert_eq!(world.run("reader", 1, args("mine", "reader", &world.all())), "ok");
    let (_, under) = world.database.take_most_looked_at();
    assert!(under <= references + ROWS_MAX, "{under} rows");
}

#[test]
fn without_work_left_an_object_is_missing_unless_the_caller_has_uploaded_it() {
    let mut world = World::new();
    let settings = Settings { request_rows: 50, ..Settings::default() };
    let schema = Schema::from_json(SCHEMA).unwrap();
    let opening = Opening { schema, settings, seal: Seal::clear(), clock: SystemClock::shared() };
    let provider = Box::new(MemoryProvider::open(&world.database));
    let engine = Engine::over(provider, Mark::none(), opening, 7).unwrap();
    world.engine = with_files(engine, Box::new(MemoryFiles::default())).unwrap();
    assert_eq!(world.run("reader", 1, args("mine", "reader", &world.all())), "file_missing");
    let (_, under) = world.database.take_most_looked_at();
    assert!(under <= ROWS_MAX, "{under} rows");
    assert_eq!(world.run("owner", DOCUMENTS as u64 + 1, args("more", "owner", &world.all())), "ok");
}

#[test]
fn an_honest_write_waits_for_few_rows_whatever_strangers_name() {
    let world = World::new();
    let is_over = AtomicBool::new(false);
    let (mut honest, rounds) = (0, times("ESCALE_ROUNDS", 200));
    std::thread::scope(|scope| {
        for n in 0..3 {
            let (world, is_over) = (&world, &is_over);
            scope.spawn(move || {
                let account = format!("stranger-{n}");
                let mut seq = 0;
                while !is_over.load(Ordering::Relaxed) {
                    seq += 1;
                    let put = world.run(&account, seq, args("theirs", &account, &world.all()));
                    assert_eq!(put, "file_missing");
                    assert!(matches!(world.list(&account), Put::Missing(_)));
                }
            });
        }
        while honest < rounds {
            honest += 1;
            let put = world.run("honest", honest, args(&format!("honest-{honest}"), "honest", &[]));
            if put != "ok" {
                is_over.store(true, Ordering::Relaxed);
                panic!("the honest write is {put}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // Each write that it waited for has looked at so many rows at most.
    let (_, under) = world.database.take_most_looked_at();
    assert!(under <= (OBJECTS * DOCUMENTS) as u64 + ROWS_MAX, "{under} rows in one write");
}
