//! Engines on separate folders, with clocks that stand still.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use escale::Result;
use escale::codec::{Part, Sub, SyncReply, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Def, Name, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Opening, Outcome};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use proptest::test_runner::Config as ProptestConfig;

use escale_testkit::seeds;

/// A configuration of `n` random cases, from a seed that is printed if one fails.
pub fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 400, ..seeds::config(n) }
}

/// A day in 2027.
pub const NOON: u64 = 1_800_000_000_000;
pub const DAY: u64 = 86_400_000;

pub const SCHEMA: &str = r#"{
    "Note": {
        "key": ["id"],
        "collections": {
            "shelf": { "key": ["shelf"], "mutable": true },
            "tags": { "key": ["tags"], "list": true, "mutable": true },
            "author": { "key": ["author"] }
        },
        "indexes": {
            "size": "integer",
            "mail": { "type": "hash", "unique": true },
            "isbn": { "type": "string", "unique": true, "global": true }
        }
    },
    "Log": { "key": ["id"], "sync": false, "collections": { "shelf": { "key": ["shelf"] } } }
}"#;

pub struct World {
    pub folder: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    pub engine: Arc<Engine>,
}

/// A folder in memory, if the system has one, so that nothing waits for a disk: for tests that commit
/// thousands of times.
pub fn quick_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

pub fn world() -> World {
    world_with(Settings::default())
}

pub fn world_with(settings: Settings) -> World {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOON);
    let engine = Arc::new(open(folder.path(), &clock, settings).unwrap());
    World { folder, clock, engine }
}

pub fn open(folder: &Path, clock: &Arc<ManualClock>, settings: Settings) -> Result<Engine> {
    let schema = Schema::from_json(SCHEMA).unwrap();
    Engine::open(folder, Opening { schema, settings, seal: Seal::clear(), clock: clock.clone() })
}

pub fn caller() -> Caller {
    Caller { may_write: true, ..Caller::default() }
}

pub fn note(id: &str, shelf: &str) -> BTreeMap<String, Value> {
    BTreeMap::from([("id".into(), id.into()), ("shelf".into(), shelf.into())])
}

pub fn key(id: &str) -> BTreeMap<String, Value> {
    BTreeMap::from([("id".into(), id.into())])
}

pub fn put(engine: &Engine, map: BTreeMap<String, Value>) -> Result<Option<u64>> {
    engine.write("o", |w| w.put("Note", map.clone())).map(|written| {
        assert_eq!(written.v.is_some(), written.value == Outcome::Written);
        written.v
    })
}

pub fn delete(engine: &Engine, id: &str) -> Result<Option<u64>> {
    engine.write("o", |w| w.delete("Note", &key(id))).map(|written| written.v)
}

pub fn shelf(value: &str) -> Def {
    Def::collection(&Name::new("Note").unwrap(), &Name::new("shelf").unwrap(), &[value]).unwrap()
}

pub fn def(text: &str) -> Def {
    text.parse().unwrap()
}

pub fn sub(def: &Def, v: u64) -> Sub {
    Sub { def: def.clone(), v, cursor: None }
}

pub fn ask(engine: &Engine, subs: Vec<Sub>) -> SyncReply {
    let request = SyncRequest { subs, ..SyncRequest::of("s") };
    let reply = engine.sync("o", &caller(), &request).unwrap();
    reply.check().unwrap();
    reply
}

/// The part of a reply about that def since `v`. It must be the only part.
pub fn pull(engine: &Engine, def: &Def, v: u64) -> Part {
    let mut parts = ask(engine, vec![sub(def, v)]).parts;
    assert_eq!(parts.len(), 1);
    parts.remove(0)
}

/// The ids of the documents in a part's rows; a tombstone shows as its pk.
pub fn ids(part: &Part) -> Vec<String> {
    part.rows
        .iter()
        .map(|row| match &row.data {
            Some(data) => data.to_map().unwrap()["id"].as_str().unwrap().to_owned(),
            None => format!("-{}", row.pk),
        })
        .collect()
}
