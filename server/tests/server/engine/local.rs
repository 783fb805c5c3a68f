//! R29: a class that the schema declares as local.

use escale::codec::SyncRequest;
use escale::model::schema::Schema;
use escale::model::{Def, Name, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Opening};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::operating::*;
use crate::support::world::*;

/// R29: the server has no local class. It refuses operations and subscriptions, and stores no word of it.
#[test]
fn r29_a_local_class_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOON);
    let text = r#"{"Draft":{"key":["id"],"local":true,"collections":{"box":{"key":["box"]}}},"Note":{"key":["id"]}}"#;
    let schema = Schema::from_json(text).unwrap();
    let opening =
        Opening { schema, settings: Settings::default(), seal: Seal::clear(), clock: clock.clone() };
    let engine = Engine::open(folder.path(), opening).unwrap();
    let of = |class: &str| {
        Value::from([
            ("class", class.into()),
            ("data", Value::from([("id", "a".into()), ("box", "b".into())])),
        ])
    };
    let part = |class: &str| Value::from([("name", "doc.put".into()), ("args", of(class))]);
    let both = Value::from([("ops", Value::Array(vec![part("Note"), part("Draft")]))]);
    let name = |text| Name::new(text).unwrap();
    let of_box = Def::collection(&name("Draft"), &name("box"), &["b"]).unwrap();
    let defs = [def("Draft"), def("Draft@a"), of_box];
    let subs = defs.iter().map(|def| sub(def, 0)).collect();
    let ops = vec![op("1", 1, "doc.put", of("Draft")), op("2", 2, "batch", both)];
    let request = SyncRequest { subs, ops, ..SyncRequest::of("s") };
    let reply = engine.sync("o", &caller(), &request).unwrap();
    let codes: Vec<_> =
        reply.results.iter().map(|result| result.fault.as_ref().map(|fault| fault.code.clone())).collect();
    assert_eq!(codes, [Some("unknown_class".to_owned()), Some("unknown_class".to_owned())]);
    let faults = reply.parts.iter().map(|part| part.fault.as_ref().map(|fault| fault.code.as_str()));
    assert_eq!(faults.collect::<Vec<_>>(), [Some("unknown_class"); 3]);
    assert_eq!(ids(&pull(&engine, &def("Note"), 0)), [] as [String; 0], "all of the batch is undone");
    assert!(!engine.provider().read().unwrap().site().unwrap().schema.contains("Draft"));
}
