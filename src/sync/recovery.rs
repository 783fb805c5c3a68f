//! Recovery of the device. The session drops a dead handle and opens the store again, first at once and then
//! at growing delays, and continues in memory meanwhile. If the store was wiped in the meantime, the session
//! writes everything that it holds into it.

use super::flush::COMMIT_RETRY_MS;
use super::machine::Machine;
use super::message::{Effect, StorageState};
use crate::error::{Code, Error, Result};
use crate::memory::Content;
use crate::model::SortedSet;
use crate::storage::{Reopened, Verdict};
use crate::store::Failure;

/// The minimum time between two attempts, however good the reasons.
const ATTEMPT_EVERY_MS: u64 = 1_000;

/// The state of the handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Handle {
    #[default]
    Good,
    /// Dead, or suspected to be: not used again.
    Dead,
    /// The store is being opened again.
    Opening,
}

/// The device's handle, and the readings that wait for it.
#[derive(Default)]
pub(super) struct Healing {
    handle: Handle,
    /// Whether the store was opened again since the handle last worked: the next attempt waits.
    tried: bool,
    failures: u32,
    not_before_ms: u64,
    last_attempt_ms: u64,
    /// Readings that wait for the handle.
    held: Vec<Effect>,
    /// Readings that have waited once already: a second failure is reported.
    retried: SortedSet<u64>,
}

impl Healing {
    /// Whether the device must not be used now.
    pub fn is_away(&self) -> bool {
        self.handle != Handle::Good
    }

    /// Whether the first attempt has not failed yet.
    pub fn is_hopeful(&self) -> bool {
        self.handle != Handle::Good && self.failures == 0
    }

    /// When the next attempt is due, if one is.
    pub fn due(&self) -> Option<u64> {
        (self.handle == Handle::Dead).then_some(self.not_before_ms)
    }

    /// The device has carried out a write.
    pub fn served(&mut self) {
        self.tried = false;
        self.failures = 0;
    }

    /// The device has answered a reading.
    pub fn answered(&mut self, ticket: u64) {
        self.retried.remove(&ticket);
        self.tried = false;
    }

    fn wait(&mut self, now: u64) {
        self.handle = Handle::Dead;
        let delay = (COMMIT_RETRY_MS.0 << self.failures.min(10)).min(COMMIT_RETRY_MS.1);
        self.not_before_ms = now + delay;
        self.failures += 1;
    }
}

impl Machine {
    /// Handles an error of the device. If it concerns the handle, the store is opened again, the first time
    /// at once.
    pub(super) fn device_failed(&mut self, error: &Error) {
        if Failure::of(error) != Failure::Handle || self.healing.is_away() {
            return;
        }
        if self.healing.tried {
            self.healing.wait(self.ctx.clock.mono_ms);
        } else {
            self.healing.handle = Handle::Dead;
            self.healing.not_before_ms = self.ctx.clock.mono_ms;
        }
    }

    /// Handles a failed reading. If the handle is dead, the reading waits for the next handle, once. Returns
    /// whether it waits.
    pub(super) fn holds_back(&mut self, ticket: u64, error: &Error) -> bool {
        if Failure::of(error) != Failure::Handle || !self.healing.retried.insert(ticket) {
            self.healing.retried.remove(&ticket);
            return false;
        }
        self.device_failed(error);
        let again = self.reads.again(ticket, self.ctx.layout.as_ref());
        if again.is_none() || self.healing.not_before_ms > self.ctx.clock.mono_ms {
            self.healing.retried.remove(&ticket);
            return false;
        }
        self.healing.held.extend(again);
        true
    }

    /// There is a reason to try again soon.
    pub(super) fn try_device_soon(&mut self) {
        let soon = self.ctx.clock.mono_ms.max(self.healing.last_attempt_ms + ATTEMPT_EVERY_MS);
        self.healing.not_before_ms = self.healing.not_before_ms.min(soon);
        self.commit_not_before_ms = self.commit_not_before_ms.min(soon);
    }

    /// Opens the store again if that is due. The batch in flight must have ended: no handle has two users.
    pub(super) fn advance_healing(&mut self, now: u64) {
        let Some(layout) = self.ctx.layout.as_ref().filter(|_| !self.is_committing()) else { return };
        if self.healing.due().is_some_and(|due| due <= now) {
            self.healing.handle = Handle::Opening;
            self.healing.tried = true;
            self.healing.last_attempt_ms = now;
            let records = self.writes.ops.values().filter_map(|op| op.record);
            self.ctx.effects.push(Effect::Reopen(layout.expected(records)));
        }
    }

    /// Readings requested while there is no handle wait too.
    pub(super) fn hold_readings(&mut self) {
        if !self.healing.is_away() {
            return;
        }
        let is_reading =
            |effect: &Effect| matches!(effect, Effect::ReadPages { .. } | Effect::ReadJournal { .. });
        let (readings, others) = std::mem::take(&mut self.ctx.effects).into_iter().partition(is_reading);
        self.ctx.effects = others;
        self.healing.held.extend::<Vec<_>>(readings);
    }

    /// The store was opened again, or opening it failed.
    pub(super) fn reopened(&mut self, result: Result<Reopened>) -> Result<()> {
        if self.healing.handle != Handle::Opening {
            return Ok(());
        }
        let foreign =
            || Error::new(Code::StoreInUse, "somebody else made another store in the place of this one");
        let verdict = match (&mut self.ctx.layout, result) {
            (Some(layout), Ok(found)) => match (layout.judge(&found), found.header) {
                (Verdict::Foreign, _) => Err(foreign()),
                // The leader has written since, and it repairs any damage.
                _ if self.tabs.is_following => Ok(Verdict::Same),
                // K may have been wrapped again by a write that was never confirmed.
                (Verdict::Same, Some(header)) => {
                    layout.set_header(header);
                    Ok(Verdict::Same)
                }
                (verdict, _) => Ok(verdict),
            },
            (_, Err(error)) => Err(error),
            (None, _) => return Ok(()),
        };
        match verdict {
            Ok(verdict) => {
                self.healing.handle = Handle::Good;
                // The device can take the changes that are due now.
                self.commit_not_before_ms = self.ctx.clock.mono_ms;
                if verdict == Verdict::Anew {
                    self.begin_anew();
                } else if self.ctx.memory.is_clean() && self.writes.journal.is_clean() {
                    self.storage = StorageState::Ok;
                    self.storage_error = None;
                }
                self.ctx.effects.append(&mut self.healing.held);
                Ok(())
            }
            Err(error) => {
                let is_final = Failure::of(&error) == Failure::TooNew;
                self.healing.wait(self.ctx.clock.mono_ms);
                if is_final {
                    // A newer version of the code owns the store from now on: this session leaves it alone.
                    self.healing.not_before_ms = u64::MAX;
                }
                self.storage = StorageState::Memory;
                self.storage_error = Some(error.clone());
                self.fail_readings(&error)
            }
        }
    }

    /// Fails the waiting readings with this error, so that nothing waits for ever.
    fn fail_readings(&mut self, error: &Error) -> Result<()> {
        for effect in std::mem::take(&mut self.healing.held) {
            match effect {
                Effect::ReadPages { ticket, .. } => self.pages_read(ticket, Err(error.clone()))?,
                Effect::ReadJournal { ticket, .. } => self.journal_read(ticket, Err(error.clone()))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The store is empty, or has lost records. The session writes everything that it holds into it, and
    /// requests the documents whose data was only there.
    fn begin_anew(&mut self) {
        // The data in cached pages is still in memory.
        let at_rest = self.ctx.memory.documents().filter(|(_, d)| matches!(d.content, Content::AtRest));
        let ids: Vec<u32> = at_rest.map(|(_, document)| document.id).collect();
        for id in ids {
            self.reload_cached(id);
        }
        if let Some(layout) = &mut self.ctx.layout {
            layout.begin_anew();
        }
        let lost = self.ctx.memory.unsettle();
        self.reads.forget_pages(lost);
        self.writes.unsettle();
        self.pull.repair(&mut self.ctx, &self.reads.lost);
        // The inbox is lost too. The backup database may have its requests.
        if self.generation().is_some() {
            self.read_inbox(true);
        }
    }
}
