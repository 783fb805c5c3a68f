//! Defs whose part the server refused temporarily. Each has a delay of its own, so that it delays no other.

use crate::crypto::Random;
use crate::error::Result;
use crate::model::{Def, SortedMap};
use crate::sync::backoff::Backoff;

/// When a def is requested again.
#[derive(Debug, Default)]
struct Retry {
    backoff: Backoff,
    /// `None` once it is requested.
    due_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Retries {
    by_def: SortedMap<Def, Retry>,
}

impl Retries {
    /// A part was refused temporarily.
    pub fn add(&mut self, def: &Def, now_ms: u64, random: &mut dyn Random) -> Result<()> {
        let retry = self.by_def.entry(def.clone()).or_default();
        retry.due_ms = Some(now_ms + retry.backoff.next_ms(random)?);
        Ok(())
    }

    /// A def that may have changed is requested at that time.
    pub fn put_off(&mut self, def: Def, due_ms: u64) {
        self.by_def.entry(def).or_default().due_ms = Some(due_ms);
    }

    /// The def was received, or is needed no more.
    pub fn remove(&mut self, def: &Def) {
        self.by_def.remove(def);
    }

    /// The defs whose delay has passed.
    pub fn take_due(&mut self, now_ms: u64) -> Vec<Def> {
        let due = self
            .by_def
            .iter_mut()
            .filter_map(|(def, retry)| retry.due_ms.take_if(|due| *due <= now_ms).map(|_| def.clone()));
        due.collect()
    }

    /// When the next delay passes.
    pub fn next_ms(&self) -> Option<u64> {
        self.by_def.values().filter_map(|retry| retry.due_ms).min()
    }

    /// There is a reason to try at once: every refused def is requested again.
    pub fn end(&mut self, now_ms: u64) {
        for retry in self.by_def.values_mut() {
            retry.backoff.reset();
            retry.due_ms = retry.due_ms.map(|due| due.min(now_ms));
        }
    }
}
