//! Counts how often an operation failed with a retryable fault. An operation that can never succeed must not
//! block its session for ever (R12).
//!
//! An operation that fails with a fault of kind C or X is sent again, and nothing of its session is executed
//! before it. That is right if the cause lies outside the operation. But the cause may lie in the operation:
//! it always reads a damaged document, for example, or its work never ends in time. The two cases differ only
//! in that the second one keeps coming back.
//!
//! The count is in memory. A restart begins again, and each instance counts separately. Among very many
//! sessions, those with the oldest failures are forgotten. All of this only delays the end.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Attempts after which an operation is refused for good. A session that waits up to 30 s between two, as the
/// protocol has it, makes them in about a minute.
pub const TRIES_MAX: u32 = 10;

/// Sessions remembered at a time. Each takes at most two names of 1,024 bytes and an id.
const SESSIONS_MAX: usize = 4_096;

/// The failed attempts of each session's next operation.
#[derive(Default)]
pub(in crate::engine) struct Tries {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_session: HashMap<(String, String), Tried>,
    /// Counts failures; the entry with the lowest number has the oldest failure.
    last: u64,
}

#[derive(Default)]
struct Tried {
    id: String,
    times: u32,
    at: u64,
}

impl Tries {
    /// The operation has failed once more. Returns whether that was its last attempt.
    pub(in crate::engine) fn failed(&self, org: &str, session: &str, id: &str) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { by_session, last } = &mut *inner;
        *last += 1;
        let key = (org.to_owned(), session.to_owned());
        if by_session.len() >= SESSIONS_MAX && !by_session.contains_key(&key) {
            let oldest = by_session.iter().min_by_key(|(_, tried)| tried.at).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| by_session.remove(&oldest));
        }
        let tried = by_session.entry(key).or_default();
        if tried.id != id {
            *tried = Tried { id: id.to_owned(), ..Tried::default() };
        }
        tried.times += 1;
        tried.at = *last;
        tried.times >= TRIES_MAX
    }

    /// The session has advanced to another operation.
    pub(in crate::engine) fn ended(&self, org: &str, session: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.by_session.is_empty() {
            inner.by_session.remove(&(org.to_owned(), session.to_owned()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_tries() {
        let tries = Tries::default();
        for id in ["a", "b"] {
            let ends: Vec<bool> = (0..TRIES_MAX).map(|_| tries.failed("o", "s", id)).collect();
            assert_eq!(ends.iter().position(|end| *end), Some(TRIES_MAX as usize - 1));
        }
        assert!(!tries.failed("o", "s", "a"), "another one came between: it begins anew");
        assert!(!tries.failed("p", "s", "b") && !tries.failed("o", "t", "b"));
        tries.ended("o", "s");
        assert_eq!(tries.inner.lock().unwrap().by_session.len(), 2);
    }

    #[test]
    fn many_sessions_take_a_bounded_room() {
        let tries = Tries::default();
        for n in 0..SESSIONS_MAX + 100 {
            tries.failed("o", &n.to_string(), "a");
            tries.failed("o", "0", "a");
        }
        let inner = tries.inner.lock().unwrap();
        assert_eq!(inner.by_session.len(), SESSIONS_MAX);
        let times = inner.by_session[&("o".to_owned(), "0".to_owned())].times as usize;
        assert_eq!(times, SESSIONS_MAX + 101, "it failed just now, so it was never forgotten");
    }
}
