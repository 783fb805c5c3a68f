//! Covered collections: those of a class that is subscribed to and loaded. The session answers them from the documents
//! of the class, without a subscription of their own (docs/decisions/37-a-loaded-class-covers-its-collections.md).

use super::readings::{Held, Reads};
use crate::memory::query::{Column, Predicate, Span};
use crate::model::{Def, DefKind, Pk};
use crate::sync::context::Ctx;

/// The condition that the documents of a class satisfy if they are members of a covered collection. `None` if the def is
/// no collection, is subscribed to itself, or if its class is not loaded.
pub fn condition(ctx: &Ctx, def: &Def) -> Option<Predicate> {
    let DefKind::Collection(name, hash) = def.kind() else { return None };
    let is_covered = ctx.memory.collection(def).is_none()
        && ctx.memory.collection(&Def::class_of(def.class())).is_some_and(|class| class.ready);
    let class = ctx.memory.schema().class(def.class().as_str()).ok().filter(|_| is_covered)?;
    let column = Column::members(class.collection(name).ok()?);
    Some(Predicate { column, spans: vec![Span::only(hash.clone())] })
}

impl Reads {
    /// From now on the application lists this collection, and it is covered.
    pub fn cover(&mut self, ctx: &mut Ctx, def: Def) {
        ctx.memory.unreported.report(&def);
        if !self.covered.contains(&def) {
            self.watch(ctx, def.class(), true);
            self.covered.push(def);
        }
    }

    /// The application lists it no longer, or it has a subscription. Returns whether it was covered.
    pub fn uncover(&mut self, ctx: &mut Ctx, def: &Def) -> bool {
        let Some(place) = self.covered.iter().position(|covered| covered == def) else { return false };
        self.covered.swap_remove(place);
        self.watch(ctx, def.class(), false);
        ctx.memory.unreported.report(def);
        true
    }

    /// The covered collections of a class.
    pub fn covered_by(&self, class: &Def) -> Vec<Def> {
        let is_class = matches!(class.kind(), DefKind::Class);
        self.covered.iter().filter(|def| is_class && def.class() == class.class()).cloned().collect()
    }

    /// A collection that is covered no more and has no subscription: the one of its class has ended.
    pub fn bared(&self, ctx: &Ctx) -> Option<Def> {
        self.covered.iter().find(|def| condition(ctx, def).is_none()).cloned()
    }

    /// The documents of the class that are members of a covered collection in the base. Also returns whether these are
    /// all: the data of some documents may still be unread.
    pub fn members(&mut self, ctx: &mut Ctx, def: &Def) -> (Vec<Pk>, bool) {
        let (Some(condition), Some(class)) = (condition(ctx, def), ctx.memory.schema().position(def.class()))
        else {
            return (Vec::new(), false);
        };
        self.go_on_indexing(ctx, class as u16, Vec::new(), &Held::new());
        let indexed = self.indexed_of(class as u16);
        let Some(index) = indexed.indexes.iter().find(|index| *index.column() == condition.column) else {
            return (Vec::new(), false);
        };
        let mut members = Vec::new();
        for (_, _, id) in index.range(&condition.spans[0], None, None) {
            members.extend(ctx.memory.by_id(*id).map(|(key, _)| key.1.clone()));
        }
        (members, indexed.is_complete())
    }
}
