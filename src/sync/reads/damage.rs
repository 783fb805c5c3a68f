//! Where the data of documents is: in memory, on a page, or nowhere, if its record is damaged (R14). Also
//! rewrites the documents of sparse pages.

use super::readings::{Held, Purpose, Reading, Reads};
use crate::codec::Data;
use crate::error::{Error, Result};
use crate::memory::{Content, DocKey, PageRef};
use crate::model::{SortedMap, SortedSet};
use crate::sync::context::Ctx;
use crate::sync::message::Effect;

/// Delay after sparse pages could not be read: compaction is not urgent.
pub const COMPACT_RETRY_MS: u64 = 60_000;

/// The location of a document's data.
pub enum Found {
    Here(Data),
    OnPage(PageRef),
    Nowhere,
}

impl Reads {
    /// The device has lost all pages: these documents have lost their data.
    pub fn forget_pages(&mut self, lost: SortedSet<DocKey>) {
        self.cache.clear();
        self.unreadable.clear();
        self.lost = lost;
    }

    /// Documents that were received again, or have left, are lost no more.
    pub fn forget_found(&mut self, ctx: &Ctx) {
        self.lost.retain(|key| ctx.memory.document(key).is_some_and(|d| matches!(d.content, Content::Lost)));
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

    /// The location of a version's data, if the version is still current: in memory, on one of these pages,
    /// or on a page to be read. A document is marked as lost if its page does not contain it as written.
    pub(super) fn locate(&mut self, ctx: &mut Ctx, id: u32, pages: &Held) -> Result<Found> {
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
        if let Some(row) = row.filter(|row| (&row.class, &row.pk, row.at) == (class, &key.1, at)) {
            return Ok(Found::Here(row.data.clone()));
        }
        if ctx.is_following() {
            // The leader detects the damage and repairs it.
            return Ok(Found::Nowhere);
        }
        ctx.memory.lose(&key);
        self.lost.insert(key);
        Err(Error::new(crate::Code::RecordDamaged, "a page of documents"))
    }

    /// Brings the documents of sparse pages back into memory, so that the next batch writes them into new
    /// pages.
    pub(super) fn compact(&mut self, ctx: &mut Ctx, pages: &Held) {
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
