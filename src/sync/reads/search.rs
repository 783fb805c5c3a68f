//! The answer of a query from its indexes, without reading a page (R30, R31).

use super::visibility::{is_member, key_of, listed, seen};
use crate::memory::query::{Column, Index, Order, Query, Span};
use crate::sync::context::Ctx;

/// The ids of the documents that satisfy a query. With an order they are in that order; otherwise those of one page are
/// next to each other.
pub fn ids(ctx: &Ctx, class: u16, indexes: &mut [Index], query: &Query) -> Vec<u32> {
    let (memory, now) = (&ctx.memory, ctx.life_now());
    let ordering = query.order.as_ref().map(|order| &order.column);
    let mut walked = vec![Span::all()];
    let mut candidates: Option<Ids> = None;
    for predicate in &query.predicates {
        if Some(&predicate.column) == ordering {
            walked = both(&walked, &predicate.spans);
            continue;
        }
        let mut found = Ids::default();
        for span in &predicate.spans {
            for (_, _, id) in find(indexes, &predicate.column).range(span, None, None) {
                if candidates.as_ref().is_none_or(|before| before.has(*id)) {
                    found.add(*id);
                }
            }
        }
        candidates = Some(found);
    }
    let is_listed = |id: u32| {
        candidates.as_ref().is_none_or(|candidates| candidates.has(id))
            && seen(memory, id, now).is_some_and(|key| match &query.within {
                Some(def) => is_member(memory, key, def),
                None => true,
            })
    };
    let ids = if let Some(order) = &query.order {
        let index = find(indexes, &order.column);
        let (ids, passed) = walk(index, order, walked, query.limit.unwrap_or(usize::MAX), &is_listed);
        index.note_stale(passed);
        ids
    } else {
        let ids = candidates.as_ref().map_or_else(|| all(ctx, class), Ids::list);
        listed(memory, ids.into_iter().filter(|id| is_listed(*id)))
    };
    for index in indexes {
        index.sweep(&|id| key_of(memory, id).is_some());
    }
    ids
}

/// The ids of all documents of a class, in the base and in the overlay.
fn all(ctx: &Ctx, class: u16) -> Vec<u32> {
    let documents = ctx.memory.documents().map(|(key, document)| (key.0, document.id));
    let shown = ctx.memory.all_shown().map(|(key, shown)| (key.0, shown.id));
    let ids = documents.chain(shown).filter(|(of, id)| *of == class && *id != 0).map(|(_, id)| id);
    ids.collect()
}

/// The same, with those of one page next to each other.
pub fn all_listed(ctx: &Ctx, class: u16) -> Vec<u32> {
    listed(&ctx.memory, all(ctx, class).into_iter())
}

/// The index of a column: the query has prepared it.
pub(super) fn find<'i>(indexes: &'i mut [Index], column: &Column) -> &'i mut Index {
    indexes.iter_mut().find(|index| index.column() == column).expect("an index that the query prepared")
}

/// The values that are in a span of each list.
fn both(one: &[Span], two: &[Span]) -> Vec<Span> {
    let mut spans = Vec::new();
    for span in one {
        for other in two {
            spans.push(span.and(other));
        }
    }
    spans
}

/// The first ids of an index that are listed, in order, and the number of entries passed over.
fn walk(
    index: &Index,
    order: &Order,
    mut spans: Vec<Span>,
    limit: usize,
    is_listed: &dyn Fn(u32) -> bool,
) -> (Vec<u32>, usize) {
    let (mut ids, mut passed) = (Vec::new(), 0);
    let (after, before) =
        if order.descending { (None, order.after.as_ref()) } else { (order.after.as_ref(), None) };
    if order.descending {
        spans.reverse();
    }
    for span in &spans {
        let mut entries = index.range(span, after, before);
        while ids.len() < limit {
            let entry = if order.descending { entries.next_back() } else { entries.next() };
            let Some((_, _, id)) = entry else { break };
            if is_listed(*id) {
                ids.push(*id);
            } else {
                passed += 1;
            }
        }
    }
    (ids, passed)
}

/// A set of ids, as bits.
#[derive(Default)]
struct Ids(Vec<u8>);

impl Ids {
    fn add(&mut self, id: u32) {
        let place = id as usize / 8;
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        self.0[place] |= 1 << (id % 8);
    }

    fn list(&self) -> Vec<u32> {
        (0..self.0.len() as u32 * 8).filter(|id| self.has(*id)).collect()
    }

    fn has(&self, id: u32) -> bool {
        self.0.get(id as usize / 8).is_some_and(|bits| bits >> (id % 8) & 1 == 1)
    }
}
