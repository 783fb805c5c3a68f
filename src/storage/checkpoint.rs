//! The whole state as records of a bounded size, and one batch's changes as one record.

use super::delta::{Delta, Head};
use crate::memory::{
    ClassAtRest, Collection, CollectionAtRest, Dirty, DocKey, DocumentAtRest, LinkAtRest, Memory, PageRef,
    at_rest,
};
use crate::model::{Def, Name, Pk, SortedMap, order};

/// Entries of a record of the checkpoint: about 150 KiB.
const CHUNK_ENTRIES: usize = 16_000;

/// The places of documents that this batch writes; the others are stored already.
pub type Places = SortedMap<DocKey, PageRef>;

pub fn head_of(memory: &Memory, session: &str) -> Head {
    let (epoch, era) = memory.epoch();
    Head { session: session.to_owned(), epoch: epoch.cloned(), era, schema: memory.schema().to_json() }
}

fn collection_state(memory: &Memory, def: &Def) -> Option<CollectionAtRest> {
    let Collection { set, ready, load, lease, .. } = memory.collection(def)?;
    Some(CollectionAtRest { v: set.v(), ready: *ready, load: load.clone(), lease: at_rest(*lease) })
}

fn document_state(memory: &Memory, key: &DocKey, places: &Places) -> Option<DocumentAtRest> {
    let document = memory.document(key)?;
    let place = places.get(key).copied().or(document.slot)?;
    Some(DocumentAtRest { at: document.at, max_life: document.max_life, place })
}

fn link_state(memory: &Memory, def: &Def, pk: &Pk) -> LinkAtRest {
    let set = memory.collection(def).map(|collection| &collection.set);
    let (member, mark) = (set.and_then(|set| set.member(pk)), set.and_then(|set| set.mark(pk)));
    LinkAtRest { pk: pk.clone(), member, mark }
}

/// The present state of each dirty name.
pub fn changes(memory: &Memory, dirty: &Dirty, session: &str, places: &Places) -> Delta {
    let mut delta = Delta { head: dirty.head.then(|| head_of(memory, session)), ..Delta::default() };
    let collections = dirty.collections.iter();
    delta.collections = collections.map(|def| (def.clone(), collection_state(memory, def))).collect();
    let mut documents: SortedMap<&Name, Vec<(Pk, Option<DocumentAtRest>)>> = SortedMap::new();
    for key in &dirty.documents {
        let state = document_state(memory, key, places);
        documents.entry(memory.class(key.0).name()).or_default().push((key.1.clone(), state));
    }
    delta.documents = sorted(documents);
    let mut links: SortedMap<&Def, Vec<LinkAtRest>> = SortedMap::new();
    // The end of a subscription removes its links.
    for (def, pk) in dirty.links.iter().filter(|(def, _)| memory.collection(def).is_some()) {
        links.entry(def).or_default().push(link_state(memory, def, pk));
    }
    delta.links = links
        .into_iter()
        .map(|(def, mut states)| {
            order::sort_by(&mut states, |a, b| a.pk.cmp(&b.pk));
            (def.clone(), states)
        })
        .collect();
    delta
}

fn sorted(map: SortedMap<&Name, Vec<(Pk, Option<DocumentAtRest>)>>) -> Vec<ClassAtRest> {
    map.into_iter()
        .map(|(name, mut states)| {
            order::sort_by(&mut states, |a, b| a.0.cmp(&b.0));
            (name.clone(), states)
        })
        .collect()
}

/// The whole state. The first two records both hold the head and every subscription, so one may be lost.
pub fn whole(memory: &Memory, session: &str, places: &Places) -> Vec<Delta> {
    let mut defs: Vec<&Def> = memory.collections().map(|(def, _)| def).collect();
    order::sort(&mut defs);
    let lead = Delta {
        head: Some(head_of(memory, session)),
        collections: defs.iter().map(|def| ((*def).clone(), collection_state(memory, def))).collect(),
        ..Delta::default()
    };
    let mut deltas = vec![lead.clone(), lead];
    let mut chunk = Chunk::default();
    let mut keys: Vec<&DocKey> = memory.documents().map(|(key, _)| key).collect();
    order::sort(&mut keys);
    for key in keys {
        if let Some(state) = document_state(memory, key, places) {
            let name = memory.class(key.0).name();
            match chunk.documents.last_mut() {
                Some((last, states)) if last == name => states.push((key.1.clone(), Some(state))),
                _ => chunk.documents.push((name.clone(), vec![(key.1.clone(), Some(state))])),
            }
            // A link costs about a byte in the record of its document.
            for def in memory.document(key).map_or(&[][..], |document| &document.defs) {
                chunk.link(memory, def, &key.1);
            }
            chunk.count(&mut deltas);
        }
    }
    for def in defs {
        let set = &memory.collection(def).expect("listed").set;
        let is_told = |pk: &Pk| {
            let key = memory.doc_key(def.class(), pk);
            set.member(pk).is_some() && key.is_some_and(|key| document_state(memory, &key, places).is_some())
        };
        let others = set.keys().chain(set.marks().map(|(pk, _)| pk));
        for pk in &order::set_of(others.filter(|pk| !is_told(pk))) {
            chunk.link(memory, def, pk);
            chunk.count(&mut deltas);
        }
    }
    if chunk.entries > 0 {
        deltas.push(chunk.take());
    }
    deltas
}

/// A record that is not complete yet.
#[derive(Default)]
struct Chunk<'m> {
    documents: Vec<ClassAtRest>,
    links: SortedMap<&'m Def, Vec<LinkAtRest>>,
    entries: usize,
}

impl<'m> Chunk<'m> {
    fn link(&mut self, memory: &Memory, def: &'m Def, pk: &Pk) {
        self.links.entry(def).or_default().push(link_state(memory, def, pk));
        self.entries += 1;
    }

    fn count(&mut self, deltas: &mut Vec<Delta>) {
        self.entries += 1;
        if self.entries >= CHUNK_ENTRIES {
            deltas.push(self.take());
        }
    }

    fn take(&mut self) -> Delta {
        let Chunk { documents, links, .. } = std::mem::take(self);
        let links = links.into_iter().map(|(def, states)| (def.clone(), states)).collect();
        Delta { documents, links, ..Delta::default() }
    }
}
