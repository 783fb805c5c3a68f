//! Queries within a collection that is not subscribed to, while its class is loaded
//! (docs/decisions/37-queries-within-a-loaded-class.md).

use crate::memory::query::{Column, Predicate, Span};
use crate::model::{Def, DefKind};
use crate::sync::context::Ctx;

/// The condition that the documents of a class satisfy if they are members of this collection. `None` if the def is no
/// collection, is subscribed to itself, or if its class is not loaded.
pub fn condition(ctx: &Ctx, def: &Def) -> Option<Predicate> {
    let is_answered = ctx.memory.collection(def).is_none()
        && ctx.memory.collection(&Def::class_of(def.class())).is_some_and(|class| class.ready);
    membership(ctx, def).filter(|_| is_answered)
}

/// The condition that the members of a collection satisfy; `None` for other defs.
pub fn membership(ctx: &Ctx, def: &Def) -> Option<Predicate> {
    let DefKind::Collection(name, hash) = def.kind() else { return None };
    let class = ctx.memory.schema().class(def.class().as_str()).ok()?;
    let column = Column::members(class.collection(name).ok()?);
    Some(Predicate { column, spans: vec![Span::only(hash.clone())] })
}
