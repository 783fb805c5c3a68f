//! Builds batches: new pages, one state record (or a checkpoint), and the deletion of records that are of no
//! use.

use super::checkpoint::{self, Places};
use super::delta::{Delta, JournalNumbers, StateRecord};
use super::journal::{JournalChanges, JournalMark};
use super::layout::Layout;
use super::mark::HighWater;
use super::page::{PAGE_ROWS_BYTES, PageRow, encode_page};
use super::pages::Pages;
use crate::crypto::{Random, SealId};
use crate::error::Result;
use crate::memory::{Content, Dirty, DocKey, Memory, PageRef, Stamp};
use crate::model::{SortedSet, order};
use crate::store::{Batch, Durability, RecordKey, Table};

/// The effects of a batch, applied once it is committed.
pub struct Receipt {
    dirty: Dirty,
    placed: Vec<(DocKey, Stamp, PageRef)>,
    pages: Pages,
    journal: JournalMark,
    next_record: u64,
    base: u64,
    chunks: u32,
    log_bytes: usize,
    checkpoint_bytes: usize,
    is_checkpoint: bool,
    /// Its mark is written later.
    leaves_mark: bool,
    newest: Option<SealId>,
    /// The records that it writes.
    written: Vec<(Table, RecordKey)>,
}

/// The effects of a batch, apart from its deltas.
struct Contents {
    pages: Pages,
    placed: Vec<(DocKey, Stamp, PageRef)>,
    journal: JournalMark,
    /// The journal records that the batch wrote and deleted.
    along: Option<JournalNumbers>,
    is_checkpoint: bool,
}

impl Layout {
    /// The batch that brings the stored state to the memory's state, and the journal to its own, in one
    /// transaction. `None` if both are there already. If the server can send the content of the batch again,
    /// the batch has a high-water mark only if `is_mark_due`.
    pub fn batch(
        &mut self,
        memory: &mut Memory,
        journal: Option<&JournalChanges>,
        is_mark_due: bool,
        random: &mut dyn Random,
    ) -> Result<Option<(Batch, Receipt)>> {
        if memory.is_clean() && journal.is_none() && !self.is_due() {
            return if is_mark_due { self.mark_alone(memory, random) } else { Ok(None) };
        }
        let dirty = memory.dirty.take();
        match self.build(memory, journal, &dirty, is_mark_due, random) {
            Ok((batch, mut receipt)) => {
                receipt.dirty = dirty;
                Ok(Some((batch, receipt)))
            }
            Err(error) => {
                memory.dirty.merge(dirty);
                Err(error)
            }
        }
    }

    fn build(
        &mut self,
        memory: &Memory,
        journal: Option<&JournalChanges>,
        dirty: &Dirty,
        is_mark_due: bool,
        random: &mut dyn Random,
    ) -> Result<(Batch, Receipt)> {
        let mut batch = Batch { generation: self.generation, ..Batch::default() };
        let summary = journal.map_or(self.journal, |changes| changes.summary);
        let mut pages = self.pages.clone();
        let placed = self.put_into_pages(memory, dirty, &mut pages, &mut batch, random)?;
        // A page number is used up even if the batch fails: no number names two contents.
        self.pages.next = pages.next;
        let mut freed = dirty.freed.clone();
        freed.extend(placed.iter().filter_map(|(key, _, _)| memory.document(key)?.slot));
        for place in freed {
            if pages.free(place) {
                batch.deletes.push((Table::Pages, self.keys.record_key(Table::Pages, place.page)));
            }
        }
        let places: Places = placed.iter().map(|(key, _, place)| (key.clone(), *place)).collect();
        let due = self.chunks == 0
            || !self.strays.is_empty()
            || self.log_bytes > self.limits.log_bytes_min.max(self.checkpoint_bytes)
            // Most documents have left: the state that is left is shorter than the list of those.
            || (dirty.documents.len() > self.limits.changes_min
                && dirty.documents.len() > memory.documents().count());
        let deltas = if due {
            checkpoint::whole(memory, &self.session, &places)
        } else {
            vec![checkpoint::changes(memory, dirty, &self.session, &places)]
        };
        // Without a generation there are no followers.
        let along = self.generation.and(journal).map(|changes| JournalNumbers {
            puts: changes.records.iter().map(|record| record.number).collect(),
            deletes: changes.deletes.clone(),
        });
        let contents = Contents { pages, placed, journal: summary, along, is_checkpoint: due };
        let mut receipt = self.write_state(deltas, contents, &mut batch, random)?;
        batch.durability = if self.chunks == 0 { Durability::Strict } else { Durability::Relaxed };
        if let Some(changes) = journal {
            self.add_journal(&mut batch, changes, random)?;
        }
        self.put_restored(&mut batch);
        batch.clear = self.is_rewrite_due;
        batch.recopy = self.is_rewrite_due || self.is_backup_due;
        batch.header = batch.recopy.then(|| self.header.clone());
        let is_ours = journal.is_some() || dirty.head || dirty.subscriptions;
        receipt.leaves_mark = !(is_mark_due || is_ours || due || batch.recopy);
        if !receipt.leaves_mark {
            batch.mark = Some(self.seal_mark(&high_water(memory, &self.session, &receipt), random)?);
        }
        batch.deletes.extend(&self.maybe_written);
        receipt.written = batch.puts.iter().map(|(table, key, _)| (*table, *key)).collect();
        Ok((batch, receipt))
    }

    /// Whether a batch is due even without changes.
    fn is_due(&self) -> bool {
        self.chunks == 0 || !self.strays.is_empty() || !self.restored.is_empty() || self.is_backup_due
    }

    /// A batch of only the mark. `None` if the mark is not behind. Also `None` if a batch is due, because the
    /// mark would then be ahead of the store.
    pub fn mark_alone(&self, memory: &Memory, random: &mut dyn Random) -> Result<Option<(Batch, Receipt)>> {
        if !self.is_mark_behind || self.is_due() {
            return Ok(None);
        }
        let mut batch =
            Batch { generation: self.generation, deletes: self.maybe_written.clone(), ..Batch::default() };
        let (pages, placed, journal) = (self.pages.clone(), Vec::new(), self.journal);
        let contents = Contents { pages, placed, journal, along: None, is_checkpoint: false };
        let receipt = self.write_state(Vec::new(), contents, &mut batch, random)?;
        batch.mark = Some(self.seal_mark(&high_water(memory, &self.session, &receipt), random)?);
        Ok(Some((batch, receipt)))
    }

    /// Whether the mark is still to be written.
    pub fn is_mark_behind(&self) -> bool {
        self.is_mark_behind
    }

    /// Puts the records that only the copy had back into the store, except those that the batch deletes.
    fn put_restored(&self, batch: &mut Batch) {
        if self.restored.is_empty() {
            return;
        }
        let deleted: SortedSet<&(Table, RecordKey)> = batch.deletes.iter().collect();
        let records = self.restored.iter().map(|(key, sealed)| (Table::Journal, *key, sealed));
        let kept = records.filter(|(table, key, _)| !deleted.contains(&(*table, *key)));
        let sealed: Vec<_> = kept.map(|(table, key, sealed)| (table, key, sealed.clone())).collect();
        batch.puts.extend(sealed);
        batch.durability = Durability::Strict;
    }

    /// Puts the data of changed documents into new pages. Documents of one collection are next to each other.
    /// So the listing of a collection, which is smaller than that of a class, opens few pages.
    fn put_into_pages(
        &self,
        memory: &Memory,
        dirty: &Dirty,
        pages: &mut Pages,
        batch: &mut Batch,
        random: &mut dyn Random,
    ) -> Result<Vec<(DocKey, Stamp, PageRef)>> {
        let mut resident: Vec<(&DocKey, &crate::memory::Document)> = dirty
            .documents
            .iter()
            .filter_map(|key| Some((key, memory.document(key)?)))
            .filter(|(_, document)| matches!(document.content, Content::Resident(_)))
            .collect();
        order::sort_by(&mut resident, |(a, x), (b, y)| (x.defs.last(), *a).cmp(&(y.defs.last(), *b)));
        let mut placed = Vec::with_capacity(resident.len());
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for (key, document) in resident {
            let Content::Resident(data) = &document.content else { continue };
            let len = data.as_bytes().len();
            let place = PageRef { page: pages.next, slot: rows.len() as u32, bytes: len as u32 };
            placed.push((key.clone(), document.at, place));
            pages.occupy(place);
            bytes += len;
            let class = memory.class(key.0).name().clone();
            rows.push(PageRow { class, pk: key.1.clone(), at: document.at, data: data.clone() });
            if bytes >= PAGE_ROWS_BYTES {
                self.seal_page(&rows, pages, batch, random)?;
                rows.clear();
                bytes = 0;
            }
        }
        if !rows.is_empty() {
            self.seal_page(&rows, pages, batch, random)?;
        }
        Ok(placed)
    }

    fn seal_page(
        &self,
        rows: &[PageRow],
        pages: &mut Pages,
        batch: &mut Batch,
        random: &mut dyn Random,
    ) -> Result<()> {
        let key = self.keys.record_key(Table::Pages, pages.next);
        pages.next += 1;
        let plain = encode_page(rows)?;
        let sealed = self.keys.seal(Table::Pages, key, &plain, random)?;
        batch.puts.push((Table::Pages, key, sealed));
        Ok(())
    }

    fn write_state(
        &self,
        deltas: Vec<Delta>,
        contents: Contents,
        batch: &mut Batch,
        random: &mut dyn Random,
    ) -> Result<Receipt> {
        let Contents { pages, placed, journal, along, is_checkpoint } = contents;
        let first = self.next_record;
        let (base, chunks) =
            if is_checkpoint { (first, deltas.len() as u32) } else { (self.base, self.chunks) };
        let (mut written, mut newest) = (0, self.newest);
        let count = deltas.len() as u64;
        for (number, delta) in (first..).zip(deltas) {
            let (next_page, along) = (pages.next, along.clone().filter(|_| !is_checkpoint));
            let record = StateRecord { number, base, chunks, next_page, journal, delta, along };
            let key = self.keys.record_key(Table::State, number);
            let plain = record.encode()?;
            let sealed = self.keys.seal(Table::State, key, &plain, random)?;
            written += sealed.len();
            newest = SealId::of(&sealed);
            batch.puts.push((Table::State, key, sealed));
        }
        if is_checkpoint {
            let old =
                (self.base..first).map(|number| (Table::State, self.keys.record_key(Table::State, number)));
            batch.deletes.extend(old.chain(self.strays.iter().copied()));
        }
        Ok(Receipt {
            dirty: Dirty::default(),
            placed,
            pages,
            journal,
            next_record: first + count,
            base,
            chunks,
            log_bytes: if is_checkpoint { 0 } else { self.log_bytes + written },
            checkpoint_bytes: if is_checkpoint { written } else { self.checkpoint_bytes },
            is_checkpoint,
            leaves_mark: false,
            newest,
            written: Vec::new(),
        })
    }

    /// The batch is on the device, and the memory's data with it.
    pub fn committed(&mut self, memory: &mut Memory, receipt: Receipt) {
        self.pages = receipt.pages;
        self.journal = receipt.journal;
        self.next_record = receipt.next_record;
        self.newest = receipt.newest;
        self.base = receipt.base;
        self.chunks = receipt.chunks;
        self.log_bytes = receipt.log_bytes;
        self.checkpoint_bytes = receipt.checkpoint_bytes;
        if receipt.is_checkpoint {
            self.strays.clear();
        }
        self.maybe_written.clear();
        self.is_backup_due = false;
        self.is_mark_behind = receipt.leaves_mark;
        self.restored.clear();
        self.is_rewrite_due = false;
        for (key, at, place) in receipt.placed {
            memory.settle_at_rest(&key, at, place);
        }
    }

    /// The batch failed, or its result is unknown: its changes are due again.
    pub fn failed(&mut self, memory: &mut Memory, receipt: Receipt) {
        if receipt.is_checkpoint {
            // It may have replaced the log. A record that continues the log would have nothing before it.
            let records = receipt.written.iter().filter(|(table, _)| *table == Table::State);
            self.strays.extend(records.copied());
        }
        self.maybe_written.extend(receipt.written);
        memory.dirty.merge(receipt.dirty);
    }
}

/// The mark of the store after the batch.
fn high_water(memory: &Memory, session: &str, receipt: &Receipt) -> HighWater {
    let (epoch, era) = memory.epoch();
    HighWater {
        next_record: receipt.next_record,
        next_page: receipt.pages.next,
        records: receipt.next_record - receipt.base + receipt.pages.len() as u64 + receipt.journal.records,
        journal: receipt.journal,
        session: session.to_owned(),
        epoch: (epoch.cloned(), era),
    }
}
