//! Time as sessions and documents see it (R4).
//!
//! The invariant: every commit after a reply's snapshot was opened has a version of at least the reply's
//! `now` - DELTA. Clocks alone cannot guarantee it, because a clock may be set back. So the database stores
//! two numbers. `told` is the highest `now` given to a session, to the second. `highest` is the highest
//! version committed.
//!
//! - A reply's `now` is at most `told` + [`WRITE_MS_MAX`], and `told` is stored before the reply's snapshot
//!   opens.
//! - A write is stamped at or above `told` and `highest`, less the skew.
//!
//! Writes run one after another. A write that began before `told` was stored also ended before it, so the
//! snapshot contains it. A write that began after it is stamped at least `told` - skew, that is `now` -
//! WRITE_MS_MAX - skew. DELTA is at least WRITE_MS_MAX + skew (`Settings::check`).

use escale::limits::VERSION_MAX;
use escale::model::Version;
use escale::{Code, Error, Result};

use super::Engine;
use super::open::put_state;
use crate::provider::State;
use crate::settings::WRITE_MS_MAX;

impl Engine {
    /// The `now` of a reply, to be read before its snapshot is opened.
    pub(super) fn tell_now(&self) -> Result<Version> {
        let floor = |state: &State| state.told.max(state.highest);
        let mut known = floor(&self.provider.read()?.state()?);
        let wanted = self.clock.now_ms().max(known);
        // Stored when half of the allowance is used up: replies in between give their `now` without a write.
        if wanted > known + WRITE_MS_MAX / 2 {
            match self.write_told(wanted) {
                Ok(told) => known = told,
                Err(error) if error.code() == Code::Contention => {
                    tracing::debug!("another write holds the database: an earlier `now` is told");
                }
                // A full disk, for example: stored data can still be read.
                Err(error) => tracing::warn!(%error, "`now` cannot be written down: an earlier one is told"),
            }
        }
        checked(wanted.min(known + WRITE_MS_MAX))
    }

    fn write_told(&self, wanted: Version) -> Result<Version> {
        let mut tx = self.provider.write(self.settings.tell_wait)?;
        let mut state = tx.state()?;
        // Another instance may have written a later one meanwhile.
        state.told = checked(wanted.max(state.highest).max(state.told))?;
        put_state(tx.as_mut(), &mut state)?;
        tx.commit()?;
        // If the database is restored from before this `now`, it must not stamp below it (R8).
        self.remember(&state);
        Ok(state.told)
    }

    /// The version of a write that begins now. With one instance, each write has its own version.
    pub(super) fn stamp(&self, state: &State, at_least: Version) -> Result<Version> {
        let floor = match self.settings.skew_ms {
            0 => state.told.max(state.highest + 1),
            skew => state.told.max(state.highest).saturating_sub(skew),
        };
        checked(self.clock.now_ms().max(floor).max(at_least))
    }
}

fn checked(v: Version) -> Result<Version> {
    if v <= VERSION_MAX {
        Ok(v)
    } else {
        Err(Error::new(Code::ServerError, "the server's clock is beyond what a version can hold"))
    }
}
