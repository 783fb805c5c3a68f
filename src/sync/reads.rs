//! Asynchronous reads of documents' data, from memory or from pages on the device; queries; and the recovery
//! of damaged documents (R14). For the application, for pending operations and for compaction.

use std::collections::VecDeque;
use std::rc::Rc;

use super::context::Ctx;
use super::journal_reads::JournalPurpose;
use super::message::{Effect, ReadRow};
use crate::codec::Data;
use crate::error::{Error, Result};
use crate::memory::query::Predicate;
use crate::memory::{Content, DocKey, PageRef};
use crate::model::{Name, SortedMap, SortedSet, order};
use crate::storage::{FoundPage, Layout, PageRow};

/// The pages that a query reads at a time, which bounds its memory.
const QUERY_PAGES: usize = 32;

/// Opened pages that are cached for the next read.
const CACHED_PAGES: usize = 16;

/// Delay after sparse pages could not be read: compaction is not urgent.
const COMPACT_RETRY_MS: u64 = 60_000;

type Page = Rc<Vec<PageRow>>;

/// Opened pages by number; `None` for one that cannot be opened.
type Held = SortedMap<u64, Option<Page>>;

/// Why pages are being read.
pub(super) enum Purpose {
    /// To answer an [`Event::Read`](super::message::Event::Read).
    Answer { ticket: u64, ids: Vec<u32>, held: Held },
    /// To continue a query.
    Query { ticket: u64, predicates: Vec<Predicate>, layout: VecDeque<u32>, batch: Vec<u32>, found: Vec<u32> },
    /// To have the data of documents with pending operations in memory.
    Pins { ids: Vec<u32> },
    /// To rewrite the documents of sparse pages.
    Compact,
}

/// The data of documents with pending operations.
pub(super) type Bases = Vec<(u32, Data)>;

/// The result of a reading for the other parts.
pub(super) enum Read {
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
pub(super) struct Reading {
    pub pages: Vec<u64>,
    pub purpose: Purpose,
}

#[derive(Default)]
pub(super) struct Reads {
    readings: SortedMap<u64, Reading>,
    journals: SortedMap<u64, (Vec<u64>, JournalPurpose)>,
    last_ticket: u64,
    cache: VecDeque<(u64, Page)>,
    /// Documents whose data was found damaged and has not been received again yet.
    pub lost: SortedSet<DocKey>,
    /// Pages that cannot be opened: they contain nothing that compaction could rewrite.
    pub unreadable: SortedSet<u64>,
    /// Readings of a follower that wait for a poll of the log.
    stalled: Vec<Stalled>,
    compact_not_before_ms: u64,
}

impl Reads {
    /// Registers a reading, and returns its ticket: an odd number, as the driver's own are even.
    pub fn start(&mut self, reading: Reading) -> u64 {
        self.last_ticket += 1;
        let ticket = self.last_ticket * 2 + 1;
        self.readings.insert(ticket, reading);
        ticket
    }

    pub fn start_journal(&mut self, numbers: Vec<u64>, purpose: JournalPurpose) -> u64 {
        self.last_ticket += 1;
        let ticket = self.last_ticket * 2 + 1;
        self.journals.insert(ticket, (numbers, purpose));
        ticket
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

    /// The device has lost all pages: these documents have lost their data.
    pub fn forget_pages(&mut self, lost: Vec<DocKey>) {
        self.cache.clear();
        self.unreadable.clear();
        self.lost = order::set_of(lost);
    }

    /// Documents that were received again, or have left, are lost no more.
    pub fn forget_found(&mut self, ctx: &Ctx) {
        self.lost.retain(|key| ctx.memory.document(key).is_some_and(|d| matches!(d.content, Content::Lost)));
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

    fn cached(&self, page: u64) -> Option<Page> {
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

/// The location of a document's data.
enum Found {
    Here(Data),
    OnPage(PageRef),
    Nowhere,
}

impl Reads {
    pub fn read(&mut self, ctx: &mut Ctx, ticket: u64, ids: Vec<u32>) -> Result<()> {
        self.answer(ctx, ticket, ids, Held::new());
        Ok(())
    }

    /// Answers from memory and from these pages. If documents are on other pages, reads those first.
    fn answer(&mut self, ctx: &mut Ctx, ticket: u64, ids: Vec<u32>, mut held: Held) {
        let mut rows = Vec::with_capacity(ids.len());
        let mut wanted: SortedSet<u64> = SortedSet::new();
        for &id in &ids {
            match self.locate(ctx, id, &held) {
                Ok(Found::Here(data)) => {
                    let shown = ctx.memory.shown_by_id(id).map(|(key, shown)| (key, shown.v));
                    let held = || ctx.memory.by_id(id).map(|(key, document)| (key, document.at.v));
                    let (key, v) = shown.or_else(held).expect("located");
                    let release = ctx.memory.class(key.0).release();
                    rows.push(ReadRow { id, pk: key.1.clone(), v, release, data });
                }
                Ok(Found::OnPage(place)) => {
                    wanted.insert(place.page);
                }
                Ok(Found::Nowhere) => {}
                Err(error) => ctx.errors.report(error),
            }
        }
        if wanted.is_empty() {
            ctx.effects.push(Effect::Answer { ticket, rows: Ok(rows) });
        } else {
            // Other reads may push pages out of the cache meanwhile: those that the answer needs are kept for
            // it.
            held.retain(|_, page| page.is_some());
            for page in ids.iter().filter_map(|id| ctx.memory.by_id(*id)?.1.slot).map(|place| place.page) {
                if !held.contains_key(&page)
                    && let Some(rows) = self.cached(page)
                {
                    held.insert(page, Some(rows));
                }
            }
            self.ask_pages(ctx, wanted, Purpose::Answer { ticket, ids, held });
        }
    }

    /// Answers [`Event::Query`](super::message::Event::Query): first lists the documents, then reads them page
    /// by page.
    pub fn query(
        &mut self,
        ctx: &mut Ctx,
        ticket: u64,
        class: &Name,
        predicates: Vec<Predicate>,
    ) -> Result<()> {
        let Some(position) = ctx.memory.schema().position(class) else {
            let error = ctx.memory.schema().class(class.as_str()).err();
            let ids = Err(error.unwrap_or_else(|| Error::new(crate::Code::UnknownClass, "no such class")));
            ctx.effects.push(Effect::Matched { ticket, ids });
            return Ok(());
        };
        let now = ctx.life_now();
        let documents = ctx.memory.documents().filter(|((class, _), _)| usize::from(*class) == position);
        let mut ids: Vec<(Option<PageRef>, u32)> = documents
            .filter(|(key, document)| !document.is_expired(now) && ctx.memory.shown(key).is_none())
            .map(|(_, d)| (d.slot.filter(|_| matches!(d.content, Content::AtRest)), d.id))
            .collect();
        let shown = ctx.memory.all_shown().filter(|((class, _), _)| usize::from(*class) == position);
        ids.extend(shown.filter(|(_, shown)| shown.is_visible(now)).map(|(_, shown)| (None, shown.id)));
        // The documents of one page come one after the other.
        order::sort_by_key(&mut ids, |(place, id)| (place.map(|p| (p.page, p.slot)), *id));
        let layout = ids.into_iter().map(|(_, id)| id).collect();
        self.go_on(ctx, ticket, predicates, layout, Vec::new());
        Ok(())
    }

    /// Continues a query with its next documents, as many as a few pages contain.
    fn go_on(
        &mut self,
        ctx: &mut Ctx,
        ticket: u64,
        predicates: Vec<Predicate>,
        mut layout: VecDeque<u32>,
        mut found: Vec<u32>,
    ) {
        let mut wanted: SortedSet<u64> = SortedSet::new();
        let mut batch = Vec::new();
        while let Some(id) = layout.front().copied() {
            match self.locate(ctx, id, &SortedMap::new()) {
                Ok(Found::Here(data)) => {
                    if holds(&data, &predicates) {
                        found.push(id);
                    }
                }
                Ok(Found::OnPage(place)) => {
                    if wanted.len() == QUERY_PAGES && !wanted.contains(&place.page) {
                        break;
                    }
                    wanted.insert(place.page);
                    batch.push(id);
                }
                Ok(Found::Nowhere) => {}
                Err(error) => ctx.errors.report(error),
            }
            layout.pop_front();
        }
        if wanted.is_empty() {
            ctx.effects.push(Effect::Matched { ticket, ids: Ok(found) });
        } else {
            self.ask_pages(ctx, wanted, Purpose::Query { ticket, predicates, layout, batch, found });
        }
    }

    fn ask_pages(&mut self, ctx: &mut Ctx, pages: SortedSet<u64>, purpose: Purpose) {
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
            if rows.is_none() && !ctx.is_following {
                self.unreadable.insert(page);
            }
            if let (Some(rows), Purpose::Answer { .. }) = (&rows, &reading.purpose) {
                self.keep(page, rows.clone());
            }
            opened.insert(page, rows);
        }
        if ctx.is_following && opened.values().any(Option::is_none) {
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
            Purpose::Query { ticket, .. } => {
                ctx.effects.push(Effect::Matched { ticket, ids: Err(error) });
            }
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

    /// Begins to rewrite the documents of sparse pages: storage costs by the record.
    pub fn advance_compaction(&mut self, ctx: &mut Ctx) {
        let Some(layout) = &ctx.layout else { return };
        if self.is_compacting() || ctx.clock.mono_ms < self.compact_not_before_ms {
            return;
        }
        let pages = layout.sparse_pages(&self.unreadable);
        if !pages.is_empty() {
            let keys = pages.iter().map(|page| layout.page_key(*page)).collect();
            let ticket = self.start(Reading { pages, purpose: Purpose::Compact });
            ctx.effects.push(Effect::ReadPages { ticket, keys });
        }
    }

    /// Continues a reading with its pages. Returns the bases that it found, if it was for them.
    fn go_on_reading(&mut self, ctx: &mut Ctx, purpose: Purpose, opened: &Held) -> Option<Bases> {
        match purpose {
            Purpose::Answer { ticket, ids, mut held } => {
                held.extend(opened.iter().map(|(page, rows)| (*page, rows.clone())));
                self.answer(ctx, ticket, ids, held);
            }
            Purpose::Query { ticket, predicates, mut layout, batch, mut found } => {
                for id in batch {
                    match self.locate(ctx, id, opened) {
                        Ok(Found::Here(data)) if holds(&data, &predicates) => found.push(id),
                        // Moved to another page in the meantime: it is read again.
                        Ok(Found::OnPage(_)) => layout.push_back(id),
                        Ok(_) => {}
                        Err(error) => ctx.errors.report(error),
                    }
                }
                self.go_on(ctx, ticket, predicates, layout, found);
            }
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

    /// The location of a version's data, if the version is still current: in memory, on one of these pages,
    /// or on a page to be read. A document is marked as lost if its page does not contain it as written.
    fn locate(&mut self, ctx: &mut Ctx, id: u32, pages: &Held) -> Result<Found> {
        if let Some((_, shown)) = ctx.memory.shown_by_id(id) {
            return Ok(shown.data.clone().map_or(Found::Nowhere, Found::Here));
        }
        let Some((key, document)) = ctx.memory.by_id(id) else { return Ok(Found::Nowhere) };
        let place = match (&document.content, document.slot) {
            (Content::Resident(data), _) => return Ok(Found::Here(data.clone())),
            (Content::AtRest, Some(place)) => place,
            (Content::AtRest | Content::Lost, _) => return Ok(Found::Nowhere),
        };
        let page = match pages.get(&place.page) {
            Some(page) => page.clone(),
            None => match self.cached(place.page) {
                Some(page) => Some(page),
                None => return Ok(Found::OnPage(place)),
            },
        };
        let (key, at) = (key.clone(), document.at);
        let class = ctx.memory.class(key.0).name();
        let row = page.as_ref().and_then(|rows| rows.get(place.slot as usize));
        if let Some(row) = row.filter(|row| row.class == *class && row.pk == key.1 && row.at == at) {
            return Ok(Found::Here(row.data.clone()));
        }
        if ctx.is_following {
            // The leader detects the damage and repairs it.
            return Ok(Found::Nowhere);
        }
        ctx.memory.lose(&key);
        self.lost.insert(key);
        Err(Error::new(crate::Code::RecordDamaged, "a page of documents"))
    }

    /// Brings the documents of sparse pages back into memory, so that the next batch writes them into new
    /// pages.
    fn compact(&mut self, ctx: &mut Ctx, pages: &Held) {
        let ids: Vec<u32> = ctx
            .memory
            .documents()
            .filter(|(_, d)| matches!(d.content, Content::AtRest))
            .filter(|(_, d)| d.slot.is_some_and(|place| pages.contains_key(&place.page)))
            .map(|(_, d)| d.id)
            .collect();
        for id in ids {
            match self.locate(ctx, id, pages) {
                Ok(Found::Here(data)) => {
                    let (key, document) = ctx.memory.by_id(id).expect("located");
                    let (key, at) = (key.clone(), document.at);
                    ctx.memory.reload(&key, at, data);
                }
                Ok(_) => {}
                Err(error) => ctx.errors.report(error),
            }
        }
    }

    /// Brings a document's data back into memory, if its page is in the cache.
    pub fn reload_cached(&mut self, ctx: &mut Ctx, id: u32) {
        if let Ok(Found::Here(data)) = self.locate(ctx, id, &SortedMap::new())
            && let Some((key, document)) = ctx.memory.by_id(id)
        {
            let (key, at) = (key.clone(), document.at);
            ctx.memory.reload(&key, at, data);
        }
    }
}

fn holds(data: &Data, predicates: &[Predicate]) -> bool {
    let names: Vec<&Name> = predicates.iter().map(Predicate::property).collect();
    data.pick(&names).is_ok_and(|properties| predicates.iter().all(|predicate| predicate.holds(&properties)))
}
