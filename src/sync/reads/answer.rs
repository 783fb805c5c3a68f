//! Answers to the application, from memory or from pages on the device: documents' data, and queries.

use std::collections::VecDeque;

use super::damage::Found;
use super::readings::{Held, Purpose, Reads};
use crate::codec::Data;
use crate::error::{Error, Result};
use crate::memory::query::Predicate;
use crate::memory::{Content, PageRef};
use crate::model::{Name, SortedMap, SortedSet, order};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, ReadRow};

/// The pages that a query reads at a time, which bounds its memory.
const QUERY_PAGES: usize = 32;

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

    /// Answers [`Event::Query`](crate::sync::message::Event::Query): first lists the documents, then reads them page
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
    pub(super) fn go_on(
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
}

/// Whether the data satisfies every predicate.
pub fn holds(data: &Data, predicates: &[Predicate]) -> bool {
    let names: Vec<&Name> = predicates.iter().map(Predicate::property).collect();
    data.pick(&names).is_ok_and(|properties| predicates.iter().all(|predicate| predicate.holds(&properties)))
}
