//! The outbox: the operations that are not over, their overlay, their way to the server and their records.

use super::application::Application;
use super::journal::Journal;
use super::optimistic::Overlay;
use super::send::Sender;
use super::table::{Table, unpin};
use crate::journal::OpId;
use crate::storage::{JournalAtRest, JournalMark};
use crate::sync::context::Ctx;

/// The parts of the outbox. Each owns its state, and takes the table of operations as an argument.
pub struct Outbox {
    pub table: Table,
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
            table: Table::new(summary),
            overlay: Overlay::default(),
            sender: Sender::default(),
            journal: Journal::default(),
            application,
            lost_by_server: Vec::new(),
        };
        outbox.restore(at_rest);
        outbox
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
        let mut ops = self.table.ops.values();
        self.table.by_id.contains_key(id)
            || self.journal.ids.contains_key(id.as_str())
            || ops.any(|op| op.state.replaces.contains(id))
    }

    /// A later epoch knows operations up to `seq` only. Those accepted beyond it are lost there (R8); pending
    /// ones are sent again, numbered from there.
    pub fn enter_epoch_with(&mut self, ctx: &mut Ctx, seq: u64) {
        let lost = self.sender.accepted.split_off(&(seq + 1, OpId::new()));
        for (_, id) in lost {
            if let Some(order) = self.table.by_id.get(&id).copied() {
                let op = self.table.remove(order).expect("listed by its id");
                unpin(ctx, &op);
                self.table.end(op);
            }
            self.lose(id);
        }
        self.table.summary.last_seq = seq;
        // An operation in flight keeps its number until it is sent again: the server may execute it under
        // that number in the new epoch too.
        for order in &self.table.waiting {
            self.table.stale.extend(self.table.ops[order].shown_on().cloned());
        }
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
