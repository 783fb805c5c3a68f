//! The indexes of one class, with the documents that they lack and the queries that wait (R30).

use super::search;
use crate::memory::query::{Column, Index, Query};
use crate::sync::context::Ctx;
use crate::sync::message::Effect;

/// An index that no query has used for this long is dropped.
pub const UNUSED_MS: u64 = 300_000;

/// The indexes of one class, and the queries that wait for them.
#[derive(Default)]
pub struct Indexed {
    /// The class's position in the schema.
    pub class: u16,
    pub indexes: Vec<Index>,
    /// The documents that are still to be entered, those of one page next to each other. The last one is the next.
    pub unread: Vec<Unread>,
    /// Documents that were not where the session expected them. The next query looks for them again.
    pub missing: Vec<Unread>,
    pub waiting: Vec<(u64, Query)>,
    pub is_reading: bool,
    /// The number of live queries: while there are any, the indexes stay.
    pub live: u32,
}

/// A version of a document, and the indexes that lack it: from one position up to another.
#[derive(Clone, Copy)]
pub struct Unread {
    pub id: u32,
    pub from: usize,
    pub until: usize,
}

impl Indexed {
    /// Makes the indexes that a query lacks, still without documents, and takes the documents that changed.
    pub fn prepare(&mut self, ctx: &mut Ctx, query: &Query) {
        let missing = std::mem::take(&mut self.missing);
        self.unread.extend(missing);
        self.take_noted(ctx);
        let had = self.indexes.len();
        for column in query.columns() {
            let place = self.place(column).unwrap_or_else(|| {
                self.indexes.push(Index::new(column.clone()));
                self.indexes.len() - 1
            });
            self.indexes[place].used_ms = ctx.clock.mono_ms;
        }
        let until = self.indexes.len();
        if until > had {
            ctx.memory.new_ids.follow(self.class);
            self.unread.extend(search::all_listed(ctx, self.class).into_iter().map(|id| Unread {
                id,
                from: had,
                until,
            }));
        }
    }

    /// Takes the documents that changed since the last query: every index lacks them.
    pub fn take_noted(&mut self, ctx: &mut Ctx) {
        let noted = ctx.memory.new_ids.take(self.class);
        let until = self.indexes.len();
        if until > 0 {
            for index in &mut self.indexes {
                index.note_stale(noted.len());
            }
            self.unread.extend(noted.into_iter().map(|id| Unread { id, from: 0, until }));
        }
    }

    /// Answers the queries that wait, from the documents as they are now.
    pub fn answer(&mut self, ctx: &mut Ctx) {
        for (ticket, query) in std::mem::take(&mut self.waiting) {
            let ids = search::ids(ctx, self.class, &mut self.indexes, &query);
            ctx.effects.push(Effect::Matched { ticket, ids: Ok(ids) });
        }
    }

    fn place(&self, column: &Column) -> Option<usize> {
        self.indexes.iter().position(|index| index.column() == column)
    }

    /// Whether nothing keeps an index but its last use.
    pub fn is_idle(&self) -> bool {
        self.live == 0 && self.waiting.is_empty() && !self.is_reading
    }
}
