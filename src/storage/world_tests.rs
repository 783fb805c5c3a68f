//! A leader on a device, for tests of the stored state: a random history of its memory, its journal and its
//! batches.

use std::collections::{BTreeMap, BTreeSet};

use super::edge_tests::{check_order, has_content};
use super::history_tests::{Follower, Whole};
use super::{Account, AccountOptions, FoundPage, JournalChanges, JournalMark, Limits, Receipt, open_account};
use crate::codec::{Data, Part, Row};
use crate::crypto::{DerivedKey, Random, SeededRandom, StoreKeys, WrapKind, store_name};
use crate::error::Result;
use crate::journal::{JournalRecord, OpState};
use crate::memory::{Memory, PartContext};
use crate::model::schema::Schema;
use crate::model::{Def, Epoch, Name, Pk, SortedSet, Value};
use crate::store::conformance::block_on;
use crate::store::{Batch, Durability, MemoryDevice, MemoryStore, RecordKey, Store, Table};

const SCHEMA: &str = r#"{"Doc":{"key":["id"],"collections":{
    "section":{"key":["section"],"mutable":true},"tags":{"key":["tags"],"list":true,"mutable":true}}},
    "Note":{"key":["id"]}}"#;
pub(super) const DOCS: u64 = 9;

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn pk(doc: u64) -> Pk {
    Pk::from_key(&[&format!("doc{doc}")]).unwrap()
}

/// The data of a document at a version.
pub(super) fn data(doc: u64, v: u64) -> Data {
    let sections = ["games", "admin", "x11"];
    let tags: Vec<Value> = (0..3).filter(|tag| v >> tag & 1 == 1).map(|tag| sections[tag].into()).collect();
    let bytes = if v.is_multiple_of(13) { 40_000 } else { v % 300 };
    let map = BTreeMap::from([
        ("id".to_owned(), Value::String(format!("doc{doc}"))),
        ("section".to_owned(), sections[(v % 3) as usize].into()),
        ("tags".to_owned(), Value::Array(tags)),
        ("text".to_owned(), Value::String("x".repeat(bytes as usize))),
    ]);
    Data::from_map(&map).unwrap()
}

pub(super) fn defs() -> Vec<Def> {
    let doc = name("Doc");
    let section = |value| Def::collection(&doc, &name("section"), &[value]).unwrap();
    let tag = |value| Def::collection(&doc, &name("tags"), &[value]).unwrap();
    let documents = [Def::document(&doc, &pk(0)), Def::document(&doc, &pk(1))];
    let all = [Def::class_of(&doc), section("games"), section("admin"), tag("x11"), tag("games")];
    [all.as_slice(), &documents, &[Def::class_of(&name("Note"))]].concat()
}

pub(super) fn open(device: &MemoryDevice, seed: u64) -> Account<MemoryStore> {
    open_with(device, seed, SCHEMA).unwrap()
}

pub(super) fn open_with(device: &MemoryDevice, seed: u64, schema: &str) -> Result<Account<MemoryStore>> {
    let options = AccountOptions { org: "o", account: "a", by: WrapKind::Key, rounds: 0, create: true };
    let derive = async |_| Ok(DerivedKey::from_bytes([7; 32]));
    let schema = Schema::from_json(schema).unwrap();
    block_on(open_account(device, &options, schema, derive, &mut SeededRandom::new(seed)))
}

pub(super) fn store() -> String {
    store_name("o", "a")
}

/// The keys of the stored records of a table.
pub(super) fn stored(device: &MemoryDevice, table: Table) -> BTreeSet<RecordKey> {
    let mut found = BTreeSet::new();
    device.tamper(&store(), |records| {
        found = records.keys().filter(|(of, _)| *of == table).map(|(_, key)| *key).collect();
    });
    found
}

/// An operation that touches these documents.
pub(super) fn operation(id: &str, docs: &[u64]) -> OpState {
    let touches = docs.iter().map(|doc| (name("Doc"), pk(*doc))).collect();
    let mut op = OpState::new(1, id.to_owned(), ("own".to_owned(), Value::Null), 1);
    op.issued.touches = touches;
    op
}

pub(super) fn pin(memory: &mut Memory, record: &JournalRecord) {
    for (class, pk) in record.op.iter().flat_map(|op| &op.issued.touches) {
        memory.pins.add(&memory.doc_key(class, pk).unwrap());
    }
}

pub(super) fn unpin(memory: &mut Memory, record: &JournalRecord) {
    for (class, pk) in record.op.iter().flat_map(|op| &op.issued.touches) {
        memory.unpin(&memory.doc_key(class, pk).unwrap());
    }
}

pub(super) type Journal = BTreeMap<u64, JournalRecord>;

pub(super) fn by_number(records: &[JournalRecord]) -> Journal {
    records.iter().map(|record| (record.number, record.clone())).collect()
}

/// The summary of these records, otherwise as `summary`.
fn summary_of(journal: &Journal, summary: JournalMark) -> JournalMark {
    let pending = journal.values().filter(|record| record.op.is_some()).count() as u64;
    JournalMark { records: journal.len() as u64, pending, ..summary }
}

/// The leader, the device, and the history so far.
pub(super) struct World {
    pub device: MemoryDevice,
    pub leader: Account<MemoryStore>,
    pub journal: Journal,
    pub followers: Vec<Follower>,
    random: SeededRandom,
    seed: u64,
    v: u64,
    /// The changes of the journal that a batch has not brought to the device.
    pub due: Option<JournalChanges>,
    /// Every record that a batch has written.
    pub used: BTreeSet<(Table, RecordKey)>,
    /// The state of the last batch.
    pub committed: Whole,
    /// A state record was lost.
    pub has_gaps: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let device = MemoryDevice::shared();
        let leader = open(&device, seed);
        assert_eq!((leader.generation, leader.damage.any()), (1, false), "a new store");
        let committed = Whole::of(&leader.memory);
        let (random, followers) = (SeededRandom::new(seed), vec![]);
        let (journal, due, used) = (BTreeMap::new(), None, BTreeSet::new());
        let mut world = World {
            device,
            leader,
            journal,
            followers,
            random,
            seed,
            v: 100,
            due,
            used,
            committed,
            has_gaps: false,
        };
        world.lead();
        world.followers = (1..3).map(|number| Follower::new(&world.device, seed + number)).collect();
        world
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound).unwrap()
    }

    fn lead(&mut self) {
        let seen = self.leader.generation;
        let generation = block_on(self.leader.store.take_over(seen)).unwrap();
        assert_eq!(generation, Some(seen + 1));
        self.leader.layout.lead(generation);
        self.leader.layout.set_limits(Limits { log_bytes_min: 1_500, changes_min: 3, sparse_pages: 4 });
    }

    pub fn keys(&self) -> StoreKeys {
        StoreKeys::derive(&self.leader.key, self.leader.header.store_id())
    }

    /// Another session leads from the stored state.
    pub fn reopen(&mut self, seed: u64) {
        let generation = self.leader.layout.generation();
        self.leader = open(&self.device, seed);
        assert_eq!(Some(self.leader.generation), generation);
        self.journal = by_number(&self.leader.journal.records);
        self.due = None;
        self.lead();
    }

    /// The same history, continued from a copy of the device by a session that has just opened it.
    pub fn on(&self, device: MemoryDevice) -> Self {
        let leader = open(&device, 77);
        let (journal, committed) = (by_number(&leader.journal.records), Whole::of(&leader.memory));
        let (random, used) = (SeededRandom::new(self.seed), self.used.clone());
        let (seed, v, followers) = (self.seed, self.v, Vec::new());
        let summary = summary_of(&journal, leader.layout.journal);
        let is_due = !leader.journal.strays.is_empty() || summary != leader.layout.journal;
        let due = is_due.then(|| JournalChanges {
            strays: leader.journal.strays.clone(),
            summary,
            ..JournalChanges::default()
        });
        let has_gaps = leader.damage.records > 0;
        let mut world =
            World { device, leader, journal, followers, random, seed, v, due, used, committed, has_gaps };
        world.lead();
        world
    }

    /// The next batch writes the whole journal.
    pub fn write_journal_again(&mut self) {
        let records = self.journal.values().cloned().collect();
        let summary = summary_of(&self.journal, self.leader.layout.journal);
        self.due = Some(JournalChanges { records, summary, ..JournalChanges::default() });
    }

    fn def(&mut self) -> Def {
        let defs = defs();
        defs[self.below(defs.len() as u64) as usize].clone()
    }

    /// The server sends a part of one def.
    fn tell(&mut self) {
        let def = self.def();
        let Some(collection) = self.leader.memory.collection(&def) else { return };
        let era = self.leader.memory.epoch().1;
        let since = collection.v(era);
        let mut part = Part::empty(def);
        for _ in 0..self.below(4) {
            self.v += self.below(3);
            let (doc, deleted) = (self.below(DOCS), self.below(7) == 0);
            let data = (!deleted).then(|| data(doc, self.v));
            let max_life = (self.below(5) == 0).then(|| self.v + self.below(40));
            part.rows.push(Row { pk: pk(doc), v: self.v, deleted, max_life, data });
        }
        if self.below(3) == 0 {
            part.left.push((pk(self.below(DOCS)), self.v));
        }
        if self.below(9) == 0 {
            part.present = Some((0..DOCS).filter(|_| self.below(2) == 0).map(pk).collect());
        }
        part.next = (self.below(5) == 0).then(|| format!("cursor {}", self.v));
        part.total = (self.below(2) == 0).then_some(self.v);
        let asked = (self.below(4) > 0).then_some(since);
        let settled = self.v - self.below(20);
        let part = self.leader.memory.prepare(part).unwrap();
        self.leader.memory.apply(part, PartContext { era, settled, asked });
    }

    /// An operation begins, goes on or ends. Its record is always a new one.
    fn change_journal(&mut self) {
        if self.due.is_some() {
            return;
        }
        let mut changes = JournalChanges::default();
        let mut next = self.leader.layout.journal.next_record;
        for _ in 0..=self.below(2) {
            let place = self.below(4) as usize;
            let old = self.journal.keys().nth(place).copied();
            let old = old.filter(|number| !changes.deletes.contains(number));
            let mut record = JournalRecord::of(format!("op {next}"), 0);
            record.number = next;
            let docs: Vec<u64> = (0..self.below(3)).map(|_| self.below(DOCS)).collect();
            record.op = (self.below(3) > 0).then(|| operation(&record.op_id, &docs));
            pin(&mut self.leader.memory, &record);
            if self.below(4) > 0 || old.is_none() {
                changes.records.push(record);
                next += 1;
            } else {
                unpin(&mut self.leader.memory, &record);
            }
            changes.deletes.extend(old);
        }
        for number in &changes.deletes {
            unpin(&mut self.leader.memory, &self.journal[number]);
        }
        let mut after = self.journal.clone();
        changes.deletes.iter().for_each(|number| drop(after.remove(number)));
        after.extend(changes.records.iter().map(|record| (record.number, record.clone())));
        let summary =
            JournalMark { next_record: next, last_seq: self.v, name: self.seed % 2, ..changes.summary };
        changes.summary = summary_of(&after, summary);
        self.due = Some(changes);
    }

    /// Pages with few rows are read, to be written together.
    fn gather(&mut self) {
        let Account { memory, layout, store, .. } = &mut self.leader;
        for page in layout.sparse_pages(&SortedSet::default()) {
            let sealed = block_on(store.get(Table::Pages, &[layout.page_key(page)])).unwrap().remove(0);
            let rows = layout.open_page(page, &FoundPage::Sealed(sealed.unwrap())).unwrap();
            for row in rows {
                let key = memory.doc_key(&row.class, &row.pk).unwrap();
                if memory
                    .document(&key)
                    .is_some_and(|document| document.slot.map(|slot| slot.page) == Some(page))
                {
                    memory.reload(&key, row.at, row.data);
                }
            }
        }
    }

    pub fn batch(&mut self, marks: bool) -> Option<(Batch, Receipt)> {
        let Account { memory, layout, .. } = &mut self.leader;
        // A long log alone makes no batch.
        let must = layout.chunks == 0 || !layout.strays.is_empty();
        let is_long = layout.log_bytes > layout.checkpoint_bytes.max(1_500);
        let is_due = must || is_long || memory.dirty.documents.len() > memory.documents().count().max(3);
        let has_news = !memory.is_clean() || self.due.is_some() || !layout.restored.is_empty();
        let (base, is_late) = (layout.base, layout.is_mark_behind);
        let is_own = self.due.is_some() || memory_is_own(memory) || layout.is_backup_due;
        let (batch, receipt) = layout.batch(memory, self.due.as_ref(), marks, &mut self.random).unwrap()?;
        let states = batch.puts.iter().filter(|(table, ..)| *table == Table::State).count();
        assert_eq!(batch.generation, layout.generation);
        let is_alone = !has_news && !must && !layout.is_backup_due;
        if is_alone {
            assert!(marks && is_late && batch.mark.is_some() && states == 0, "the mark alone");
            return Some((batch, receipt));
        }
        let content = usize::from(has_content(memory));
        assert_eq!(states, if is_due { 2 + content } else { 1 }, "state records; checkpoint {is_due}");
        assert_eq!(batch.mark.is_some(), marks || is_own || is_due, "the mark");
        assert_eq!(batch.header.is_some(), layout.is_backup_due || layout.is_rewrite_due);
        assert_eq!((batch.recopy, batch.clear), (batch.header.is_some(), layout.is_rewrite_due));
        let is_strict = self.due.is_some() || !layout.restored.is_empty() || layout.chunks == 0;
        assert_eq!(batch.durability == Durability::Strict, is_strict);
        assert_eq!(layout.base, base, "the layout is as of the last batch");
        for (table, key, _) in &batch.puts {
            let is_new = layout.restored.iter().all(|(restored, _)| restored != key);
            let is_taken = self.used.contains(&(*table, *key)) && is_new && *table == Table::Pages;
            assert!(!is_taken, "a number of a page is used again");
        }
        self.used.extend(batch.puts.iter().map(|(table, key, _)| (*table, *key)));
        check_order(&self.leader, &batch);
        Some((batch, receipt))
    }

    /// Writes a batch, if one is due.
    pub fn flush(&mut self, marks: bool) -> bool {
        let base = self.leader.layout.base;
        let Some((batch, receipt)) = self.batch(marks) else { return false };
        let has_state = batch.puts.iter().any(|(table, ..)| *table == Table::State);
        block_on(self.leader.store.commit(batch)).unwrap();
        let Account { memory, layout, .. } = &mut self.leader;
        layout.committed(memory, receipt);
        if let Some(changes) = self.due.take() {
            changes.deletes.iter().for_each(|number| drop(self.journal.remove(number)));
            self.journal.extend(changes.records.into_iter().map(|record| (record.number, record)));
        }
        for follower in &mut self.followers {
            follower.behind.extend(has_state.then_some(layout.base != base));
        }
        self.committed = Whole::of(&self.leader.memory);
        true
    }

    /// A batch fails, and perhaps it was written all the same.
    fn fail(&mut self) {
        let marks = self.below(2) == 0;
        let Some((batch, receipt)) = self.batch(marks) else { return };
        let is_written = self.below(2) == 0;
        if is_written {
            block_on(self.leader.store.commit(batch)).unwrap();
            self.followers.iter_mut().for_each(|follower| follower.has_strayed = true);
        }
        let Account { memory, layout, .. } = &mut self.leader;
        layout.failed(memory, receipt);
        let number = self.below(4) as usize;
        if let Some(follower) = self.followers.get_mut(number) {
            follower.follow();
            // The next batch replaces the record that it has read.
            follower.has_strayed |= is_written;
        }
        while !self.flush(true) {}
    }

    /// A step without followers.
    pub fn step_alone(&mut self) {
        match self.below(4) {
            0 => self.change_journal(),
            1 => {
                let def = self.def();
                self.leader.memory.subscribe(&def).unwrap();
            }
            2 => self.tell(),
            _ => drop(self.flush(false)),
        }
    }

    pub fn step(&mut self) {
        match self.below(24) {
            0..3 => {
                let def = self.def();
                if !self.leader.memory.subscribe(&def).unwrap() && self.below(2) == 0 {
                    self.leader.memory.unsubscribe(&def);
                }
            }
            3..11 => self.tell(),
            11 if self.below(3) == 0 => {
                let epoch = Epoch::new(self.v, "e").unwrap();
                self.leader.memory.enter_epoch(&epoch);
            }
            12..14 => self.change_journal(),
            14 => self.leader.memory.remove_expired(self.v * 60_000),
            15 => self.gather(),
            16 => self.fail(),
            17 if self.below(3) == 0 => {
                let seed = self.below(1 << 40);
                self.reopen(seed);
            }
            18 => {
                let number = self.below(2) as usize;
                self.followers[number].follow();
            }
            _ => {
                let marks = self.below(3) == 0;
                self.flush(marks);
            }
        }
    }
}

/// Whether only this device knows some of the changes.
fn memory_is_own(memory: &mut Memory) -> bool {
    let dirty = memory.dirty.take();
    let is_own = dirty.head || dirty.subscriptions;
    memory.dirty.merge(dirty);
    is_own
}
