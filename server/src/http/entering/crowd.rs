//! The limiter of connections.
//!
//! A connection is engaged while it serves an admitted request. Otherwise it is a stranger. An admitted
//! socket is counted elsewhere, and gives its place back. Strangers are served as long as there is room. Once
//! all places are taken, the oldest stranger has to leave when a new connection arrives. So silent
//! connections, however many, keep nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The places of a server.
pub(in crate::http) struct Crowd {
    places: Arc<Semaphore>,
    strangers: Mutex<Strangers>,
}

#[derive(Default)]
struct Strangers {
    last: u64,
    /// The senders of the signal to leave, in the order in which their connections became strangers.
    by_age: BTreeMap<u64, Arc<Notify>>,
}

/// A connection's place; released when dropped.
pub(in crate::http) struct Connection {
    crowd: Arc<Crowd>,
    leave: Arc<Notify>,
    standing: Mutex<Standing>,
    _permit: OwnedSemaphorePermit,
}

struct Standing {
    /// Admitted requests that are not answered yet.
    engaged: usize,
    /// Its number among the strangers, while there are none of these.
    number: u64,
}

/// While this value exists, its connection is no stranger.
pub(in crate::http) struct Engaged(Arc<Connection>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crowd {
    pub(in crate::http) fn new(places: usize) -> Arc<Self> {
        Arc::new(Crowd { places: Arc::new(Semaphore::new(places)), strangers: Mutex::default() })
    }

    /// Takes a place for a new connection: a free one, or that of the oldest stranger, or the next one that
    /// becomes free.
    pub(in crate::http) async fn enter(self: &Arc<Self>) -> Arc<Connection> {
        if self.places.available_permits() == 0 {
            let oldest = lock(&self.strangers).by_age.pop_first();
            if let Some((_, leave)) = oldest {
                leave.notify_one();
            }
        }
        let permit = Arc::clone(&self.places).acquire_owned().await.expect("never closed");
        let leave = Arc::new(Notify::new());
        let number = self.add(&leave);
        let standing = Mutex::new(Standing { engaged: 0, number });
        Arc::new(Connection { crowd: Arc::clone(self), leave, standing, _permit: permit })
    }

    fn add(&self, leave: &Arc<Notify>) -> u64 {
        let mut strangers = lock(&self.strangers);
        strangers.last += 1;
        let number = strangers.last;
        strangers.by_age.insert(number, Arc::clone(leave));
        number
    }
}

impl Connection {
    /// From now on the connection serves an admitted caller.
    pub(in crate::http) fn engage(self: &Arc<Self>) -> Engaged {
        let mut standing = lock(&self.standing);
        standing.engaged += 1;
        lock(&self.crowd.strangers).by_age.remove(&standing.number);
        drop(standing);
        Engaged(Arc::clone(self))
    }

    /// Resolves once the connection must leave.
    pub(in crate::http) async fn must_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Engaged {
    fn drop(&mut self) {
        let mut standing = lock(&self.0.standing);
        standing.engaged -= 1;
        if standing.engaged == 0 {
            standing.number = self.0.crowd.add(&self.0.leave);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let number = lock(&self.standing).number;
        lock(&self.crowd.strangers).by_age.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_stranger_yields_and_nobody_else() {
        let crowd = Crowd::new(3);
        let first = crowd.enter().await;
        let others = [crowd.enter().await, crowd.enter().await];
        let mut engaged = Some(first.engage());
        let mut newcomers = Vec::new();
        for other in others {
            let (newcomer, ()) = tokio::join!(crowd.enter(), async {
                other.must_leave().await;
                drop(other);
            });
            newcomers.push(newcomer);
            // It becomes a stranger again, behind the others.
            engaged.take();
        }
        drop((first, newcomers));
        assert!(lock(&crowd.strangers).by_age.is_empty());
        assert_eq!(crowd.places.available_permits(), 3);
    }

    #[tokio::test]
    async fn where_nobody_is_a_stranger_one_waits() {
        let crowd = Crowd::new(1);
        let first = crowd.enter().await;
        let engaged = first.engage();
        let (_second, ()) = tokio::join!(crowd.enter(), async {
            tokio::task::yield_now().await;
            assert_eq!(crowd.places.available_permits(), 0);
            drop(engaged);
            drop(first);
        });
    }
}
