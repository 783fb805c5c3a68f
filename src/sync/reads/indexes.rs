//! The indexes of queries (R30). The first query that needs an index makes it, by reading the pages of its class. From
//! then on it follows every change, until no query has used it for a while.

use super::coverage::condition;
use super::damage::Found;
use super::indexed::{Indexed, UNUSED_MS, Unread};
use super::readings::{Held, Purpose, Reads};
use super::seeds::{fill_from_class, take_pending_fills};
use super::visibility::key_of;
use crate::error::{Code, Error, Result, fail};
use crate::memory::PageRef;
use crate::memory::query::Query;
use crate::model::{Def, Name, SortedSet};
use crate::sync::context::Ctx;
use crate::sync::message::Effect;

/// The pages that are read at a time, which bounds the memory.
const PAGES_AT_A_TIME: usize = 32;

/// Checks whether a query can be answered.
pub fn check_query(ctx: &Ctx, query: &Query) -> Result<()> {
    match &query.within {
        Some(def) if ctx.memory.collection(def).is_none() && condition(ctx, def).is_none() => fail(
            Code::BadOption,
            "in: the session is not subscribed to it; call live() or collection() with it first",
        ),
        _ => Ok(()),
    }
}

/// The position of a query's class in the schema. Errors: `unknown_class`, and those of [`check_query`].
fn position_of(ctx: &Ctx, class: &Name, query: &Query) -> Result<u16> {
    let schema = ctx.memory.schema();
    schema.class(class.as_str())?;
    check_query(ctx, query)?;
    let position = schema.position(class).map(|position| position as u16);
    position.ok_or_else(|| Error::new(Code::UnknownClass, "no such class"))
}

impl Reads {
    /// Answers [`Event::Query`](crate::sync::message::Event::Query), at once or after a reading.
    pub fn query(&mut self, ctx: &mut Ctx, ticket: u64, class: &Name, mut query: Query) -> Result<()> {
        let position = match position_of(ctx, class, &query) {
            Ok(position) => position,
            Err(error) => {
                ctx.effects.push(Effect::Matched { ticket, ids: Err(error) });
                return Ok(());
            }
        };
        if let Some(condition) = query.within.as_ref().and_then(|def| condition(ctx, def)) {
            query.within = Some(Def::class_of(class));
            query.predicates.push(condition);
        }
        let indexed = self.indexed_of(position);
        indexed.prepare(ctx, &query);
        indexed.waiting.push((ticket, query));
        self.go_on_indexing(ctx, position, Vec::new(), &Held::new());
        Ok(())
    }

    /// A live query of a class began or ended.
    pub fn watch(&mut self, ctx: &mut Ctx, class: &Name, begins: bool) {
        let Some(position) = ctx.memory.schema().position(class) else { return };
        let indexed = self.indexed_of(position as u16);
        indexed.live = if begins { indexed.live + 1 } else { indexed.live.saturating_sub(1) };
        let now = ctx.clock.mono_ms;
        for index in &mut indexed.indexes {
            index.used_ms = now;
        }
        ctx.memory.new_ids.follow(position as u16);
    }

    /// Drops the indexes that no query has used for a while.
    pub fn drop_unused(&mut self, ctx: &mut Ctx) {
        let now = ctx.clock.mono_ms;
        self.indexed.retain_mut(|indexed| {
            if indexed.is_idle() {
                indexed.indexes.retain(|index| index.used_ms + UNUSED_MS > now);
            }
            let is_used = !indexed.is_idle() || !indexed.indexes.is_empty();
            if !is_used {
                ctx.memory.new_ids.leave(indexed.class);
            }
            is_used
        });
    }

    /// When the next index is dropped.
    pub fn next_drop_ms(&self) -> Option<u64> {
        let mut next = None;
        for indexed in self.indexed.iter().filter(|indexed| indexed.is_idle()) {
            for index in &indexed.indexes {
                next = Some(next.unwrap_or(u64::MAX).min(index.used_ms + UNUSED_MS));
            }
        }
        next
    }

    pub(super) fn indexed_of(&mut self, class: u16) -> &mut Indexed {
        let place = self.indexed.iter().position(|indexed| indexed.class == class).unwrap_or_else(|| {
            self.indexed.push(Indexed { class, ..Indexed::default() });
            self.indexed.len() - 1
        });
        &mut self.indexed[place]
    }

    /// Enters these documents of the pages, then the next ones. Once all are entered, answers the queries.
    pub(super) fn go_on_indexing(&mut self, ctx: &mut Ctx, class: u16, batch: Vec<Unread>, pages: &Held) {
        // Meanwhile the readings can be changed.
        let empty = Indexed { class, ..Indexed::default() };
        let mut indexed = std::mem::replace(self.indexed_of(class), empty);
        for unread in batch {
            indexed.is_reading = false;
            if self.enter(ctx, &mut indexed, unread, pages).is_some() {
                // It moved to another page in the meantime.
                indexed.unread.push(unread);
            }
        }
        if !indexed.is_reading {
            indexed.take_noted(ctx);
            let mut wanted: SortedSet<u64> = SortedSet::new();
            let mut batch = Vec::new();
            while let Some(unread) = indexed.unread.pop() {
                let Some(place) = self.enter(ctx, &mut indexed, unread, &Held::new()) else { continue };
                if wanted.len() == PAGES_AT_A_TIME && !wanted.contains(&place.page) {
                    indexed.unread.push(unread);
                    break;
                }
                wanted.insert(place.page);
                batch.push(unread);
            }
            if wanted.is_empty() {
                // New members change the answers of queries, which wait until the effects of pending operations have
                // followed.
                if !fill_from_class(ctx, &mut indexed) {
                    indexed.answer(ctx);
                }
            } else {
                indexed.is_reading = true;
                self.ask_pages(ctx, wanted, Purpose::Index { class, batch });
            }
        }
        *self.indexed_of(class) = indexed;
    }

    /// The device could not read the pages of these documents: the queries that wait fail.
    pub(super) fn fail_indexing(&mut self, ctx: &mut Ctx, class: u16, batch: Vec<Unread>, error: &Error) {
        let indexed = self.indexed_of(class);
        indexed.is_reading = false;
        indexed.unread.extend(batch);
        for (ticket, _) in std::mem::take(&mut indexed.waiting) {
            ctx.effects.push(Effect::Matched { ticket, ids: Err(error.clone()) });
        }
        drop(take_pending_fills(ctx, class));
    }

    /// Enters a document into the indexes that lack it. Returns its page if that must be read first.
    fn enter(
        &mut self,
        ctx: &mut Ctx,
        indexed: &mut Indexed,
        unread: Unread,
        pages: &Held,
    ) -> Option<PageRef> {
        match self.locate(ctx, unread.id, pages) {
            Ok(Found::Here(data)) => {
                let key = key_of(&ctx.memory, unread.id)?;
                let lacking = &mut indexed.indexes[unread.from..unread.until];
                let names: Vec<&Name> = lacking.iter().flat_map(|index| index.column().names()).collect();
                match data.pick(&names) {
                    Ok(properties) => {
                        for index in lacking {
                            index.add(&properties, &key.1, unread.id);
                        }
                    }
                    Err(error) => ctx.errors.report(error),
                }
            }
            Ok(Found::OnPage(place)) => return Some(place),
            Ok(Found::Nowhere) => {
                if ctx.memory.by_id(unread.id).is_some() {
                    indexed.missing.push(unread);
                }
            }
            Err(error) => {
                indexed.missing.push(unread);
                ctx.errors.report(error);
            }
        }
        None
    }
}
