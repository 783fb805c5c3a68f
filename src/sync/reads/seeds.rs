//! A new collection of a loaded class takes its members from the documents of the class. It is ready with no network
//! (docs/decisions/41-a-collection-begins-with-its-class.md).

use super::coverage::membership;
use super::indexed::Indexed;
use super::readings::{Held, Reads};
use super::search::find;
use crate::memory::query::Query;
use crate::memory::seed::{known_class, seed};
use crate::model::Def;
use crate::sync::context::Ctx;

impl Reads {
    /// A subscription to a collection has begun. If its class is loaded, looks for its members there.
    pub fn seed(&mut self, ctx: &mut Ctx, def: &Def) {
        let Some(position) = ctx.memory.schema().position(def.class()) else { return };
        let is_known = known_class(&ctx.memory, def.class()).is_some();
        let Some(predicate) = membership(ctx, def).filter(|_| is_known) else { return };
        ctx.seeding.insert(def.clone());
        let query = Query { predicates: vec![predicate], ..Query::default() };
        self.indexed_of(position as u16).prepare(ctx, &query);
        self.go_on_indexing(ctx, position as u16, Vec::new(), &Held::new());
    }

    /// Answers the queries that waited for new collections to get their members.
    pub fn answer_late(&mut self, ctx: &mut Ctx) {
        let is_late = |indexed: &&Indexed| !indexed.waiting.is_empty() && !indexed.is_reading;
        while let Some(class) = self.indexed.iter().find(is_late).map(|indexed| indexed.class) {
            self.go_on_indexing(ctx, class, Vec::new(), &Held::new());
        }
    }
}

/// The indexes of a class are up to date: gives new collections their members. If a document is damaged or another
/// session leads, they are loaded from the server. Returns whether there were any such collections.
pub fn fill_from_class(ctx: &mut Ctx, indexed: &mut Indexed) -> bool {
    let is_complete = indexed.missing.is_empty() && !ctx.is_following();
    let defs = take_pending_fills(ctx, indexed.class);
    let has_any = !defs.is_empty();
    for def in defs {
        let Some(predicate) = membership(ctx, &def).filter(|_| is_complete) else { continue };
        let entries = find(&mut indexed.indexes, &predicate.column).range(&predicate.spans[0], None, None);
        let ids: Vec<u32> = entries.map(|(_, _, id)| *id).collect();
        seed(&mut ctx.memory, &def, &ids);
    }
    has_any
}

/// The new collections of a class, which wait no more.
pub fn take_pending_fills(ctx: &mut Ctx, class: u16) -> Vec<Def> {
    let name = ctx.memory.class(class).name();
    let defs: Vec<Def> = ctx.seeding.iter().filter(|def| def.class() == name).cloned().collect();
    for def in &defs {
        ctx.seeding.remove(def);
    }
    defs
}
