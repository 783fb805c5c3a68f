//! The documents that the application sees: those that have not expired, with the effects of pending
//! operations.

use crate::memory::tree::{asked_v, is_hidden};
use crate::memory::{Content, DocKey, Document, Memory, PageRef, take_touched};
use crate::model::{Def, DefKind, Name, Pk, order};
use crate::sync::context::Ctx;

/// The ids of a def's documents that the application sees, with those of one page next to each other; whether
/// the def has been loaded whole once; and its `v`. Of a def that is not subscribed to, the document that it names, if
/// another def holds that.
pub fn list(ctx: &Ctx, def: &Def) -> Option<(Vec<u32>, bool, u64)> {
    members(ctx, def).or_else(|| held(ctx, def).map(|id| (vec![id], false, 0)))
}

fn members(ctx: &Ctx, def: &Def) -> Option<(Vec<u32>, bool, u64)> {
    let collection = ctx.memory.collection(def)?;
    let now = ctx.life_now();
    let position = ctx.memory.schema().position(def.class())? as u16;
    // The overlay decides the membership of documents with pending operations.
    let held = collection.set.keys().map(|pk| (position, pk.clone()));
    let documents = held.filter(|key| ctx.memory.shown(key).is_none());
    let documents = documents.filter_map(|key| ctx.memory.document(&key));
    let mut placed: Vec<_> =
        documents.filter(|d| is_seen(&ctx.memory, d, now)).map(|d| (d.slot, d.id)).collect();
    let shown = ctx.memory.all_shown().filter(|(_, shown)| shown.defs.binary_search(def).is_ok());
    placed.extend(shown.filter(|(_, shown)| shown.is_visible(now)).map(|(_, shown)| (None, shown.id)));
    Some((in_page_order(placed), collection.ready, asked_v(&ctx.memory, def)))
}

/// The changes of a def since a view asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The ids of the members that changed, or of all members if `left` is `None`.
    pub ids: Vec<u32>,
    /// Other ids of the documents that changed: a view shows them no more. Those that name nothing are not among them.
    pub left: Option<Vec<u32>>,
}

/// The changes of a def since the last call; all members if `all` is set, or if too much has changed. `None` if there is no
/// subscription.
pub fn changes(ctx: &mut Ctx, def: &Def, all: bool) -> Option<Changes> {
    let touched = take_touched(&mut ctx.memory, def);
    let Some(touched) = touched.filter(|_| !all) else {
        return members(ctx, def).map(|(ids, ..)| Changes { ids, left: None });
    };
    let now = ctx.life_now();
    let position = ctx.memory.schema().position(def.class())? as u16;
    let (mut ids, mut left) = (Vec::new(), Vec::new());
    for pk in order::set_of(touched) {
        let key = (position, pk);
        let document = ctx.memory.document(&key);
        let shown = ctx.memory.shown(&key);
        let id = match shown {
            Some(shown) => Some(shown.id).filter(|_| shown.is_visible(now)),
            None => {
                document.filter(|document| is_seen(&ctx.memory, document, now)).map(|document| document.id)
            }
        };
        let id = id.filter(|_| is_member(&ctx.memory, &key, def));
        ids.extend(id);
        let all = document.map(|document| document.id).into_iter().chain(shown.map(|shown| shown.id));
        left.extend(all.filter(|other| Some(*other) != id));
    }
    Some(Changes { ids: listed(&ctx.memory, ids.into_iter()), left: Some(left) })
}

/// Whether the application sees a document that has no overlay. One that only an operation retains may be deleted.
fn is_seen(memory: &Memory, document: &Document, now_ms: u64) -> bool {
    !document.defs.is_empty() && !document.is_expired(now_ms) && !is_hidden(memory, document)
}

/// The id of a held document that has not expired.
pub fn find(ctx: &Ctx, class: &Name, pk: &Pk) -> Option<u32> {
    let key = ctx.memory.doc_key(class, pk)?;
    if let Some(shown) = ctx.memory.shown(&key) {
        return shown.is_visible(ctx.life_now()).then_some(shown.id);
    }
    let document = ctx.memory.document(&key)?;
    is_seen(&ctx.memory, document, ctx.life_now()).then_some(document.id)
}

/// The id of the document that a def names by its pk, if the application sees it and a def holds it: this one or another.
pub fn held(ctx: &Ctx, def: &Def) -> Option<u32> {
    let DefKind::Document(pk) = def.kind() else { return None };
    // Nobody could subscribe to some, such as a single item of the clock `sequence`.
    ctx.memory.schema().check_def(def).ok()?;
    let key = ctx.memory.doc_key(def.class(), pk)?;
    // One that only an operation retains is gone once that is over.
    ctx.memory.document(&key).filter(|document| !document.defs.is_empty())?;
    find(ctx, def.class(), pk)
}

/// The key of the document that the application sees under that id at that time, if it does.
pub(super) fn seen(memory: &Memory, id: u32, now_ms: u64) -> Option<&DocKey> {
    if let Some((key, document)) = memory.by_id(id) {
        let is_lost = matches!(document.content, Content::Lost);
        let is_seen = is_seen(memory, document, now_ms) && !is_lost && memory.shown(key).is_none();
        return is_seen.then_some(key);
    }
    memory.shown_by_id(id).filter(|(_, shown)| shown.is_visible(now_ms)).map(|(key, _)| key)
}

/// The key of the document that has this id, in the base or with its overlay.
pub(super) fn key_of(memory: &Memory, id: u32) -> Option<&DocKey> {
    memory.by_id(id).map(|(key, _)| key).or_else(|| memory.shown_by_id(id).map(|(key, _)| key))
}

/// Whether the application sees the document as a member of that def.
pub(super) fn is_member(memory: &Memory, key: &DocKey, def: &Def) -> bool {
    match memory.shown(key) {
        Some(shown) => shown.defs.binary_search(def).is_ok(),
        None => memory.collection(def).is_some_and(|collection| collection.set.member(&key.1).is_some()),
    }
}

/// The ids, with those of one page next to each other.
pub(super) fn listed(memory: &Memory, ids: impl Iterator<Item = u32>) -> Vec<u32> {
    in_page_order(ids.map(|id| (memory.by_id(id).and_then(|(_, document)| document.slot), id)).collect())
}

/// The ids, with those of one page next to each other: a caller that reads them in pieces reads each page once.
fn in_page_order(mut placed: Vec<(Option<PageRef>, u32)>) -> Vec<u32> {
    order::sort(&mut placed);
    placed.into_iter().map(|(_, id)| id).collect()
}
