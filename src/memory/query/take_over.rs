//! The subscription that a covered collection becomes, if that of its class ends
//! (docs/decisions/37-a-loaded-class-covers-its-collections.md).

use crate::error::Result;
use crate::memory::{Memory, Stamp};
use crate::model::{Def, Pk, order};

/// Subscribes to a collection with these members, which the documents of its class have shown. If they are all, the
/// collection is known as far as its class is, and only later changes are pulled. Otherwise it is loaded from scratch,
/// and they stay visible meanwhile. Does nothing if there is a subscription.
pub(crate) fn take_over(
    memory: &mut Memory,
    class: &Def,
    def: &Def,
    members: Vec<Pk>,
    is_all: bool,
) -> Result<()> {
    let Some(known) = memory.collections.get(class).map(|class| class.set.v()) else { return Ok(()) };
    if !memory.subscribe(def)? {
        return Ok(());
    }
    let v = if is_all { known } else { Stamp::new(memory.era, 0) };
    let members = order::set_of(members);
    // R5: the departures since `v` are remembered. All other documents of that age have left, or never were members.
    let mut left: Vec<(Pk, Stamp)> = Vec::new();
    let class_set = &memory.collections[class].set;
    left.extend(class_set.marks().map(|(pk, at)| (pk.clone(), *at)));
    for pk in class_set.keys().filter(|pk| !members.contains(*pk)) {
        let key = memory.doc_key(def.class(), pk);
        let document = key.and_then(|key| memory.document(&key));
        left.extend(document.filter(|document| document.at >= v).map(|document| (pk.clone(), document.at)));
    }
    if let Some(collection) = memory.collections.get_mut(def) {
        collection.set.restore_v(v);
        collection.ready = true;
    }
    for pk in members {
        let Some(key) = memory.doc_key(def.class(), &pk) else { continue };
        if let Some(at) = memory.document(&key).map(|document| document.at) {
            memory.link(def, &key, at, v.v != 0);
        }
    }
    for (pk, at) in left.iter().filter(|_| v.v != 0) {
        memory.unlink(def, pk, *at);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Data, Part, Row};
    use crate::memory::PartContext;
    use crate::model::schema::Schema;
    use crate::model::{Name, Value};

    const SCHEMA: &str =
        r#"{"Doc":{"key":["id"],"collections":{"section":{"key":["section"],"mutable":true}}}}"#;
    const SETTLED: u64 = 100;

    fn pk(id: &str) -> Pk {
        Pk::from_key(&[id]).unwrap()
    }

    /// A document of that section; deleted if there is none.
    fn row(id: &str, v: u64, section: Option<&str>) -> Row {
        let data = section.map(|section| {
            let map =
                [("id", id), ("section", section)].map(|(name, text)| (name.to_owned(), Value::from(text)));
            Data::from_map(&map.into()).unwrap()
        });
        Row { pk: pk(id), v, max_life: None, deleted: data.is_none(), data }
    }

    fn part(def: &Def, rows: Vec<Row>) -> Part {
        Part { def: def.clone(), rows, left: Vec::new(), present: None, next: None, total: None, fault: None }
    }

    /// The class, loaded up to `SETTLED`, then pushed changes; and the collection that it covered.
    fn taken_over(is_all: bool) -> (Memory, Def) {
        let (class, games) = (Name::new("Doc").unwrap(), Name::new("section").unwrap());
        let def = Def::collection(&class, &games, &["games"]).unwrap();
        let class = Def::class_of(&class);
        let mut memory = Memory::new(Schema::from_json(SCHEMA).unwrap());
        memory.subscribe(&class).unwrap();
        let loaded = ["old", "moved", "gone"].map(|id| row(id, 50, Some("games")));
        let other = row("other", 60, Some("admin"));
        let changed =
            [row("moved", 120, Some("admin")), row("gone", 130, None), row("new", 140, Some("games"))];
        for (rows, asked) in [(loaded.into_iter().chain([other]).collect(), Some(0)), (changed.into(), None)]
        {
            let prepared = memory.prepare(part(&class, rows)).unwrap();
            memory.apply(prepared, PartContext { era: 0, settled: SETTLED, asked });
        }
        take_over(&mut memory, &class, &def, vec![pk("old"), pk("new")], is_all).unwrap();
        memory.unsubscribe(&class);
        memory.check_links();
        (memory, def)
    }

    /// The members stay, all others leave. A row that the departures overtook brings nothing back.
    #[test]
    fn r5_a_covered_collection_keeps_its_members_and_its_departures() {
        let (mut memory, def) = taken_over(true);
        let late = vec![row("moved", 110, Some("games")), row("gone", 115, Some("games"))];
        for asked in [None, Some(SETTLED)] {
            let prepared = memory.prepare(part(&def, late.clone())).unwrap();
            memory.apply(prepared, PartContext { era: 0, settled: SETTLED, asked });
            let collection = memory.collection(&def).unwrap();
            let members: Vec<Pk> = order::set_of(collection.set.keys().cloned()).into_iter().collect();
            assert_eq!(members, order::set_of([pk("old"), pk("new")]).into_iter().collect::<Vec<_>>());
            assert_eq!((collection.ready, collection.v(0), memory.documents().count()), (true, SETTLED, 2));
        }
    }

    /// If some documents were unread, the collection is loaded from scratch. Its members are visible meanwhile.
    #[test]
    fn r5_a_collection_taken_over_in_part_is_loaded_again() {
        let (memory, def) = taken_over(false);
        let collection = memory.collection(&def).unwrap();
        assert_eq!((collection.ready, collection.v(0), collection.set.len()), (true, 0, 2));
        assert!(collection.set.members().all(|(_, member)| !member.confirmed));
    }
}
