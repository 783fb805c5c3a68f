//! Sweeps of the device's journal, each on the journal that the previous one left.

use super::journal::WaitingSweep;
use super::parts::Outbox;
use crate::journal::{ActionMeta, Protect, Retention, iso8601, plan};
use crate::model::{SortedSet, order};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, Swept};

impl Outbox {
    /// Requests a sweep of the device's journal: reports the actions that the rule removes, and removes them if `apply` is
    /// set. Actions that the server has not accepted stay, regardless of their type.
    pub fn sweep(&mut self, ticket: u64, retention: Retention, apply: bool) {
        self.journal.sweeps.push_back((ticket, retention, apply));
    }

    /// The next waiting sweep, once the actions of the previous one are gone from the device.
    pub fn next_sweep(&mut self) -> Option<WaitingSweep> {
        let is_free = !self.journal.is_sweeping && self.is_removed();
        if is_free { self.journal.sweeps.pop_front() } else { None }
    }

    /// Plans a sweep and reports its result; if `apply` is set, begins the removal. Returns the records of
    /// which some actions remain, and the result, to be reported once it is done.
    pub fn plan_sweep(
        &mut self,
        ctx: &mut Ctx,
        ticket: u64,
        retention: &Retention,
        apply: bool,
    ) -> Option<(Vec<u64>, Swept)> {
        let records = self.journal.records.values();
        let rows: Vec<ActionMeta> = records
            .flat_map(|record| record.actions.iter().map(|action| (record.pending, action)))
            .map(|(pending, action)| ActionMeta {
                rowid: action.rowid,
                goblin: format!("{}@{}", action.class, action.pk),
                kind: Some(action.kind),
                // Until its operation is over, an action is part of the outbox.
                accepted: action.accepted && !pending,
                timestamp: iso8601(action.at),
            })
            .collect();
        let rowids = match plan(&rows, retention, Protect::Unaccepted) {
            Ok(rowids) => rowids,
            Err(error) => {
                ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
                return None;
            }
        };
        let swept = Swept { rowids };
        if !apply {
            ctx.effects.push(Effect::Swept { ticket, swept: Ok(swept) });
            return None;
        }
        let removed: SortedSet<i64> = order::set_of(swept.rowids.iter().copied());
        let mut partly = Vec::new();
        for (number, record) in &self.journal.records {
            let gone = record.actions.iter().filter(|action| removed.contains(&action.rowid)).count();
            // A record without actions only says that its operation was accepted, or lost.
            if record.pending || (gone == 0 && (record.lost || !record.actions.is_empty())) {
                continue;
            }
            if gone == record.actions.len() && !record.lost {
                self.table.due.dropped.insert(*number);
            } else {
                partly.push(*number);
            }
        }
        self.journal.is_sweeping = true;
        Some((partly, swept))
    }
}
