//! A follower's memory replays the changes that the leader has written, or takes over the whole state. Then it
//! is the leader's, without the subscriptions that the follower has ended.

use std::collections::{BTreeMap, BTreeSet};

use super::told::{SCHEMA, defs, ids, pk, seen, state, step};
use super::{Seeded, below, seeds};
use crate::codec::{Data, Part, Row};
use crate::memory::{
    Collection, CollectionAtRest, Content, DocKey, DocumentAtRest, LinkAtRest, Memory, Origin, PageRef,
    PartContext, Stamp, StoredChanges, at_rest,
};
use crate::model::schema::Schema;
use crate::model::{Def, Pk, SortedMap, SortedSet, order};

fn memory() -> Memory {
    Memory::new(Schema::from_json(SCHEMA).unwrap())
}

fn collection_at_rest(held: &Collection) -> CollectionAtRest {
    CollectionAtRest {
        v: held.set.v(),
        ready: held.ready,
        load: held.load.clone(),
        lease: at_rest(held.lease),
    }
}

/// The leader's changes in the order in which the log has them. Returns the documents among them, and whether the
/// follower needs the whole state.
fn replay(
    leader: &mut Memory,
    follower: &mut Memory,
    dropped: &SortedSet<Def>,
    page: &mut u64,
) -> (Vec<DocKey>, bool) {
    let dirty = leader.dirty.take();
    let (epoch, era) = leader.epoch();
    let mut changes = StoredChanges { epoch: Some((epoch.cloned(), era)), ..StoredChanges::default() };
    for def in &dirty.collections {
        changes.collections.push((def.clone(), leader.collection(def).map(collection_at_rest)));
    }
    let changed: Vec<DocKey> = dirty.documents.into_iter().collect();
    for key in &changed {
        *page += 1;
        let place = PageRef { page: *page, slot: 0, bytes: 9 };
        let facts = leader.document(key).map(|document| (document.at, document.max_life));
        if let Some((at, _)) = facts {
            leader.settle_at_rest(key, at, place);
        }
        let state = facts.map(|(at, max_life)| DocumentAtRest { at, max_life, place });
        changes.documents.push((leader.class_name(key), vec![(key.1.clone(), state)]));
    }
    for (def, pk) in &dirty.links {
        let set = leader.collection(def).map(|held| &held.set);
        let (member, mark) = (set.and_then(|set| set.member(pk)), set.and_then(|set| set.mark(pk)));
        changes.links.push((def.clone(), vec![LinkAtRest { pk: pk.clone(), member, mark }]));
    }
    follower.apply_stored(changes, Origin::Following);
    for def in dropped {
        follower.unsubscribe(def);
    }
    let lacks_documents = follower.end_following();
    (changed, lacks_documents)
}

/// The leader writes its state. Returns the state that an opening restores.
fn restored(leader: &mut Memory, page: &mut u64) -> Memory {
    leader.dirty.take();
    let held: Vec<(DocKey, Stamp)> = leader.documents().map(|(key, held)| (key.clone(), held.at)).collect();
    for (key, at) in held {
        *page += 1;
        leader.settle_at_rest(&key, at, PageRef { page: *page, slot: 0, bytes: 9 });
    }
    let mut read = memory();
    let (epoch, era) = leader.epoch();
    let mut changes = StoredChanges { epoch: Some((epoch.cloned(), era)), ..StoredChanges::default() };
    let mut told = SortedMap::new();
    for (def, held) in leader.collections() {
        changes.collections.push((def.clone(), Some(collection_at_rest(held))));
        let pks: BTreeSet<&Pk> = held.set.keys().chain(held.set.marks().map(|(pk, _)| pk)).collect();
        told.insert(def.clone(), pks.len());
        let link =
            |pk: &Pk| LinkAtRest { pk: pk.clone(), member: held.set.member(pk), mark: held.set.mark(pk) };
        changes.links.push((def.clone(), pks.into_iter().map(link).collect()));
    }
    read.documents.reserve(leader.documents().count());
    for (key, document) in leader.documents() {
        let place = document.slot.expect("written");
        let state = DocumentAtRest { at: document.at, max_life: document.max_life, place };
        changes.documents.push((leader.class_name(key), vec![(key.1.clone(), Some(state))]));
    }
    read.apply_stored(changes, Origin::Opening(&told));
    assert_eq!(read.end_opening(false).documents, 0, "no link without its document");
    assert!(read.is_clean() && read.unreported.is_empty());
    read.check_links();
    read
}

/// A def in memory: its version, whether it is ready, its members, and its removal tombstones.
type Known = (Stamp, bool, BTreeMap<Pk, (Stamp, bool, Stamp, Option<u64>)>, BTreeMap<Pk, Stamp>);

fn known(memory: &Memory, except: &SortedSet<Def>) -> BTreeMap<Def, Known> {
    let defs = memory.collections().filter(|(def, _)| !except.contains(*def));
    defs.map(|(def, held)| {
        let members = held.set.members().map(|(pk, member)| {
            let document = memory.document(&(0, pk.clone())).expect("R2");
            (pk.clone(), (member.at, member.confirmed, document.at, document.max_life))
        });
        let marks = held.set.marks().map(|(pk, mark)| (pk.clone(), *mark)).collect();
        (def.clone(), (held.set.v(), held.ready, members.collect(), marks))
    })
    .collect()
}

/// The base of each pinned document: its version, and the defs that hold it.
fn bases(memory: &Memory) -> BTreeMap<DocKey, (Option<Stamp>, Vec<Def>)> {
    let keys = (0..4).map(|doc| (0, pk(doc))).filter(|key| memory.pins.holds(key));
    keys.map(|key| {
        let at = memory.document(&key).map(|document| document.at);
        let held = memory.holders(&key).to_vec();
        (key, (at, held))
    })
    .collect()
}

#[test]
fn a_follower_is_as_the_leader_whether_it_replays_or_takes_over() {
    for seed in seeds(300) {
        let random = &mut Seeded::new(seed);
        let (mut leader, mut follower, mut page) = (memory(), memory(), 0);
        let (mut dropped, mut kept, mut pinned) = (SortedSet::new(), SortedSet::new(), Vec::new());
        for v in 10..60 {
            for _ in 0..below(random, 3) {
                step(&mut leader, random, v);
            }
            // Overlays are each session's own.
            (0..4).for_each(|doc| leader.unshow(&(0, pk(doc))));
            let def = defs()[below(random, 4)].clone();
            match below(random, 12) {
                0 if leader.collection(&def).is_some() => {
                    follower.unsubscribe(&def);
                    dropped.insert(def);
                }
                1 if leader.collection(&def).is_none() && !kept.contains(&def) => {
                    follower.subscribe(&def).unwrap();
                    dropped.remove(&def);
                    kept.insert(def);
                }
                2 => follower.lose(&(0, pk(below(random, 4)))),
                3 => {
                    let key = (0, pk(below(random, 4)));
                    follower.pins.add(&key);
                    pinned.push(key);
                }
                4 => pinned.pop().iter().for_each(|key| follower.unpin(key)),
                _ => {}
            }
            follower.unreported.take();
            follower.pins.take_touched();
            follower.dirty.take();
            let (before, used, under) = (seen(&follower), ids(&follower), bases(&follower));
            let mut takes_over = below(random, 4) == 0;
            if !takes_over {
                let (changed, lacks_documents) = replay(&mut leader, &mut follower, &dropped, &mut page);
                // The leader had it in between.
                kept.retain(|def| follower.collection(def).is_some());
                for document in changed.iter().filter_map(|key| follower.document(key)) {
                    assert!(!matches!(document.content, Content::Lost), "ESCALE_SEED={seed}: written again");
                }
                follower.check_links();
                takes_over = lacks_documents;
            }
            if takes_over {
                let read = restored(&mut leader, &mut page);
                let all = SortedSet::new();
                assert_eq!(known(&read, &all), known(&leader, &all), "ESCALE_SEED={seed}");
                assert_eq!(read.next_expiry(0), leader.next_expiry(0), "ESCALE_SEED={seed}");
                let ended = dropped.iter().filter(|def| read.collection(def).is_some());
                let ended = order::set_of(ended.cloned());
                follower.adopt(read, &kept, &dropped);
                // If it leads now, it writes this.
                assert_eq!(follower.dirty.take().collections, ended, "ESCALE_SEED={seed}");
            }
            kept.retain(|def| leader.collection(def).is_none());
            dropped.retain(|def| leader.collection(def).is_some());
            assert!(follower.is_clean(), "ESCALE_SEED={seed}: a follower writes nothing");
            follower.check_links();
            let but = order::set_of(kept.iter().chain(dropped.iter()).cloned());
            assert_eq!(known(&follower, &but), known(&leader, &but), "ESCALE_SEED={seed}, {v}");
            assert!(kept.iter().all(|def| follower.collection(def).is_some_and(|held| held.set.is_empty())));
            assert!(dropped.iter().all(|def| follower.collection(def).is_none()), "ESCALE_SEED={seed}");
            assert_eq!(follower.epoch(), leader.epoch(), "ESCALE_SEED={seed}");
            check_told(&mut follower, (&before, &used, &under), seed);
        }
    }
}

type Before<'a> = (
    &'a BTreeMap<Def, (bool, BTreeSet<(u32, bool)>)>,
    &'a BTreeSet<u32>,
    &'a BTreeMap<DocKey, (Option<Stamp>, Vec<Def>)>,
);

/// The application of the follower learns of each change, and so do its operations.
fn check_told(follower: &mut Memory, (before, used, under): Before<'_>, seed: u64) {
    let after = seen(follower);
    let (changed, gone) = follower.unreported.take();
    for def in defs() {
        let is_other = before.get(&def) != after.get(&def);
        assert!(!is_other || changed.contains(&def), "ESCALE_SEED={seed}: {def} changed");
    }
    let unused: BTreeSet<u32> = used.difference(&ids(follower)).copied().collect();
    let told: BTreeSet<u32> = gone.into_iter().filter(|id| used.contains(id)).collect();
    assert_eq!(told, unused, "ESCALE_SEED={seed}: the ids that are not used any more");
    let touched = follower.pins.take_touched();
    for (key, base) in bases(follower) {
        assert!(under.get(&key) == Some(&base) || touched.contains(&key), "ESCALE_SEED={seed}: {key:?}");
    }
    let unread: BTreeSet<u32> = follower.pins_at_rest().into_iter().collect();
    for key in bases(follower).into_keys() {
        let Some(document) = follower.document(&key) else { continue };
        let is_at_rest = matches!(document.content, Content::AtRest) && follower.base_data(&key).is_none();
        assert_eq!(unread.contains(&document.id), is_at_rest, "ESCALE_SEED={seed}: {key:?} is to be read");
    }
}

/// A log may remove a document and say nothing of its links.
#[test]
fn r2_a_removed_document_leaves_the_defs_that_hold_it() {
    let (mut leader, mut follower, mut page) = (memory(), memory(), 0);
    let random = &mut Seeded::new(1);
    while leader.documents().next().is_none() {
        step(&mut leader, random, 10);
    }
    (0..4).for_each(|doc| leader.unshow(&(0, pk(doc))));
    replay(&mut leader, &mut follower, &SortedSet::new(), &mut page);
    let keys: Vec<DocKey> = follower.documents().map(|(key, _)| key.clone()).collect();
    assert!(!keys.is_empty());
    let gone = keys.into_iter().map(|(_, pk)| (pk, None)).collect();
    let documents = vec![(leader.class_name(&(0, pk(0))), gone)];
    follower.apply_stored(StoredChanges { documents, ..StoredChanges::default() }, Origin::Following);
    follower.end_following();
    assert_eq!(follower.documents().count(), 0);
    follower.check_links();
}

/// The follower has ended a subscription, and the leader does not know yet. A document that came for it stayed in
/// the follower's memory, held by nothing.
#[test]
fn r2_a_document_of_an_ended_subscription_does_not_stay_in_a_follower() {
    let (mut leader, mut follower, mut page) = (memory(), memory(), 0);
    let class = defs()[0].clone();
    leader.subscribe(&class).unwrap();
    replay(&mut leader, &mut follower, &SortedSet::new(), &mut page);
    follower.unsubscribe(&class);
    let random = &mut Seeded::new(1);
    while leader.documents().next().is_none() {
        step(&mut leader, random, 10);
    }
    (0..4).for_each(|doc| leader.unshow(&(0, pk(doc))));
    let all = order::set_of(defs());
    replay(&mut leader, &mut follower, &all, &mut page);
    assert_eq!(follower.documents().count(), 0);
    follower.check_links();
}

/// The follower has let a document go with a subscription, and the leader links the document to another def. The
/// log has no data of it, so it was missing in the follower.
#[test]
fn r2_a_follower_that_lacks_a_linked_document_needs_the_whole_state() {
    let (mut leader, mut follower, mut page) = (memory(), memory(), 0);
    let [class, .., own] = &defs()[..] else { panic!("several defs") };
    leader.subscribe(class).unwrap();
    load(&mut leader, class);
    let none = SortedSet::new();
    assert!(!replay(&mut leader, &mut follower, &none, &mut page).1);
    follower.unsubscribe(class);
    assert_eq!(follower.documents().count(), 0);
    leader.subscribe(own).unwrap();
    load(&mut leader, own);
    let dropped = order::set_of([class.clone()]);
    assert!(replay(&mut leader, &mut follower, &dropped, &mut page).1);
    let read = restored(&mut leader, &mut page);
    follower.adopt(read, &none, &dropped);
    assert_eq!(known(&follower, &dropped), known(&leader, &dropped));
    assert_eq!(follower.documents().count(), 1);
    assert!(!replay(&mut leader, &mut follower, &dropped, &mut page).1, "once");
}

/// An opening found damage, and sends a collection back to its start (R14). A session that takes over writes that.
#[test]
fn r14_changes_that_an_opening_makes_are_due_after_a_takeover() {
    let (mut leader, mut follower, mut page) = (memory(), memory(), 0);
    let (class, none) = (&defs()[0], SortedSet::new());
    leader.subscribe(class).unwrap();
    load(&mut leader, class);
    let mut read = restored(&mut leader, &mut page);
    read.restart(class);
    follower.subscribe(&defs()[1]).unwrap();
    follower.adopt(read, &none, &none);
    let dirty = follower.dirty.take();
    assert!(dirty.collections.iter().eq([class]), "and nothing of its own");
}

/// The server answers for a def with its document, always at the same version.
fn load(memory: &mut Memory, def: &Def) {
    let data = Data::from_map(&state(0, 7, 0)).unwrap();
    let row = Row { pk: pk(0), v: 7, deleted: false, max_life: None, data: Some(data) };
    let part = memory.prepare(Part { rows: vec![row], ..Part::empty(def.clone()) }).unwrap();
    memory.apply(part, PartContext { era: 0, settled: 7, asked: Some(0) });
}
