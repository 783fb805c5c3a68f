//! Readings of pages on the device: for the application, for pending operations and for compaction.

use std::collections::VecDeque;
use std::rc::Rc;

use super::damage::{COMPACT_RETRY_MS, Found};
use super::indexed::{Indexed, Unread};
use crate::codec::Data;
use crate::error::{Error, Result};
use crate::memory::{DocKey, touch_expired};
use crate::model::{SortedMap, SortedSet};
use crate::storage::{FoundPage, Layout, PageRow};
use crate::sync::context::Ctx;
use crate::sync::facts::{JournalCall, JournalPurpose};
use crate::sync::message::Effect;

/// Opened pages that are cached for the next read.
const CACHED_PAGES: usize = 16;

pub type Page = Rc<Vec<PageRow>>;

/// Opened pages by number; `None` for one that cannot be opened.
pub type Held = SortedMap<u64, Option<Page>>;

/// Why pages are being read.
pub enum Purpose {
    /// To answer an [`Event::Read`](crate::sync::message::Event::Read).
    Answer { ticket: u64, ids: Vec<u32>, held: Held },
    /// To enter these documents of a class into its indexes.
    Index { class: u16, batch: Vec<Unread> },
    /// To have the data of documents with pending operations in memory.
    Pins { ids: Vec<u32> },
    /// To rewrite the documents of sparse pages.
    Compact,
}

/// The data of documents with pending operations.
pub type Bases = Vec<(u32, Data)>;

/// The result of a reading for the other parts.
pub enum Read {
    /// Nothing that concerns another part.
    Nothing,
    /// A page is missing in a follower: the leader has written since.
    Stalled,
    /// The reading went on. Documents may have been found damaged.
    Done { bases: Option<Bases> },
    /// The bases for pending operations could not be read.
    BasesFailed,
}

/// Pages requested from the device.
pub struct Reading {
    pub pages: Vec<u64>,
    pub purpose: Purpose,
}

#[derive(Default)]
pub struct Reads {
    readings: SortedMap<u64, Reading>,
    journals: SortedMap<u64, (Vec<u64>, JournalPurpose)>,
    last_ticket: u64,
    pub(super) cache: VecDeque<(u64, Page)>,
    /// Documents whose data was found damaged and has not been received again yet.
    pub lost: SortedSet<DocKey>,
    /// Pages that cannot be opened: they contain nothing that compaction could rewrite.
    pub unreadable: SortedSet<u64>,
    /// Readings of a follower that wait for a poll of the log.
    stalled: Vec<Stalled>,
    pub compact_not_before_ms: u64,
    /// The time up to which expired documents are hidden.
    hidden_until_ms: u64,
    /// The indexes of queries, for each class that has been queried.
    pub(super) indexed: Vec<Indexed>,
}

impl Reads {
    /// Hides the documents that have expired since the last event.
    pub fn hide_expired(&mut self, ctx: &mut Ctx) {
        let now = ctx.life_now();
        touch_expired(&mut ctx.memory, self.hidden_until_ms, now);
        self.hidden_until_ms = now;
    }

    /// A new ticket: an odd number, as the driver's own are even.
    fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 2;
        self.last_ticket + 1
    }

    /// Registers a reading, and returns its ticket.
    pub fn start(&mut self, reading: Reading) -> u64 {
        let ticket = self.next_ticket();
        self.readings.insert(ticket, reading);
        ticket
    }

    pub fn start_journal(&mut self, numbers: Vec<u64>, purpose: JournalPurpose) -> u64 {
        let ticket = self.next_ticket();
        self.journals.insert(ticket, (numbers, purpose));
        ticket
    }

    /// Forgets the readings for sweeps: another session writes from now on. Returns the tickets of those sweeps.
    pub fn forget_sweeps(&mut self) -> Vec<u64> {
        let mut tickets = Vec::new();
        self.journals.retain(|_, (_, purpose)| match purpose {
            JournalPurpose::Answer(JournalCall::Sweep { ticket, .. }) => {
                tickets.push(*ticket);
                false
            }
            _ => true,
        });
        tickets
    }

    pub fn end_journal(&mut self, ticket: u64) -> Option<(Vec<u64>, JournalPurpose)> {
        self.journals.remove(&ticket)
    }

    pub fn is_compacting(&self) -> bool {
        self.readings.values().any(|reading| matches!(reading.purpose, Purpose::Compact))
    }

    /// The effect that repeats the reading of a ticket.
    pub fn again(&self, ticket: u64, layout: Option<&Layout>) -> Option<Effect> {
        let layout = layout?;
        if let Some(reading) = self.readings.get(&ticket) {
            let keys = reading.pages.iter().map(|page| layout.page_key(*page)).collect();
            return Some(Effect::ReadPages { ticket, keys });
        }
        let (numbers, _) = self.journals.get(&ticket)?;
        let keys = numbers.iter().map(|number| layout.journal_key(*number)).collect();
        Some(Effect::ReadJournal { ticket, keys })
    }

    /// Begins to read the pages of these documents, for pending operations. Returns whether there are any.
    pub fn read_pins(&mut self, ctx: &mut Ctx, ids: Vec<u32>) -> bool {
        let places: SortedSet<u64> =
            ids.iter().filter_map(|id| ctx.memory.by_id(*id)?.1.slot).map(|place| place.page).collect();
        let Some(layout) = ctx.layout.as_ref().filter(|_| !places.is_empty()) else { return false };
        let pages: Vec<u64> = places.into_iter().collect();
        let keys = pages.iter().map(|page| layout.page_key(*page)).collect();
        let ticket = self.start(Reading { pages, purpose: Purpose::Pins { ids } });
        ctx.effects.push(Effect::ReadPages { ticket, keys });
        true
    }

    pub(super) fn cached(&self, page: u64) -> Option<Page> {
        self.cache.iter().find(|(number, _)| *number == page).map(|(_, rows)| rows.clone())
    }

    fn keep(&mut self, page: u64, rows: Page) {
        self.cache.push_back((page, rows));
        if self.cache.len() > CACHED_PAGES {
            self.cache.pop_front();
        }
    }
}

/// A follower's reading that met a missing page: the leader has written since.
struct Stalled {
    purpose: Purpose,
    pages: Held,
}

impl Reads {
    pub(super) fn ask_pages(&mut self, ctx: &mut Ctx, pages: SortedSet<u64>, purpose: Purpose) {
        let Some(layout) = &ctx.layout else { return };
        let pages: Vec<u64> = pages.into_iter().collect();
        let keys = pages.iter().map(|page| layout.page_key(*page)).collect();
        let ticket = self.start(Reading { pages, purpose });
        ctx.effects.push(Effect::ReadPages { ticket, keys });
    }

    /// Pages were read, or reading them failed: continues the reading that asked for them.
    pub fn pages_read(&mut self, ctx: &mut Ctx, ticket: u64, pages: Result<Vec<Option<FoundPage>>>) -> Read {
        let Some(reading) = self.readings.remove(&ticket) else { return Read::Nothing };
        let found = match pages {
            Ok(found) => found,
            // The device failed, which says nothing about the records.
            Err(error) => return self.fail_reading(ctx, reading.purpose, error),
        };
        let mut opened = Held::new();
        for (&page, found) in reading.pages.iter().zip(found) {
            let Some(layout) = &ctx.layout else { return Read::Nothing };
            let rows = found.and_then(|found| layout.open_page(page, &found).ok()).map(Rc::new);
            if rows.is_none() && !ctx.is_following() {
                self.unreadable.insert(page);
            }
            if let (Some(rows), Purpose::Answer { .. }) = (&rows, &reading.purpose) {
                self.keep(page, rows.clone());
            }
            opened.insert(page, rows);
        }
        if ctx.is_following() && opened.values().any(Option::is_none) {
            self.stalled.push(Stalled { purpose: reading.purpose, pages: opened });
            return Read::Stalled;
        }
        let bases = self.go_on_reading(ctx, reading.purpose, &opened);
        Read::Done { bases }
    }

    /// The device could not read these pages.
    fn fail_reading(&mut self, ctx: &mut Ctx, purpose: Purpose, error: Error) -> Read {
        match purpose {
            Purpose::Answer { ticket, .. } => {
                ctx.effects.push(Effect::Answer { ticket, rows: Err(error) });
            }
            Purpose::Index { class, batch } => self.fail_indexing(ctx, class, batch, &error),
            Purpose::Pins { .. } => {
                ctx.errors.report(error);
                return Read::BasesFailed;
            }
            Purpose::Compact => {
                self.compact_not_before_ms = ctx.clock.mono_ms + COMPACT_RETRY_MS;
                ctx.errors.report(error);
            }
        }
        Read::Nothing
    }

    /// The follower's poll of the log has ended. If it brought something new, the readings that waited for it
    /// begin again; otherwise they continue with the pages found. Returns the bases that they found.
    pub fn resume(&mut self, ctx: &mut Ctx, is_new: bool) -> Option<Bases> {
        let mut bases = None;
        for Stalled { purpose, pages } in std::mem::take(&mut self.stalled) {
            let pages = if is_new { SortedMap::new() } else { pages };
            bases = self.go_on_reading(ctx, purpose, &pages).or(bases);
        }
        bases
    }

    /// Continues a reading with its pages. Returns the bases that it found, if it was for them.
    fn go_on_reading(&mut self, ctx: &mut Ctx, purpose: Purpose, opened: &Held) -> Option<Bases> {
        match purpose {
            Purpose::Answer { ticket, ids, mut held } => {
                held.extend(opened.iter().map(|(page, rows)| (*page, rows.clone())));
                self.answer(ctx, ticket, ids, held);
            }
            Purpose::Index { class, batch } => self.go_on_indexing(ctx, class, batch, opened),
            Purpose::Pins { ids } => {
                let mut found = Vec::new();
                for id in ids {
                    match self.locate(ctx, id, opened) {
                        Ok(Found::Here(data)) => found.push((id, data)),
                        // Moved in the meantime: it is read again.
                        Ok(_) => {}
                        Err(error) => ctx.errors.report(error),
                    }
                }
                return Some(found);
            }
            Purpose::Compact => self.compact(ctx, opened),
        }
        None
    }
}
