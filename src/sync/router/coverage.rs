//! The subscriptions that covered collections become (docs/decisions/37-a-loaded-class-covers-its-collections.md).

use super::dispatch::Router;
use crate::error::Result;
use crate::memory::query::take_over;
use crate::model::Def;
use crate::sync::message::Event;
use crate::sync::outbox;

/// The subscription to a class is about to end. The collections that it covers become subscriptions, with the documents
/// that they have.
pub fn end_coverage(router: &mut Router, class: &Def) -> Result<()> {
    for def in router.reads.covered_by(class) {
        let (members, is_all) = router.reads.members(&mut router.ctx, &def);
        take_over(&mut router.ctx.memory, class, &def, members, is_all)?;
        router.reads.uncover(&mut router.ctx, &def);
        router.tabs.commanded(&mut router.ctx, &def);
        outbox::show_again(&mut router.ctx, &mut router.outbox.table, &def);
        router.pull.subscribed(def);
    }
    Ok(())
}

/// Collections that were covered when another session ended the subscription of their class: they begin as new subscriptions.
pub fn subscribe_bared(router: &mut Router) -> Result<()> {
    while let Some(def) = router.reads.bared(&router.ctx) {
        router.reads.uncover(&mut router.ctx, &def);
        if let Some(event) = router.take_as_tab(Event::Subscribe(def))? {
            router.dispatch(event)?;
        }
    }
    Ok(())
}
