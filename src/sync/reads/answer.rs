//! Answers to the application, from memory or from pages on the device: documents' data.

use super::damage::Found;
use super::readings::{Held, Purpose, Reads};
use crate::error::Result;
use crate::model::SortedSet;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, ReadRow};

impl Reads {
    pub fn read(&mut self, ctx: &mut Ctx, ticket: u64, ids: Vec<u32>) -> Result<()> {
        self.answer(ctx, ticket, ids, Held::new());
        Ok(())
    }

    /// Answers from memory and from these pages. If documents are on other pages, reads those first.
    pub(super) fn answer(&mut self, ctx: &mut Ctx, ticket: u64, ids: Vec<u32>, mut held: Held) {
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
}
