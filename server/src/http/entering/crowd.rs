//! The limiter of connections.
//!
//! A connection is engaged while the server works on a request of an admitted caller. Otherwise it may have to leave: it is
//! silent, or a request is on its way in, or an answer on its way out. An admitted socket is counted elsewhere, and gives
//! its place back.
//!
//! Once all places are taken, one connection leaves when a new one arrives. It is of the network that has most of those that
//! may have to leave: a silent one if there is any, and the oldest of them. So connections that are silent or slow,
//! however many, keep no other network out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::accounts::Network;

/// The places of a server.
pub(in crate::http) struct Crowd {
    places: Arc<Semaphore>,
    strangers: Mutex<Strangers>,
}

/// Those that may have to leave.
#[derive(Default)]
struct Strangers {
    last: u64,
    by_network: HashMap<Network, BTreeMap<Age, Arc<Notify>>>,
}

/// Whether a request or an answer is on its way, and the order in which the connections came to that.
type Age = (bool, u64);

/// A connection's place; released when dropped.
pub(in crate::http) struct Connection {
    crowd: Arc<Crowd>,
    network: Network,
    leave: Arc<Notify>,
    standing: Mutex<Standing>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Standing {
    /// Requests that came, and whose answer has not left.
    served: usize,
    /// Those of them that the server works on.
    engaged: usize,
    number: u64,
}

/// While this value exists, a request of its connection is under way.
pub(in crate::http) struct Busy(Arc<Connection>);

/// While this value exists, its connection does not have to leave.
pub(in crate::http) struct Engaged(Arc<Connection>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crowd {
    pub(in crate::http) fn new(places: usize) -> Arc<Self> {
        Arc::new(Crowd { places: Arc::new(Semaphore::new(places)), strangers: Mutex::default() })
    }

    /// Takes a place for a new connection: a free one, or that of one that has to leave, or the next one that becomes free.
    pub(in crate::http) async fn enter(self: &Arc<Self>, network: Network) -> Arc<Connection> {
        if self.places.available_permits() == 0
            && let Some(leave) = lock(&self.strangers).take_one()
        {
            leave.notify_one();
        }
        let permit = Arc::clone(&self.places).acquire_owned().await.expect("never closed");
        let (crowd, leave, standing) = (Arc::clone(self), Arc::new(Notify::new()), Mutex::default());
        let connection = Arc::new(Connection { crowd, network, leave, standing, _permit: permit });
        connection.change(|_| {});
        connection
    }
}

impl Strangers {
    /// The one that has to leave.
    fn take_one(&mut self) -> Option<Arc<Notify>> {
        let most = self.by_network.iter().max_by_key(|(network, ages)| (ages.len(), **network))?;
        let network = *most.0;
        let ages = self.by_network.get_mut(&network)?;
        let leave = ages.pop_first().map(|(_, leave)| leave);
        if ages.is_empty() {
            self.by_network.remove(&network);
        }
        leave
    }

    fn remove(&mut self, network: Network, age: Age) {
        if let Some(ages) = self.by_network.get_mut(&network) {
            ages.remove(&age);
            if ages.is_empty() {
                self.by_network.remove(&network);
            }
        }
    }
}

impl Standing {
    fn age(&self) -> Age {
        (self.served > 0, self.number)
    }
}

impl Connection {
    /// A request of this connection has come, of a caller who may come in.
    pub(in crate::http) fn serve(self: &Arc<Self>) -> Busy {
        self.change(|standing| standing.served += 1);
        Busy(Arc::clone(self))
    }

    /// Resolves once the connection must leave.
    pub(in crate::http) async fn must_leave(&self) {
        self.leave.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut Standing)) {
        let mut standing = lock(&self.standing);
        let mut strangers = lock(&self.crowd.strangers);
        strangers.remove(self.network, standing.age());
        change(&mut standing);
        if standing.engaged == 0 {
            strangers.last += 1;
            standing.number = strangers.last;
            let ages = strangers.by_network.entry(self.network).or_default();
            ages.insert(standing.age(), Arc::clone(&self.leave));
        }
    }
}

impl Busy {
    /// The server works on the request from now on.
    pub(in crate::http) fn engage(&self) -> Engaged {
        self.0.change(|standing| standing.engaged += 1);
        Engaged(Arc::clone(&self.0))
    }

    /// Tells the connection to leave.
    pub(in crate::http) fn leave(&self) -> &Arc<Notify> {
        &self.0.leave
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|standing| standing.served -= 1);
    }
}

impl Drop for Engaged {
    fn drop(&mut self) {
        self.0.change(|standing| standing.engaged -= 1);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let age = lock(&self.standing).age();
        lock(&self.crowd.strangers).remove(self.network, age);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::of(text.parse().unwrap())
    }

    async fn enter(crowd: &Arc<Crowd>, text: &str) -> Arc<Connection> {
        crowd.enter(network(text)).await
    }

    /// Another one enters, and the one that is expected to leave does so.
    async fn takes_the_place_of(crowd: &Arc<Crowd>, text: &str, leaving: Arc<Connection>) -> Arc<Connection> {
        let (newcomer, ()) = tokio::join!(enter(crowd, text), async {
            leaving.must_leave().await;
            drop(leaving);
        });
        newcomer
    }

    #[tokio::test]
    async fn the_oldest_stranger_yields_and_nobody_else() {
        let crowd = Crowd::new(3);
        let first = enter(&crowd, "10.0.0.1").await;
        let others = [enter(&crowd, "10.0.0.1").await, enter(&crowd, "10.0.0.1").await];
        let busy = first.serve();
        let mut engaged = Some(busy.engage());
        let mut newcomers = Vec::new();
        for other in others {
            newcomers.push(takes_the_place_of(&crowd, "10.0.0.1", other).await);
            // It may have to leave again, after the others.
            engaged.take();
        }
        drop((first, busy, newcomers));
        assert!(lock(&crowd.strangers).by_network.is_empty());
        assert_eq!(crowd.places.available_permits(), 3);
    }

    #[tokio::test]
    async fn where_nobody_is_a_stranger_one_waits() {
        let crowd = Crowd::new(1);
        let first = enter(&crowd, "10.0.0.1").await;
        let busy = first.serve();
        let engaged = busy.engage();
        let (_second, ()) = tokio::join!(enter(&crowd, "10.0.0.1"), async {
            tokio::task::yield_now().await;
            assert_eq!(crowd.places.available_permits(), 0);
            drop((engaged, busy));
            drop(first);
        });
    }

    /// A flood of one network, silent or with requests that do not arrive, leaves a slow caller of another one alone.
    #[tokio::test]
    async fn the_network_with_most_yields_and_first_what_is_silent() {
        let crowd = Crowd::new(5);
        let slow = enter(&crowd, "10.0.0.1").await;
        let _arriving = slow.serve();
        let mut many = Vec::new();
        for n in 1..=4 {
            many.push(enter(&crowd, &format!("2001:db8:0:1::{n}")).await);
        }
        let arriving = many[0].serve();
        let mut others = Vec::new();
        for n in 0..2 {
            let silent = many.remove(1);
            others.push(takes_the_place_of(&crowd, &format!("10.0.1.{n}"), silent).await);
        }
        others.push(takes_the_place_of(&crowd, "10.0.1.2", many.remove(1)).await);
        // Now each network has one: of them, the silent ones come first for their own network alone.
        assert_eq!(crowd.places.available_permits(), 0);
        drop((arriving, many, slow));
    }
}
