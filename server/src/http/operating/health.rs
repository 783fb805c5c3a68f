//! Whether an instance should get requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use escale::{Code, Error};
use tokio::time::timeout;

use crate::engine::Engine;

/// A check of the database holds for this long, so that many probes cost no more than one.
const FRESH: Duration = Duration::from_secs(1);

/// How long a check may take.
const CHECK_MAX: Duration = Duration::from_secs(2);

/// The database may have failed for this long: a probe must not take an instance away for one slow answer.
const GRACE: Duration = Duration::from_secs(5);

/// The readiness of an instance.
#[derive(Default)]
pub(in crate::http) struct Health {
    is_draining: AtomicBool,
    last: Mutex<Last>,
}

#[derive(Clone, Default)]
struct Last {
    checked: Option<Instant>,
    reached: Option<Instant>,
    cause: Option<String>,
}

impl Health {
    /// From now on the instance is not ready (R45).
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Why the instance should get no requests, if so.
    pub async fn cause(&self, engine: &Arc<Engine>) -> Option<String> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Some("draining: the instance stops".into());
        }
        let before = self.last();
        if before.checked.is_some_and(|at| at.elapsed() < FRESH) {
            return before.cause;
        }
        let engine = Arc::clone(engine);
        let checked = timeout(CHECK_MAX, tokio::task::spawn_blocking(move || engine.check_ready())).await;
        let now = Instant::now();
        let failed = match checked {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => Some(error),
            Ok(Err(_)) => Some(Error::new(Code::ServerError, "the check ended by a panic")),
            Err(_) => Some(Error::new(Code::Timeout, "the database does not answer")),
        };
        let reached = if failed.is_none() { Some(now) } else { before.reached };
        // An instance with an older schema, or with a wrong clock, does not become ready by waiting.
        let is_certain = |error: &Error| error.code() == Code::Unavailable;
        let is_in_grace = reached.is_some_and(|at| at.elapsed() < GRACE);
        let cause = failed.filter(|error| is_certain(error) || !is_in_grace);
        let cause = cause.map(|error| format!("{}: {}", error.name(), error.detail()));
        let last = Last { checked: Some(now), reached, cause: cause.clone() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        cause
    }

    fn last(&self) -> Last {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
