//! Leading where the device takes no generation, as a full one does not: in memory, writing nothing, for another session may
//! write at the same time. Once a generation has begun, all of it is written, unless somebody has written meanwhile.

use super::machine::Machine;
use crate::error::{Error, Result};

impl Machine {
    /// Whether it is to lead, and the device has not taken its generation yet.
    pub fn is_unfenced(&self) -> bool {
        self.tabs.is_unfenced
    }

    /// A full device, say: whoever opens there would wait for a leader for ever, without a word.
    pub(super) fn lead_unfenced(&mut self, seen: u64, error: Error) -> Result<()> {
        if !self.tabs.is_following && !self.tabs.is_unfenced {
            return Ok(());
        }
        let is_another = self.generation().is_some_and(|own| own < seen);
        if self.tabs.is_following || is_another {
            if is_another {
                self.demote()?;
            }
            self.tabs.next = Some(seen);
            self.tabs.is_unfenced = true;
            self.begin_to_lead();
        }
        self.device_refused(error);
        Ok(())
    }

    pub(super) fn leads_unfenced(&self) -> bool {
        self.tabs.is_unfenced && !self.tabs.is_following
    }

    /// The generation has begun after all: nobody else writes from now on, and it is looked at whether somebody did so far.
    pub(super) fn look_whether_fenced(&mut self, generation: u64) {
        self.tabs.next = Some(generation);
        self.look_at_log();
    }

    /// Where nobody has written meanwhile, what was done in memory is written now; else what rests counts, and the rest comes
    /// again.
    pub(super) fn fenced(&mut self, number: u64, found: Result<Vec<Option<Vec<u8>>>>) -> Result<()> {
        let Some(generation) = self.tabs.next.filter(|_| number == self.tabs.last_look) else {
            return Ok(());
        };
        let Some(layout) = &mut self.layout else { return Ok(()) };
        match found {
            Ok(found) if layout.is_as_known(&found) => {
                layout.lead(Some(generation));
                self.tabs.next = None;
                self.tabs.is_unfenced = false;
                self.commit_not_before_ms = self.clock.mono_ms;
                self.device_served();
                self.read_inbox(true);
            }
            Ok(_) => self.demote()?,
            Err(error) => {
                self.tabs.next = None;
                self.device_refused(error);
            }
        }
        Ok(())
    }
}
