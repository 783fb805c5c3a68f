//! Time as sessions and documents see it (R4).
//!
//! What must hold: whatever commits after a reply's snapshot was opened has a version of at least the reply's
//! `now` - DELTA. Clocks alone cannot promise it: one of them may be set back. So the database holds `told`, the
//! highest `now` given to a session, to the second, and `highest`, the highest version committed:
//!
//! - a reply's `now` is at most `told` + [`WRITE_MS_MAX`], with `told` written down before its snapshot opens;
//! - a write is stamped at or above `told` and `highest`, less the skew.
//!
//! Writes come one after another. One that began before `told` was written down ended before it too, so the
//! snapshot holds it; one that began after is stamped at least `told` - skew, that is `now` - WRITE_MS_MAX - skew,
//! and DELTA is at least that much (`Settings::check`).

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
        // Half of the way: replies in between tell their `now` without a write.
        if wanted > known + WRITE_MS_MAX / 2 {
            match self.write_told(wanted) {
                Ok(told) => known = told,
                Err(error) if error.code() == Code::Contention => {
                    tracing::debug!("another write holds the database: an earlier `now` is told");
                }
                // A full disk, say: what is there can still be read.
                Err(error) => tracing::warn!(%error, "`now` cannot be written down: an earlier one is told"),
            }
        }
        checked(wanted.min(known + WRITE_MS_MAX))
    }

    fn write_told(&self, wanted: Version) -> Result<Version> {
        let mut tx = self.provider.write(self.settings.tell_wait)?;
        let mut state = tx.state()?;
        let told = wanted.max(state.highest);
        if told > state.told {
            state.told = checked(told)?;
            put_state(tx.as_mut(), &mut state)?;
            tx.commit()?;
            // A database put back from before this `now` must not stamp below it (R8).
            self.remember(&state);
        }
        Ok(told.max(state.told))
    }

    /// The version of a write that begins now. With one instance each has a version of its own.
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
