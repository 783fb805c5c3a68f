//! Limits how many requests, or sockets, may be in progress at once, for each caller and for all together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts the requests or sockets in progress, by caller.
pub(super) struct Gate {
    each_max: usize,
    by_caller: Mutex<HashMap<String, usize>>,
    all: Arc<Semaphore>,
}

/// A slot for one of them; released when dropped.
pub(super) struct Slot {
    gate: Arc<Gate>,
    caller: String,
    _permit: OwnedSemaphorePermit,
}

/// The reason why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// This caller has too many in progress.
    Caller,
    /// All callers together have too many.
    Server,
}

impl Gate {
    pub(super) fn new(each_max: usize, all_max: usize) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(all_max));
        Arc::new(Gate { each_max, by_caller: Mutex::default(), all })
    }

    pub(super) fn enter(self: &Arc<Self>, caller: &str) -> Result<Slot, Full> {
        let mut by_caller = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if by_caller.get(caller).copied().unwrap_or(0) >= self.each_max {
            return Err(Full::Caller);
        }
        let permit = Arc::clone(&self.all).try_acquire_owned().map_err(|_| Full::Server)?;
        *by_caller.entry(caller.to_owned()).or_default() += 1;
        Ok(Slot { gate: Arc::clone(self), caller: caller.to_owned(), _permit: permit })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut by_caller = self.gate.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = by_caller.get_mut(&self.caller) {
            *n -= 1;
            if *n == 0 {
                by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_given_back() {
        let gate = Gate::new(1, 2);
        let a = gate.enter("a").ok().unwrap();
        assert_eq!(gate.enter("a").err(), Some(Full::Caller));
        let b = gate.enter("b").ok().unwrap();
        assert_eq!(gate.enter("c").err(), Some(Full::Server));
        drop((a, b));
        assert!(gate.enter("a").is_ok());
        assert!(gate.by_caller.lock().unwrap().is_empty());
    }
}
