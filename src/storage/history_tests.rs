//! After each batch of a random history, the stored records are exactly those that are of use. An opening and
//! each follower have the leader's state.
#![allow(clippy::print_stdout)] // the seed of a history that fails

use std::collections::{BTreeMap, BTreeSet};

use super::mark::HighWater;
use super::world_tests::{self, DOCS, Journal, World, by_number, data, open, pin, stored, unpin};
use super::{Account, FoundPage, Layout, Opened, Tail};
use crate::crypto::SeededRandom;
use crate::journal::JournalRecord;
use crate::memory::tests::seeds;
use crate::memory::{DocKey, Load, Member, Memory, PageRef, Stamp};
use crate::model::{Def, Epoch, Pk, SortedSet};
use crate::store::conformance::block_on;
use crate::store::{MemoryDevice, MemoryStore, RecordKey, Store, Table};

/// Everything of a memory that must be stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whole {
    epoch: (Option<Epoch>, u32),
    documents: BTreeMap<DocKey, AtRest>,
    collections: BTreeMap<Def, Held>,
}

type AtRest = (Stamp, Option<u64>, Option<PageRef>, Vec<Def>);

type Held = (Stamp, bool, Option<Load>, BTreeMap<Pk, Member<Stamp>>, BTreeMap<Pk, Stamp>);

impl Whole {
    pub(super) fn of(memory: &Memory) -> Self {
        memory.check_links();
        let (epoch, era) = memory.epoch();
        let documents =
            memory.documents().map(|(key, d)| (key.clone(), (d.at, d.max_life, d.slot, d.defs.to_vec())));
        let collections = memory.collections().map(|(def, c)| {
            let members = c.set.members().map(|(pk, member)| (pk.clone(), *member)).collect();
            let marks = c.set.marks().map(|(pk, mark)| (pk.clone(), *mark)).collect();
            (def.clone(), (c.set.v(), c.ready, c.load.clone(), members, marks))
        });
        let (documents, collections) = (documents.collect(), collections.collect());
        Whole { epoch: (epoch.cloned(), era), documents, collections }
    }
}

impl Whole {
    pub(super) fn collections(&self) -> Vec<&Def> {
        self.collections.keys().collect()
    }
}

/// The numbers of a layout that the stored records determine.
fn numbers(layout: &Layout) -> impl PartialEq + std::fmt::Debug + use<> {
    let records = (layout.base, layout.chunks, layout.next_record, layout.newest);
    let bytes = (layout.log_bytes, layout.checkpoint_bytes, layout.pages.next, layout.page_counts());
    let rest = (layout.session.clone(), layout.header.clone(), layout.journal, layout.is_mark_behind);
    (records, bytes, rest, layout.pages.sparse(usize::MAX, usize::MAX, &SortedSet::default()))
}

/// A session that reads the leader's log.
pub(super) struct Follower {
    account: Account<MemoryStore>,
    journal: Journal,
    /// The batches since its last poll: whether each is a checkpoint.
    pub behind: Vec<bool>,
    /// Whether it may have read a record of a batch that failed.
    pub has_strayed: bool,
}

impl Follower {
    pub fn new(device: &MemoryDevice, seed: u64) -> Self {
        let account = open(device, seed);
        let journal = by_number(&account.journal.records);
        Follower { account, journal, behind: Vec::new(), has_strayed: true }
    }

    /// Polls the log until there is nothing new.
    pub fn follow(&mut self) {
        loop {
            let Account { memory, layout, store, .. } = &mut self.account;
            let found = block_on(store.get(Table::State, &layout.look_keys())).unwrap();
            let behind = std::mem::take(&mut self.behind);
            match layout.read_tail(&found) {
                Tail::Same => {
                    assert!(self.has_strayed || behind.is_empty(), "{behind:?} and nothing new");
                    assert!(layout.is_as_known(&found));
                    self.has_strayed = false;
                    return;
                }
                Tail::On(records) => {
                    assert!(!layout.is_as_known(&found));
                    if !self.has_strayed {
                        assert!(!behind.contains(&true), "a checkpoint came between");
                        assert_eq!(records.len(), behind.len().min(16), "as many as a poll takes");
                        self.behind = behind[records.len()..].to_vec();
                    }
                    let mut gone: Vec<JournalRecord> = Vec::new();
                    for found in records {
                        let along = found.record.along.clone().unwrap_or_default();
                        let keys: Vec<RecordKey> =
                            along.puts.iter().map(|n| layout.journal_key(*n)).collect();
                        let sealed = block_on(store.get(Table::Journal, &keys)).unwrap();
                        // A record that is gone by now was replaced by a later batch.
                        for (number, sealed) in along.puts.iter().zip(sealed) {
                            let Some(sealed) = sealed else { continue };
                            let record = layout.open_journal(*number, &sealed).unwrap();
                            pin(memory, &record);
                            self.journal.insert(*number, record);
                        }
                        layout.follow(memory, found);
                        gone.extend(along.deletes.iter().filter_map(|number| self.journal.remove(number)));
                    }
                    memory.end_following();
                    for record in &gone {
                        unpin(memory, record);
                    }
                    memory.dirty.take();
                }
                Tail::Reload => {
                    assert!(self.has_strayed || behind.contains(&true), "{behind:?}: the log goes on");
                    let reader = layout.reader(memory.schema().clone(), false);
                    let Opened { memory: read, layout: again, journal, damage, .. } =
                        block_on(reader.read(store)).unwrap();
                    assert!(!damage.any(), "{damage:?}");
                    for record in &journal.records {
                        pin(memory, record);
                    }
                    memory.adopt(read, &SortedSet::default(), &SortedSet::default());
                    layout.go_on_from(again);
                    for record in self.journal.values() {
                        unpin(memory, record);
                    }
                    self.journal = by_number(&journal.records);
                }
            }
        }
    }
}

impl World {
    /// All that is stored is of use and all of it is there.
    pub fn check(&mut self) {
        let Account { memory, layout, .. } = &self.leader;
        let keys = self.keys();
        let states = (layout.base..layout.next_record).map(|n| keys.record_key(Table::State, n)).collect();
        let mut pages: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for place in memory.documents().map(|(_, document)| document.slot.unwrap()) {
            let (rows, bytes) = pages.entry(place.page).or_default();
            *rows += 1;
            *bytes += place.bytes as usize;
        }
        assert_eq!(stored(&self.device, Table::State), states);
        let page_keys: BTreeSet<RecordKey> = pages.keys().map(|page| layout.page_key(*page)).collect();
        let found = stored(&self.device, Table::Pages);
        // After damage, a document may be as of an earlier time, whose page is gone.
        assert!(
            if self.has_gaps { found.is_subset(&page_keys) } else { found == page_keys },
            "pages of no use"
        );
        let records = self.journal.keys().map(|number| layout.journal_key(*number)).collect();
        assert_eq!(stored(&self.device, Table::Journal), records);
        assert_eq!(layout.page_counts(), (pages.len(), pages.values().map(|(rows, _)| rows).sum()));
        let mut by_bytes: Vec<(usize, u64)> =
            pages.iter().map(|(page, (_, bytes))| (*bytes, *page)).collect();
        by_bytes.sort_unstable();
        let by_bytes: Vec<u64> = by_bytes.into_iter().map(|(_, page)| page).collect();
        assert_eq!(layout.pages.sparse(usize::MAX, usize::MAX, &SortedSet::default()), by_bytes);
        if !self.has_gaps {
            self.check_data();
        }
        self.check_mark(pages.len());

        let copy = self.device.snapshot();
        let mut opened = open(&copy, 5);
        assert!(!opened.damage.any(), "{:?}", opened.damage);
        assert_eq!(Whole::of(&opened.memory), self.committed);
        assert_eq!(numbers(&opened.layout), numbers(&self.leader.layout));
        assert_eq!(by_number(&opened.journal.records), self.journal);
        let is_late = self.leader.layout.is_mark_behind;
        let random = &mut SeededRandom::new(3);
        let Account { memory, layout, .. } = &mut opened;
        assert!(layout.batch(memory, None, false, random).unwrap().is_none(), "nothing to write");
        let due = layout.batch(memory, None, true, random).unwrap();
        assert_eq!(due.is_some(), is_late, "but a late mark");
        assert_eq!((layout.is_mark_behind(), layout.is_backup_due), (is_late, false));
    }

    /// Each document's data is where the memory says.
    fn check_data(&self) {
        let Account { memory, layout, store, .. } = &self.leader;
        for ((class, pk), document) in memory.documents() {
            let place = document.slot.unwrap();
            let sealed = block_on(store.get(Table::Pages, &[layout.page_key(place.page)])).unwrap().remove(0);
            let rows = layout.open_page(place.page, &FoundPage::Sealed(sealed.unwrap())).unwrap();
            let row = &rows[place.slot as usize];
            assert_eq!((&row.class, &row.pk, row.at), (memory.class(*class).name(), pk, document.at));
            let doc = (0..DOCS).find(|doc| world_tests::pk(*doc) == *pk).unwrap();
            assert_eq!(row.data, data(doc, document.at.v));
            assert_eq!(place.bytes as usize, row.data.as_bytes().len());
        }
    }

    /// The mark is that of the last batch, unless it is late.
    fn check_mark(&self, pages: usize) {
        let layout = &self.leader.layout;
        let sealed = block_on(self.leader.store.backup_header()).unwrap().mark.unwrap();
        let mark = HighWater::open(&self.keys(), &sealed).unwrap();
        let (epoch, era) = self.leader.memory.epoch();
        let now = HighWater {
            next_record: layout.next_record,
            next_page: layout.pages.next,
            records: layout.next_record - layout.base + (pages + self.journal.len()) as u64,
            journal: layout.journal,
            session: layout.session.clone(),
            epoch: (epoch.cloned(), era),
        };
        if layout.is_mark_behind {
            assert!(mark.next_record < now.next_record, "late");
            assert_eq!(mark.journal, now.journal, "of the same journal");
        } else {
            assert_eq!(mark, now);
        }
        let copies = block_on(self.leader.store.copies(Table::Journal)).unwrap();
        let copied: BTreeSet<RecordKey> = copies.into_iter().map(|(key, _)| key).collect();
        assert_eq!(copied, stored(&self.device, Table::Journal), "the copy of the journal");
    }
}

#[test]
fn r7_what_rests_is_the_state_of_the_leader_and_of_each_follower() {
    for seed in seeds(40) {
        println!("ESCALE_SEED={seed}");
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.step();
            if world.below(6) == 0 {
                while world.flush(false) {}
                world.check();
                let number = world.below(2) as usize;
                let World { followers, leader, committed, journal, .. } = &mut world;
                let follower = &mut followers[number];
                follower.follow();
                assert_eq!(Whole::of(&follower.account.memory), *committed);
                assert_eq!(follower.journal, *journal);
                let place = |layout: &Layout| {
                    let records = (layout.base, layout.chunks, layout.next_record, layout.newest);
                    (records, layout.session.clone(), layout.journal, (layout.base, layout.next_record))
                };
                assert_eq!(place(&follower.account.layout), place(&leader.layout));
            }
        }
    }
}
