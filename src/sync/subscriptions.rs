//! Begins and ends subscriptions, for the application and for the other sessions of the store.

use super::machine::Machine;
use super::outbox;
use crate::error::Result;
use crate::model::Def;

/// The commands that a follower remembers. A leader carries requests out within a second: only the last few
/// can matter to a session that begins to lead.
const COMMANDS_MAX: usize = 1_000;

impl Machine {
    /// Begins a subscription. If there was none, its documents are pulled.
    pub(super) fn subscribe(&mut self, def: Def) -> Result<()> {
        if self.ctx.memory.subscribe(&def)? {
            outbox::show_again(&mut self.ctx, &mut self.writes.table, &def);
            self.pull.subscribed(def);
        }
        Ok(())
    }

    /// Ends a subscription, and forgets all that was due for it.
    pub(super) fn unsubscribe(&mut self, def: &Def) {
        self.pull.unsubscribed(def);
        self.ctx.memory.unsubscribe(def);
        outbox::await_no_more(&mut self.ctx, &mut self.writes.table, def);
        outbox::show_again(&mut self.ctx, &mut self.writes.table, def);
        if self.has_nothing_to_do() {
            self.pull.rest(&mut self.ctx);
        }
    }

    /// The application of this session has given a command about the def. Earlier requests about it, which may
    /// still be in the inbox, no longer count.
    pub(super) fn commanded(&mut self, def: &Def) {
        let stamp = self.next_stamp();
        self.tabs.commanded.insert(def.clone(), stamp);
        if self.tabs.commanded.len() > COMMANDS_MAX {
            let oldest = self.tabs.commanded.iter().min_by_key(|(_, stamp)| **stamp);
            if let Some(oldest) = oldest.map(|(def, _)| def.clone()) {
                self.tabs.commanded.remove(&oldest);
            }
        }
    }

    /// A stamp of this session: the time, and higher than all its earlier ones.
    pub(super) fn next_stamp(&mut self) -> u64 {
        self.tabs.last_stamp = self.ctx.clock.wall_ms.max(self.tabs.last_stamp + 1);
        self.tabs.last_stamp
    }
}
