//! The invariants of every point in time: R1, R2, and that no collection's `v` is ahead of its documents (R4,
//! R7).

use std::collections::{BTreeMap, BTreeSet};

use escale::codec::Data;
use escale::memory::{Collection, Memory, Stamp};
use escale::model::Def;
use escale::sync::{Effect, ReadRow};

use super::World;
use crate::backend::{Backend, Entry};
use crate::schema::Key;

impl<S: Backend> World<S> {
    pub(super) fn check(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let Some(machine) = &client.machine else { return };
        let memory = machine.memory();
        memory.check_links();
        let (status, is_avion) = (machine.status(), client.mode == escale::sync::Mode::Avion);
        assert_eq!(status.updates.is_none(), is_avion, "how changes are heard of: {status:?}");
        assert_eq!(status.phase == escale::sync::Phase::Avion, is_avion, "{status:?}");
        // Some of the servers here leave out `present`, which sessions must live with.
        let is_other = |error: &&escale::Error| {
            error.code() == escale::Code::BadReply && !error.to_string().contains(".present: ")
        };
        let mistake = status.error.as_ref().filter(is_other);
        assert!(mistake.is_none(), "the server keeps to the protocol: {mistake:?}");
        client.seen.retain(|key, _| memory.document(key).is_some());
        for (key, document) in memory.documents() {
            match client.seen.get_mut(key) {
                Some(before) => {
                    assert!(
                        document.at >= *before,
                        "R1: {key:?} went from {before:?} back to {:?}",
                        document.at
                    );
                    *before = document.at;
                }
                None => drop(client.seen.insert(key.clone(), document.at)),
            }
        }
        self.check_not_ahead(number);
        self.check_overlay(number);
        self.check_trees(number);
    }

    /// The application keeps an object for each id. The machine reports each id that names nothing any more, at
    /// once, and no other.
    pub(super) fn check_ids(&mut self, number: usize, effects: &[Effect]) {
        let client = &mut self.clients[number];
        let Some(machine) = &client.machine else { return };
        let memory = machine.memory();
        let is_named = |id: u32| memory.by_id(id).is_some() || memory.shown_by_id(id).is_some();
        let mut gone: BTreeSet<u32> = BTreeSet::new();
        for effect in effects {
            if let Effect::Changed { gone: reported, .. } = effect {
                gone.extend(reported);
            }
        }
        assert!(
            !gone.iter().any(|id| is_named(*id)),
            "client {number}: an id is told to be gone, and is not"
        );
        let forgotten = client.named.iter().find(|id| !is_named(**id) && !gone.contains(id));
        assert_eq!(
            forgotten, None,
            "client {number}: an id names nothing any more, and is not told to be gone"
        );
        client.named.retain(|id| is_named(*id));
        client.named.extend(super::compare::all_ids(machine));
    }

    /// In each collection that is loaded up to `v`, every document is as the last write before `v` left it,
    /// or newer.
    fn check_not_ahead(&self, number: usize) {
        let memory = self.clients[number].machine.as_ref().expect("an open client").memory();
        let (Some(epoch), era) = memory.epoch() else { return };
        let history = self.server.history(self.clients[number].setup.tenant.org, epoch);
        let history = history.unwrap_or_else(|| panic!("an epoch of no server: {epoch:?}"));
        let loaded: Vec<_> = memory.collections().filter(|(_, collection)| collection.v(era) > 0).collect();
        if loaded.is_empty() {
            return;
        }
        let mut by_key: BTreeMap<&Key, Vec<&Entry>> = BTreeMap::new();
        for entry in history {
            by_key.entry(&entry.key).or_default().push(entry);
        }
        for (def, collection) in loaded {
            for (key, entries) in by_key.iter().filter(|(key, _)| key.0 == *def.class()) {
                self.check_member(number, memory, (def, collection), key, entries);
            }
            for pk in collection.set.keys() {
                assert!(
                    by_key.contains_key(&(def.class().clone(), pk.clone())),
                    "R9: {def} holds {pk}, of nowhere"
                );
            }
        }
    }

    fn check_member(
        &self,
        number: usize,
        memory: &Memory,
        (def, collection): (&Def, &Collection),
        key: &Key,
        entries: &[&Entry],
    ) {
        let era = memory.epoch().1;
        let v = collection.v(era);
        let Some(base) = entries.iter().rposition(|entry| entry.v < v) else { return };
        let is_in = |entry: &&&Entry| entry.defs.contains(def);
        let promised_now = self.server.promised_now();
        let is_over = |entry: &&Entry| entry.max_life.is_some_and(|minutes| minutes * 60_000 <= promised_now);
        let tail = &entries[base..];
        let place = || format!("client {number}, {def} at {v}, {key:?}, base {:?}", tail[0]);
        match collection.set.member(&key.1) {
            None => {
                let may_be_out = tail.iter().any(|entry| !entry.defs.contains(def) || is_over(entry));
                assert!(may_be_out, "R4: a document is missing: {}", place());
            }
            Some(member) => {
                assert!(
                    tail.iter().any(|e| is_in(&e)),
                    "R4: a document is left over, {member:?}: {}",
                    place()
                );
                let position = memory.doc_key(&key.0, &key.1).expect("a class of the schema");
                let document = memory.document(&position).expect("R2");
                let floor = Stamp::new(era, tail[0].v);
                assert!(
                    document.at >= floor || tail[0].defs.is_empty(),
                    "R7: a document is behind, {:?}: {}",
                    document.at,
                    place()
                );
            }
        }
    }

    /// The rows that the application reads are equal, byte for byte, to a document that the server once
    /// wrote.
    pub(super) fn check_rows(&self, number: usize, rows: &[ReadRow]) {
        let machine = self.clients[number].machine.as_ref().expect("an open client");
        let (epoch, _) = machine.memory().epoch();
        for row in rows {
            // Effects of operations on documents are checked in `overlay`.
            if self.clients[number].ledger.written.iter().any(|key| key.1 == row.pk) {
                continue;
            }
            let is_of = |entries: &[Entry]| {
                entries.iter().any(|entry| {
                    entry.key.1 == row.pk
                        && entry.v == row.v
                        && Data::from_map(&entry.data).ok().as_ref() == Some(&row.data)
                })
            };
            let org = self.clients[number].setup.tenant.org;
            let history = |epoch| self.server.history(org, epoch);
            let current = epoch.and_then(history);
            let found =
                current.is_some_and(is_of) || self.server.epochs().iter().filter_map(history).any(is_of);
            assert!(found, "data that nobody wrote: {} at {}", row.pk, row.v);
        }
    }
}
