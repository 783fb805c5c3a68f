//! Mutexes whose values a panic leaves whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic of another holder. Only for values that each holder leaves good at any moment: a table that one
/// assignment replaces, or a connection whose guard rolls back.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
