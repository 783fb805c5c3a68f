//! The outbox: the operations that are not over, their overlay, their way to the server and their records.

use super::application::Application;
use super::journal::Journal;
use super::optimistic::Overlay;
use super::refused::amend;
use super::send::Sender;
use super::table::PendingOps;
use super::table::issue::unpin;
use crate::error::Result;
use crate::journal::{OpId, PendingOp};
use crate::memory::DocKey;
use crate::model::Value;
use crate::storage::{JournalAtRest, JournalMark};
use crate::sync::context::Ctx;

/// The parts of the outbox. Each owns its state, and takes the table of operations as an argument.
pub struct Outbox {
    pub table: PendingOps,
    pub overlay: Overlay,
    pub sender: Sender,
    pub journal: Journal,
    pub application: Box<dyn Application>,
    /// Ids of accepted operations that a later epoch of the server does not hold (R8).
    pub lost_by_server: Vec<OpId>,
}

impl Outbox {
    /// The operations in storage.
    pub fn new(at_rest: JournalAtRest, summary: JournalMark, application: Box<dyn Application>) -> Self {
        let mut outbox = Outbox {
            table: PendingOps::default(),
            overlay: Overlay::default(),
            sender: Sender::default(),
            journal: Journal::default(),
            application,
            lost_by_server: Vec::new(),
        };
        outbox.table.summary = summary;
        outbox.restore(at_rest);
        outbox
    }

    /// This session follows: its new operations and actions come after all others, until the leader gives them their
    /// places.
    pub fn follow(&mut self) {
        self.overlay.last_rowid = self.table.places.follow();
    }

    /// This session leads: new operations and actions come after those of the journal. The table has no others.
    pub fn lead(&mut self) {
        let last = self.table.iter().next_back().map_or(0, |op| op.state.order);
        self.table.places.lead(last);
        self.overlay.last_rowid = self.journal.last_rowid();
    }

    /// Issues a refused operation again.
    pub fn amend(&mut self, ctx: &mut Ctx, id: &str, new: OpId, args: Option<Value>) -> Result<()> {
        amend(ctx, &mut self.table, &*self.application, id, new, args)
    }

    /// Whether nothing remains to be written to the journal, or deleted from it.
    pub fn is_clean(&self) -> bool {
        self.table.due.is_clean() && self.journal.is_tidy()
    }

    /// The same, except that records of pending operations may remain to be written.
    pub fn is_removed(&self) -> bool {
        self.table.due.is_removed() && self.journal.is_tidy()
    }

    /// Whether the leader has taken in this operation before.
    pub fn is_taken_in(&self, id: &OpId) -> bool {
        let mut ops = self.table.iter();
        self.table.get(id).is_some()
            || self.journal.ids.contains_key(id.as_str())
            || ops.any(|op| op.state.replaces.contains(id))
    }

    /// A later epoch knows operations up to `seq` only. Those accepted beyond it are lost there (R8); pending
    /// ones are sent again, numbered from there.
    pub fn enter_epoch_with(&mut self, ctx: &mut Ctx, seq: u64) {
        let lost = self.sender.accepted.split_off(&(seq + 1, OpId::new()));
        for (_, id) in lost {
            if let Some(order) = self.table.get(&id).map(|op| op.state.order) {
                let op = self.table.remove(order).expect("listed by its id");
                unpin(ctx, &op);
                self.table.end(op);
            }
            self.lose(id);
        }
        self.table.summary.last_seq = seq;
        // An operation in flight keeps its number until it is sent again: the server may execute it under
        // that number in the new epoch too.
        let shown: Vec<DocKey> = self.table.waiting().flat_map(PendingOp::shown_on).cloned().collect();
        self.table.unshown.note_all(shown);
    }

    /// Whether the session knows anything of this operation. If the server were restored, it would notice
    /// its loss (R8). For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn remembers(&self, id: &OpId) -> bool {
        self.is_taken_in(id) || self.sender.accepted.iter().any(|(_, accepted)| accepted == id)
    }

    /// Ids of accepted operations that a later epoch of the server's database does not hold (R8).
    pub fn lost_by_server(&self) -> &[OpId] {
        &self.lost_by_server
    }
}
