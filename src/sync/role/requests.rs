//! The leader's knowledge of the inbox: which requests it has fulfilled.

use super::state::Tabs;
use crate::journal::{OpId, Wanted};
use crate::store::RecordKey;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, TabEffect};

impl Tabs {
    /// The fulfilled requests, to be deleted with the next batch.
    pub fn take_done(&mut self) -> Vec<RecordKey> {
        std::mem::take(&mut self.done)
    }

    /// Restores the list: the batch was not written.
    pub fn put_back_done(&mut self, done: Vec<RecordKey>) {
        self.done.extend(done);
    }

    /// Another release of the application made the request, and this session's schema does not know its class or
    /// collection. It rests as it is, until a session leads that understands it.
    pub fn hold(&mut self, key: Option<RecordKey>, wanted: Wanted) {
        self.steps_down |= key.is_some_and(|key| self.passed_on.insert(key));
        self.deferred.push((key, wanted));
    }

    /// The operation has a journal record, and no longer needs its request.
    pub fn is_written(&mut self, id: &OpId) {
        self.from_inbox.remove(id);
    }

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
