//! After each change the memory names each def whose documents changed, and each id that is not used any more.
//! It finds ends of life in time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Seeded, below, seeds};
use crate::codec::{Data, Part, Row};
use crate::memory::{Content, DocKey, Memory, PartContext, touch_expired};
use crate::model::schema::Schema;
use crate::model::{Def, Epoch, Name, Pk, Value};

pub(super) const SCHEMA: &str =
    r#"{"Doc":{"key":["id"],"collections":{"section":{"key":["section"],"mutable":true}}}}"#;
const SECTIONS: [&str; 2] = ["games", "admin"];
const MINUTE: u64 = 60_000;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn pk(doc: usize) -> Pk {
    Pk::from_key(&[&format!("doc{doc}")]).unwrap()
}

pub(super) fn defs() -> Vec<Def> {
    let section = |value| Def::collection(&name("Doc"), &name("section"), &[value]).unwrap();
    let own = Def::document(&name("Doc"), &pk(0));
    vec![Def::class_of(&name("Doc")), section(SECTIONS[0]), section(SECTIONS[1]), own]
}

pub(super) fn state(doc: usize, v: u64, section: usize) -> BTreeMap<String, Value> {
    let texts =
        [("id", format!("doc{doc}")), ("section", SECTIONS[section].to_owned()), ("v", v.to_string())];
    texts.into_iter().map(|(name, text)| (name.to_owned(), Value::String(text))).collect()
}

/// Each def as the application sees it: the ids of its documents, and whether each one's data can be read.
pub(super) fn seen(memory: &Memory) -> BTreeMap<Def, (bool, BTreeSet<(u32, bool)>)> {
    let of = |def: &Def, pk: &Pk| -> Option<(u32, bool)> {
        let key = memory.doc_key(def.class(), pk)?;
        if memory.shown(&key).is_some() {
            return None;
        }
        let document = memory.document(&key)?;
        Some((document.id, !matches!(document.content, Content::Lost)))
    };
    let mut seen: BTreeMap<Def, (bool, BTreeSet<(u32, bool)>)> = memory
        .collections()
        .map(|(def, held)| {
            (def.clone(), (held.ready, held.set.keys().filter_map(|pk| of(def, pk)).collect()))
        })
        .collect();
    for (_, shown) in memory.all_shown().filter(|(_, shown)| shown.data.is_some()) {
        for def in &shown.defs {
            if let Some((_, ids)) = seen.get_mut(def) {
                ids.insert((shown.id, true));
            }
        }
    }
    seen
}

/// Every id that names a document or an overlay.
pub(super) fn ids(memory: &Memory) -> BTreeSet<u32> {
    let shown = memory.all_shown().map(|(_, shown)| shown.id).filter(|id| *id != 0);
    memory.documents().map(|(_, document)| document.id).chain(shown).collect()
}

/// The ends of life, each with its document.
fn ends(memory: &Memory) -> BTreeSet<(u64, DocKey)> {
    let ends = memory.documents().map(|(key, document)| (key, document.max_life));
    let ends = ends.chain(memory.all_shown().map(|(key, shown)| (key, shown.max_life)));
    ends.filter_map(|(key, end)| Some((end?, key.clone()))).collect()
}

pub(super) fn step(memory: &mut Memory, random: &mut Seeded, v: u64) {
    let (defs, doc) = (defs(), below(random, 4));
    let def = &defs[below(random, defs.len())];
    let key = (0, pk(doc));
    match below(random, 16) {
        0 => drop(memory.subscribe(def).unwrap()),
        1 => drop(memory.unsubscribe(def)),
        2 => drop(memory.enter_epoch(&Epoch::new(v / 30, "e").unwrap())),
        3 => memory.lose(&key),
        4 => memory.restart(def),
        5 | 6 => {
            let mut state = (below(random, 3) > 0).then(|| state(doc, v, below(random, 2)));
            if let Some(state) = state.as_mut().filter(|_| below(random, 2) == 0) {
                let end = v + below(random, 5) as u64;
                state.insert("maxLife".to_owned(), Value::from(end as i64));
            }
            memory.show(&key, state.as_ref()).unwrap();
        }
        7 => memory.unshow(&key),
        8 => memory.remove_expired((v - 5) * MINUTE + below(random, 3) as u64),
        _ => {
            let mut part = Part::empty(def.clone());
            let deleted = below(random, 5) == 0;
            let data = (!deleted).then(|| Data::from_map(&state(doc, v, below(random, 2))).unwrap());
            let at = v - below(random, 3) as u64;
            let max_life = (below(random, 3) == 0).then(|| v + below(random, 5) as u64);
            part.rows.push(Row { pk: pk(doc), v: at, deleted, max_life, data });
            if below(random, 4) == 0 {
                part.left.push((pk(below(random, 4)), v));
            }
            let asked =
                (below(random, 3) > 0).then(|| memory.collection(def).map_or(0, |held| held.set.v().v));
            let (era, part) = (memory.epoch().1, memory.prepare(part).unwrap());
            memory.apply(part, PartContext { era, settled: v - 4, asked });
        }
    }
}

#[test]
fn each_change_is_told_to_the_application() {
    for seed in seeds(300) {
        let random = &mut Seeded::new(seed);
        let mut memory = Memory::new(Schema::from_json(SCHEMA).unwrap());
        for v in 10..70 {
            let (before, used) = (seen(&memory), ids(&memory));
            assert!(memory.unreported.is_empty(), "ESCALE_SEED={seed}: all was taken");
            step(&mut memory, random, v);
            memory.check_links();
            let is_told = memory.unreported.is_empty();
            let (changed, gone) = memory.unreported.take();
            assert_eq!(is_told, changed.is_empty() && gone.is_empty(), "ESCALE_SEED={seed}");
            let after = seen(&memory);
            for def in defs() {
                let is_other = before.get(&def) != after.get(&def);
                assert!(!is_other || changed.contains(&def), "ESCALE_SEED={seed}, {v}: {def} changed");
            }
            // An id may begin and end within one step.
            let unused: BTreeSet<u32> = used.difference(&ids(&memory)).copied().collect();
            let told: BTreeSet<u32> = gone.iter().copied().filter(|id| used.contains(id)).collect();
            assert_eq!(told, unused, "ESCALE_SEED={seed}, {v}: the ids that are not used any more");
            assert!(gone.iter().all(|id| memory.by_id(*id).is_none() && memory.shown_by_id(*id).is_none()));
            for (key, document) in memory.documents() {
                assert_eq!(memory.by_id(document.id).map(|(key, _)| key), Some(key), "ESCALE_SEED={seed}");
            }
            check_ends(&mut memory, random, seed, v);
        }
    }
}

fn check_ends(memory: &mut Memory, random: &mut Seeded, seed: u64, v: u64) {
    let ends = ends(memory);
    let near = |random: &mut Seeded| (v + below(random, 4) as u64) * MINUTE + below(random, 3) as u64 - 1;
    let now = near(random);
    let next = ends.iter().map(|(minute, _)| minute * MINUTE).find(|end| *end > now);
    assert_eq!(memory.next_expiry(now), next, "ESCALE_SEED={seed}, at {now}");
    let (from, to) = (near(random), near(random));
    touch_expired(memory, from, to);
    let between =
        ends.iter().filter(|(minute, _)| (from.min(to) + 1..=from.max(to)).contains(&(minute * MINUTE)));
    let shown = |key| memory.shown(key).map(|shown| shown.defs.clone()).unwrap_or_default();
    let held: BTreeSet<Def> =
        between.flat_map(|(_, key)| [memory.holders(key).to_vec(), shown(key)].concat()).collect();
    let told: BTreeSet<Def> = memory.unreported.take().0.into_iter().collect();
    assert_eq!(told, held, "ESCALE_SEED={seed}: those of which a document ends from {from} to {to}");
}
