//! R1, R3 and R5 on one class and its sections, with changes in any order, against a naive model.

mod device;
mod follow;
mod told;

use std::collections::BTreeMap;

use super::{
    Content, DocumentAtRest, LinkAtRest, Member, Memory, Origin, PageRef, PartContext, Stamp, StoredChanges,
};
use crate::codec::{Data, Part, Row};
use crate::model::schema::Schema;
use crate::model::{Def, Name, Pk, SortedMap, Value, order};

const SCHEMA: &str = r#"{"Doc":{"key":["id"],"collections":{"section":{"key":["section"],"mutable":true}}}}"#;
const SECTIONS: [&str; 3] = ["games", "admin", "x11"];
const DOCS: usize = 3;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn pk(doc: usize) -> Pk {
    Pk::from_key(&[&format!("doc{doc}")]).unwrap()
}

fn class() -> Def {
    Def::class_of(&name("Doc"))
}

fn section(number: usize) -> Def {
    Def::collection(&name("Doc"), &name("section"), &[SECTIONS[number]]).unwrap()
}

fn memory() -> Memory {
    let mut memory = Memory::new(Schema::from_json(SCHEMA).unwrap());
    memory.subscribe(&class()).unwrap();
    for number in 0..SECTIONS.len() {
        memory.subscribe(&section(number)).unwrap();
    }
    memory
}

/// The server's writes: at each version a document is in one section, or is deleted.
type History = BTreeMap<(usize, u64), Option<usize>>;

fn row(doc: usize, v: u64, state: Option<usize>) -> Row {
    let data = state.map(|section| {
        let map = [
            ("id".to_owned(), Value::String(format!("doc{doc}"))),
            ("section".to_owned(), SECTIONS[section].into()),
            ("edition".to_owned(), Value::from(v as i64)),
        ];
        Data::from_map(&map.into()).unwrap()
    });
    Row { pk: pk(doc), v, deleted: state.is_none(), max_life: None, data }
}

/// The server's message to a def about one write: a row, a departure, or nothing.
fn told(def: &Def, doc: usize, v: u64, history: &History) -> Option<Part> {
    let state = history[&(doc, v)];
    let before = history.range((doc, 0)..(doc, v)).next_back().and_then(|(_, state)| *state);
    let holds = |state: Option<usize>| state.is_some_and(|s| *def == class() || *def == section(s));
    let empty = Part::empty(def.clone());
    match (holds(before), holds(state)) {
        (_, true) => Some(Part { rows: vec![row(doc, v, state)], ..empty }),
        (true, false) if state.is_none() => Some(Part { rows: vec![row(doc, v, None)], ..empty }),
        (true, false) => Some(Part { left: vec![(pk(doc), v)], ..empty }),
        (false, false) => None,
    }
}

fn apply(memory: &mut Memory, part: Part, asked: Option<u64>, settled: u64) {
    let part = memory.prepare(part).unwrap();
    memory.apply(part, PartContext { era: 0, settled, asked });
    memory.check_links();
}

/// The members of a def, with the versions of their data.
fn shown(memory: &Memory, def: &Def) -> BTreeMap<Pk, u64> {
    let set = &memory.collection(def).unwrap().set;
    let at = |pk: &Pk| memory.document(&(0, pk.clone())).unwrap().at.v;
    set.keys().map(|pk| (pk.clone(), at(pk))).collect()
}

/// The seeds of the histories: the one of `ESCALE_SEED`; otherwise as many as `ESCALE_CASES` says, or the usual number, or ten
/// times as many with `ESCALE_EFFORT=proof` (docs/testing.md). `testkit/src/seeds.rs` does the same; it is not built for wasm.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let effort = match std::env::var("ESCALE_EFFORT").as_deref() {
        Err(_) | Ok("") => 1,
        Ok("proof") => 10,
        Ok(other) => panic!("ESCALE_EFFORT is proof or not set: {other}"),
    };
    match number("ESCALE_SEED") {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..number("ESCALE_CASES").unwrap_or(usual * effort),
    }
}

/// Numbers from a seed: this layer has no other source of randomness.
pub(super) struct Seeded(u64);

impl Seeded {
    pub(super) fn new(seed: u64) -> Self {
        Seeded(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

pub(super) fn below(random: &mut Seeded, bound: usize) -> usize {
    random.0 ^= random.0 << 13;
    random.0 ^= random.0 >> 7;
    random.0 ^= random.0 << 17;
    (random.0 >> 11) as usize % bound
}

fn history(random: &mut Seeded) -> History {
    let count = 1 + below(random, 9);
    let mut write = |v| {
        let state = (below(random, 10) < 7).then(|| below(random, SECTIONS.len()));
        ((below(random, DOCS), v), state)
    };
    (1..=count as u64).map(&mut write).collect()
}

/// Each write sent to each def twice, in any order.
fn story(random: &mut Seeded, history: &History) -> Vec<(usize, (usize, u64))> {
    let once = history.keys().flat_map(|write| (0..=SECTIONS.len()).map(|def| (def, *write)));
    let mut story: Vec<_> = once.clone().chain(once).collect();
    for place in (1..story.len()).rev() {
        story.swap(place, below(random, place + 1));
    }
    story
}

fn def(number: usize) -> Def {
    if number == SECTIONS.len() { class() } else { section(number) }
}

/// For any sequence of messages, the data of a held document only ever advances to a higher version.
#[test]
fn r1_version_guard() {
    for seed in seeds(300) {
        let random = &mut Seeded::new(seed);
        let history = history(random);
        let mut memory = memory();
        let mut seen: BTreeMap<Pk, u64> = BTreeMap::new();
        for (number, (doc, v)) in story(random, &history) {
            if let Some(part) = told(&def(number), doc, v, &history) {
                apply(&mut memory, part, None, 0);
            }
            let held: BTreeMap<Pk, u64> =
                memory.documents().map(|((_, pk), document)| (pk.clone(), document.at.v)).collect();
            for (pk, v) in &held {
                assert!(
                    seen.get(pk).is_none_or(|before| before <= v),
                    "ESCALE_SEED={seed}: {pk} went back to {v}"
                );
            }
            // A document that no def holds is forgotten (R2): it may return at a lower version, until the
            // def's own pull.
            seen = held;
        }
    }
}

/// R3 and R5: after every write was sent twice in any order, each def holds the result of the last writes.
#[test]
fn r5_no_resurrection_in_any_order() {
    for seed in seeds(300) {
        let random = &mut Seeded::new(seed);
        let history = history(random);
        let mut memory = memory();
        for (number, (doc, v)) in story(random, &history) {
            if let Some(part) = told(&def(number), doc, v, &history) {
                apply(&mut memory, part, None, 0);
            }
        }
        for number in 0..=SECTIONS.len() {
            let def = def(number);
            let mut wanted = BTreeMap::new();
            for doc in 0..DOCS {
                let last = history.range((doc, 0)..(doc, u64::MAX)).next_back();
                if let Some(((_, v), Some(state))) = last
                    && (def == class() || def == section(*state))
                {
                    wanted.insert(pk(doc), *v);
                }
            }
            assert_eq!(shown(&memory, &def), wanted, "ESCALE_SEED={seed}: {def}");
        }
    }
}

/// R4: a reply applied again changes nothing, regardless of its content.
#[test]
fn r4_the_same_reply_twice_changes_nothing() {
    for seed in seeds(300) {
        let random = &mut Seeded::new(seed);
        let history = history(random);
        let settled = below(random, 12) as u64;
        let mut memory = memory();
        for number in 0..=SECTIONS.len() {
            let def = def(number);
            let mut whole = Part::empty(def.clone());
            for doc in 0..DOCS {
                let Some(((_, v), _)) = history.range((doc, 0)..(doc, u64::MAX)).next_back() else {
                    continue;
                };
                if let Some(part) = told(&def, doc, *v, &history) {
                    whole.rows.extend(part.rows);
                    whole.left.extend(part.left);
                }
            }
            apply(&mut memory, whole.clone(), Some(0), settled);
            memory.dirty.take();
            memory.unreported.take();
            let before = shown(&memory, &def);
            apply(&mut memory, whole, Some(settled), settled);
            assert_eq!(shown(&memory, &def), before, "ESCALE_SEED={seed}: {def}");
            let (changed, gone) = memory.unreported.take();
            assert!(
                changed.is_empty() && gone.is_empty(),
                "ESCALE_SEED={seed}: nothing to tell the application"
            );
            assert!(memory.dirty.take().documents.is_empty(), "ESCALE_SEED={seed}: no data to write");
        }
    }
}

/// The ids of restored documents are their indexes: an id whose index another document has taken names
/// nothing.
#[test]
fn an_id_names_its_document_or_nothing() {
    for seed in seeds(300) {
        let random = &mut Seeded::new(seed);
        let (mut memory, mut named) = (memory(), BTreeMap::new());
        let at = Stamp::new(0, 1);
        for doc in 0..4 + below(random, 8) {
            let place = PageRef { page: 1, slot: doc as u32, bytes: 9 };
            let state = (below(random, 4) > 0).then_some(DocumentAtRest { at, max_life: None, place });
            let (pk, member) = (pk(doc % 6), state.map(|_| Member { at, confirmed: true }));
            let changes = StoredChanges {
                documents: vec![(class().class().clone(), vec![(pk.clone(), state)])],
                links: vec![(class(), vec![LinkAtRest { pk, member, mark: None }])],
                ..StoredChanges::default()
            };
            memory.apply_stored(changes, Origin::Opening(&SortedMap::new()));
        }
        memory.end_opening(false);
        memory.check_links();
        for v in 2..40 {
            named.extend(memory.documents().map(|(key, document)| (document.id, key.clone())));
            let doc = below(random, 12);
            let mut part = Part::empty(class());
            if below(random, 2) == 0 {
                part.rows.push(row(doc, v, Some(0)));
            } else {
                part.left.push((pk(doc), v));
            }
            apply(&mut memory, part, None, 0);
            for (id, key) in &named {
                let living = memory.document(key).filter(|document| document.id == *id);
                let found = memory.by_id(*id);
                assert_eq!(found.map(|(key, _)| key), living.map(|_| key), "ESCALE_SEED={seed}: {id}");
            }
        }
    }
}

/// By R1, equal versions change nothing, except for data found damaged: the server sends the same version
/// again (R14).
#[test]
fn r14_data_found_damaged_is_replaced_by_its_own_version_and_by_no_older_one() {
    let mut memory = memory();
    let key = (0, pk(0));
    let tell = |memory: &mut Memory, v: u64| {
        apply(memory, Part { rows: vec![row(0, v, Some(0))], ..Part::empty(class()) }, Some(0), 0);
    };
    let is_lost = |memory: &Memory| matches!(memory.document(&key).unwrap().content, Content::Lost);
    tell(&mut memory, 7);
    memory.lose(&key);
    assert!(is_lost(&memory));
    tell(&mut memory, 6);
    assert!(is_lost(&memory), "an older one is not what was there");
    tell(&mut memory, 7);
    assert!(!is_lost(&memory));
    assert_eq!(memory.document(&key).unwrap().at, Stamp::new(0, 7));
}

/// A row is pushed amid a whole load, and its document leaves before the load ends. Only the load itself confirms a link.
#[test]
fn r6_a_pushed_row_confirms_no_link_of_a_whole_load() {
    for is_pushed in [true, false] {
        let mut memory = Memory::new(Schema::from_json(SCHEMA).unwrap());
        memory.subscribe(&class()).unwrap();
        let page = |doc: usize, v: u64| Part { rows: vec![row(doc, v, Some(0))], ..Part::empty(class()) };
        let followed = |part: Part| Part { next: Some("cursor".into()), ..part };
        apply(&mut memory, followed(page(0, 10)), Some(0), 100);
        if is_pushed {
            apply(&mut memory, page(1, 50), None, 0);
        } else {
            apply(&mut memory, followed(page(1, 50)), Some(0), 100);
        }
        // Newer than the load, so its pages say nothing about it.
        apply(&mut memory, page(2, 150), None, 0);
        apply(&mut memory, Part::empty(class()), Some(0), 100);
        let members: Vec<bool> = (0..3).map(|doc| shown(&memory, &class()).contains_key(&pk(doc))).collect();
        assert_eq!(members, [true, !is_pushed, true], "pushed: {is_pushed}");
    }
}

/// An operation awaits the defs in which its effect becomes visible.
#[test]
fn an_effect_becomes_visible_in_the_collections_that_hold_the_document() {
    let mut memory = memory();
    let key = (0, pk(0));
    let all = [class(), section(0), section(1), section(2)];
    assert_eq!(memory.defs_of(&key), order::set_of(all), "nobody knows which ones will hold it");
    let history = [((0, 10), Some(1))].into();
    for def in [class(), section(1)] {
        let part = told(&def, 0, 10, &history).unwrap();
        apply(&mut memory, part, None, 10);
    }
    assert_eq!(memory.defs_of(&key), order::set_of([class(), section(1)]));
}
