//! Engines with associations, their members, statutes and scans: parents and items.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use escale::model::schema::Schema;
use escale::model::{Def, Pk, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Opening, WriteTx};
use escale_server::provider::{Place, Tree};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::world::{NOON, World};

pub const ITEMS: &str = r#"{
    "Asso": { "key": ["id"], "collections": { "city": { "key": ["city"], "mutable": true } } },
    "Adh":  { "in": "Asso", "key": ["asso", "num"], "indexes": { "joined": "integer" } },
    "Sta":  { "in": "Asso", "key": ["asso"] },
    "Scan": { "in": "Asso", "key": ["asso", "page"], "raw": true }
}"#;

/// The same on the clock `sequence`, and notes on the clock `time`.
pub const NUMBERED: &str = r#"{
    "Asso": { "key": ["id"], "clock": "sequence" },
    "Adh":  { "in": "Asso", "key": ["asso", "num"], "indexes": { "joined": "integer" } },
    "Sta":  { "in": "Asso", "key": ["asso"] },
    "Note": { "key": ["id"], "collections": { "shelf": { "key": ["shelf"] } } }
}"#;

pub fn open_schema(folder: &Path, clock: &Arc<ManualClock>, settings: Settings, schema: &str) -> Engine {
    let schema = Schema::from_json(schema).unwrap();
    Engine::open(folder, Opening { schema, settings, seal: Seal::clear(), clock: clock.clone() }).unwrap()
}

/// A world of another schema.
pub fn world_of(settings: Settings, schema: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOON);
    let engine = Arc::new(open_schema(folder.path(), &clock, settings, schema));
    World { folder, clock, engine }
}

pub fn items_with(settings: Settings) -> World {
    world_of(settings, ITEMS)
}

pub fn items() -> World {
    items_with(Settings::default())
}

type Map = BTreeMap<String, Value>;

pub fn asso(id: &str) -> Map {
    [("id".to_owned(), Value::from(id))].into()
}

/// A member. `id` is no key property: the sessions of these tests show it.
pub fn adh(asso: &str, num: &str) -> Map {
    let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
    [text("asso", asso), text("num", num), text("id", num)].into()
}

pub fn sta(asso: &str) -> Map {
    [("asso".to_owned(), Value::from(asso))].into()
}

/// The defs of an association: it, its members, its statutes.
pub fn tree_defs(id: &str) -> [Def; 3] {
    let pk = Pk::from_key(&[id]).unwrap();
    [format!("Asso@{pk}"), format!("Adh/in@{pk}"), format!("Sta/in@{pk}")].map(|text| text.parse().unwrap())
}

pub fn members(id: &str) -> Def {
    let [_, members, _] = tree_defs(id);
    members
}

pub fn single(asso: &str, num: &str) -> Def {
    format!("Adh@{}", Pk::from_key(&[asso, num]).unwrap()).parse().unwrap()
}

/// Runs a write, and returns its version.
pub fn write(engine: &Engine, run: impl FnMut(&mut WriteTx<'_>) -> escale::Result<()>) -> u64 {
    engine.write("o", run).unwrap().v.unwrap()
}

pub fn tree(engine: &Engine, id: &str) -> Option<Tree> {
    let pk = Pk::from_key(&[id]).unwrap();
    engine.provider().read().unwrap().tree(Place { org: "o", class: "Asso", pk: pk.as_str() }).unwrap()
}
