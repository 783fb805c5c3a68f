//! The leader's knowledge of the inbox: which requests it carries out next, and which it has fulfilled.

use super::leader::Leader;
use super::state::Tabs;
use crate::journal::{Change, Issued, Request, Wanted};
use crate::model::{Name, Pk, order};
use crate::store::RecordKey;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, TabEffect};

impl Tabs {
    /// `with_copies` if the store may lack requests that are in the backup database: this session begins to
    /// lead, or the store was made from scratch.
    pub fn read_inbox(&mut self, ctx: &mut Ctx, with_copies: bool) {
        if self.is_reading_inbox {
            let again = &mut self.reads_inbox_again;
            *again = Some(with_copies || *again == Some(true));
            return;
        }
        self.is_reading_inbox = true;
        ctx.effects.push(Effect::Tab(TabEffect::ReadInbox { with_copies }));
    }
}

impl Leader {
    /// The requests to carry out: those that waited, and then the new ones in their order. Commands that this session's
    /// application has given since replace earlier ones.
    pub fn take_requests(
        &mut self,
        ctx: &mut Ctx,
        tabs: &Tabs,
        found: Vec<(RecordKey, Vec<u8>)>,
    ) -> Vec<(Option<RecordKey>, Wanted)> {
        let Some(layout) = &ctx.layout else { return Vec::new() };
        let mut requests: Vec<(RecordKey, Request)> = Vec::new();
        for (key, sealed) in found {
            if !layout.is_request(&key) || !self.met.insert(key) {
                continue;
            }
            match layout.open_request(key, &sealed) {
                Ok(request) => requests.push((key, request)),
                // The session that made the request keeps showing it as not accepted.
                Err(error) => {
                    ctx.errors.report(error);
                    self.done.push(key);
                }
            }
        }
        order::sort_by_key(&mut requests, |(key, request)| (request.stamp, *key));
        let mut taken = std::mem::take(&mut self.deferred);
        for (key, request) in requests {
            if let Wanted::Subscribe(def) | Wanted::Unsubscribe(def) = &request.wanted
                && tabs.commanded.get(def).is_some_and(|own| request.stamp < *own)
            {
                self.done.push(key);
                ctx.memory.dirty.restate(def);
                continue;
            }
            taken.push((Some(key), request.wanted));
        }
        taken
    }

    /// Another release of the application made the request, and this session's schema does not know its class or
    /// collection. It rests as it is, until a session leads that understands it.
    pub fn hold(&mut self, tabs: &mut Tabs, key: Option<RecordKey>, wanted: Wanted) {
        self.steps_down |= key.is_some_and(|key| tabs.passed_on.insert(key));
        self.deferred.push((key, wanted));
    }

    /// Whether a request that waits comes first: it concerns one of the documents, a parent of one, or an operation
    /// that this one names.
    pub fn is_behind_deferred(&self, ctx: &Ctx, wanted: &Issued, changes: &[Change]) -> bool {
        if self.deferred.is_empty() {
            return false;
        }
        let trees = changes.iter().filter_map(|change| change.tree.as_ref());
        let mut keys: Vec<(Name, Pk)> =
            trees.map(|tree| (ctx.memory.class_name(tree), tree.1.clone())).collect();
        keys.extend(wanted.touches.iter().cloned());
        let names = |id: &str| changes.iter().any(|change| change.expects(id));
        self.deferred.iter().any(|(_, other)| other.blocks(wanted, &keys, names))
    }
}
