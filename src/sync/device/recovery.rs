//! Recovery of the device. The session drops a dead handle and opens the store again, first at once and then
//! at growing delays, and continues in memory meanwhile.

use super::flush::{Attempts, Device};
use crate::error::{Code, Error, Result};
use crate::model::SortedSet;
use crate::storage::{Reopened, Verdict};
use crate::store::Failure;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, StorageState};

/// The minimum time between two attempts, however good the reasons.
const ATTEMPT_EVERY_MS: u64 = 1_000;

/// The phase of the handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Good,
    /// Dead, or suspected to be: not used again.
    Dead,
    /// The store is being opened again.
    Opening(Asker),
}

/// Who has the store opened again: whether it follows, and the generation that it leads. It expects to find the records that
/// it knows in that role.
type Asker = (bool, Option<u64>);

/// The device's handle, and the readings that wait for it.
#[derive(Default)]
pub struct Handle {
    phase: Phase,
    /// Whether the store was opened again since the handle last worked: the next attempt waits.
    tried: bool,
    attempts: Attempts,
    last_attempt_ms: u64,
    /// Readings that wait for the handle.
    held: Vec<Effect>,
    /// Readings that have waited once already: a second failure is reported.
    retried: SortedSet<u64>,
}

/// The result of opening the store again.
pub enum Reopening {
    /// The handle works, and the store is as it was.
    Same,
    /// The store is empty, or has lost records.
    Again,
    /// Opening it failed. These readings no longer wait.
    Failed(Vec<Effect>, Error),
}

impl Handle {
    /// Whether the device must not be used now.
    pub fn is_away(&self) -> bool {
        self.phase != Phase::Good
    }

    /// The device has carried out a write.
    pub fn served(&mut self) {
        self.tried = false;
        self.attempts.failures = 0;
    }

    fn wait(&mut self, now: u64) {
        self.phase = Phase::Dead;
        self.attempts.failed(now);
    }
}

impl Device {
    /// Whether there is no handle to use now.
    pub fn is_away(&self) -> bool {
        self.handle.is_away()
    }

    /// Whether the first attempt to get another handle has not failed yet.
    pub fn is_hopeful(&self) -> bool {
        self.handle.is_away() && self.handle.attempts.failures == 0
    }

    /// When the next attempt is due, if one is.
    pub fn reopens_at_ms(&self) -> Option<u64> {
        (self.handle.phase == Phase::Dead).then_some(self.handle.attempts.not_before_ms)
    }

    /// Handles an error of the device. If it concerns the handle, the store is opened again, the first time
    /// at once.
    pub fn failed(&mut self, ctx: &Ctx, error: &Error) {
        if Failure::of(error) != Failure::Handle || self.handle.is_away() {
            return;
        }
        if self.handle.tried {
            self.handle.wait(ctx.clock.mono_ms);
        } else {
            // The time of the last attempt has passed: the next one is due at once.
            self.handle.phase = Phase::Dead;
        }
    }

    /// The device has answered a reading.
    pub fn answered(&mut self, ticket: u64) {
        self.handle.retried.remove(&ticket);
        self.handle.tried = false;
    }

    /// Handles a failed reading, which `again` repeats. If the handle is dead, the reading waits for the next
    /// handle, once. Returns whether it waits.
    pub fn holds_back(&mut self, ctx: &Ctx, ticket: u64, error: &Error, again: Option<Effect>) -> bool {
        let has_waited = self.handle.retried.remove(&ticket);
        if has_waited || Failure::of(error) != Failure::Handle {
            return false;
        }
        self.failed(ctx, error);
        if again.is_none() || self.handle.attempts.not_before_ms > ctx.clock.mono_ms {
            return false;
        }
        self.handle.retried.insert(ticket);
        self.handle.held.extend(again);
        true
    }

    /// There is a reason to try again soon.
    pub fn try_soon(&mut self, ctx: &Ctx) {
        let soon = ctx.clock.mono_ms.max(self.handle.last_attempt_ms + ATTEMPT_EVERY_MS);
        self.handle.attempts.not_before_ms = self.handle.attempts.not_before_ms.min(soon);
        self.commits.not_before_ms = self.commits.not_before_ms.min(soon);
    }

    /// Opens the store again if that is due. `records` are those of pending operations.
    pub fn advance(&mut self, ctx: &mut Ctx, records: impl Iterator<Item = u64>) {
        let now = ctx.clock.mono_ms;
        let Some(layout) = &ctx.layout else { return };
        if self.reopens_at_ms().is_some_and(|due| due <= now) {
            self.handle.phase = Phase::Opening((ctx.is_following(), ctx.generation()));
            self.handle.tried = true;
            self.handle.last_attempt_ms = now;
            ctx.effects.push(Effect::Reopen(layout.expected(records)));
        }
    }

    /// Readings requested while there is no handle wait too.
    pub fn hold_readings(&mut self, ctx: &mut Ctx) {
        if !self.handle.is_away() {
            return;
        }
        let is_reading =
            |effect: &Effect| matches!(effect, Effect::ReadPages { .. } | Effect::ReadJournal { .. });
        let (readings, others) = std::mem::take(&mut ctx.effects).into_iter().partition(is_reading);
        ctx.effects = others;
        self.handle.held.extend::<Vec<_>>(readings);
    }

    /// The store was opened again, or opening it failed. `is_clean` if no change waits to be written. Returns
    /// `None` if nobody waited for it.
    pub fn reopened(&mut self, ctx: &mut Ctx, result: Result<Reopened>, is_clean: bool) -> Option<Reopening> {
        let Phase::Opening(asker) = self.handle.phase else { return None };
        if result.is_ok() && !ctx.is_following() && asker != (false, ctx.generation()) {
            // It leads since then, and others have written meanwhile: its expectations of then prove nothing.
            self.handle.phase = Phase::Dead;
            return None;
        }
        match judge(ctx, result)? {
            Ok(verdict) => {
                self.handle.phase = Phase::Good;
                self.commit_now(ctx);
                if verdict == Verdict::Again {
                    return Some(Reopening::Again);
                }
                if is_clean {
                    self.is_well();
                }
                Some(Reopening::Same)
            }
            Err(error) => {
                self.handle.wait(ctx.clock.mono_ms);
                if Failure::of(&error) == Failure::TooNew {
                    // A newer version of the code owns the store from now on: this session leaves it alone.
                    self.handle.attempts.not_before_ms = u64::MAX;
                }
                self.is_refusing(StorageState::Memory, error.clone());
                Some(Reopening::Failed(std::mem::take(&mut self.handle.held), error))
            }
        }
    }

    /// Repeats the readings that waited for the handle.
    pub fn release_readings(&mut self, ctx: &mut Ctx) {
        ctx.effects.append(&mut self.handle.held);
    }
}

/// Whether the store that was opened again is the one that this session knows; `None` in incognito.
fn judge(ctx: &mut Ctx, result: Result<Reopened>) -> Option<Result<Verdict>> {
    let found = match result {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let is_following = ctx.is_following();
    let layout = ctx.layout.as_mut()?;
    Some(match (layout.judge(&found), found.header) {
        (Verdict::Foreign, _) => {
            let detail = "somebody else made another store in the place of this one";
            Err(Error::new(Code::StoreInUse, detail))
        }
        // The leader has written since, and it repairs any damage.
        _ if is_following => Ok(Verdict::Same),
        // K may have been wrapped again by a write that was never confirmed.
        (Verdict::Same, Some(header)) => {
            layout.set_header(header);
            Ok(Verdict::Same)
        }
        (verdict, _) => Ok(verdict),
    })
}
