//! A leader without a generation: the device takes none, for example because it is full. It leads in memory
//! and writes nothing, since another session may write at the same time. Once its generation has begun, it
//! writes everything, unless another session has written meanwhile.

use super::dispatch::Router;
use crate::error::{Error, Result};
use crate::sync::context::Role;
use crate::sync::role::Next;

impl Router {
    /// Without this, a session that opens on a full device would wait for a leader for ever, without any
    /// message.
    pub fn lead_unfenced(&mut self, seen: u64, error: Error) -> Result<()> {
        if matches!(self.ctx.role, Role::Leader | Role::Deposed) {
            return Ok(());
        }
        let is_another = self.ctx.generation().is_some_and(|own| own < seen);
        if self.ctx.is_following() || is_another {
            if is_another {
                self.demote()?;
            }
            self.tabs.next = Some(Next { generation: seen, is_fenced: false });
            self.tabs.begin_to_lead(&mut self.ctx);
        }
        self.device.refused(&self.ctx, error);
        Ok(())
    }

    /// If no other session has written meanwhile, writes the changes made in memory. Otherwise the state in
    /// storage counts, and the changes are requested or received again.
    pub fn fenced(&mut self, number: u64, found: Result<Vec<Option<Vec<u8>>>>) -> Result<()> {
        let Some(next) = self.tabs.next.filter(|_| number == self.tabs.last_look) else {
            return Ok(());
        };
        let Some(layout) = &mut self.ctx.layout else { return Ok(()) };
        match found {
            Ok(found) if layout.is_as_known(&found) => {
                layout.lead(Some(next.generation));
                self.tabs.next = None;
                self.ctx.role = Role::Leader;
                self.device.commit_now(&self.ctx);
                self.device.served();
                self.tabs.read_inbox(&mut self.ctx, true);
            }
            Ok(_) => self.demote()?,
            Err(error) => {
                self.tabs.next = None;
                self.device.refused(&self.ctx, error);
            }
        }
        Ok(())
    }
}
