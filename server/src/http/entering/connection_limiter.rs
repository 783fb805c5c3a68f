//! The limiter of connections.
//!
//! A connection is active while the server works on a request of an admitted caller. Otherwise it may have to leave: it is
//! silent, or a request is on its way in, or an answer on its way out. An admitted socket is counted elsewhere, and gives
//! its place back.
//!
//! Once all places are taken, one connection leaves when a new one arrives. It is of the network that has most of those that
//! may have to leave: a silent one if there is any, and the oldest of them. So connections that are silent or slow,
//! however many, keep no other network out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::accounts::Network;
use crate::lock::lock;

/// The places of a server.
pub(in crate::http) struct ConnectionLimiter {
    places: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

/// Those that may have to leave.
#[derive(Default)]
struct Idle {
    last: u64,
    by_network: HashMap<Network, BTreeMap<Age, Arc<Notify>>>,
}

/// Whether a request or an answer is on its way, and the order in which the connections came to that.
type Age = (bool, u64);

/// A connection's place; released when dropped.
pub(in crate::http) struct Connection {
    limiter: Arc<ConnectionLimiter>,
    network: Network,
    leave: Arc<Notify>,
    activity: Mutex<Activity>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Activity {
    /// Requests that came, and whose answer has not left.
    served: usize,
    /// Those of them that the server works on.
    active: usize,
    number: u64,
}

/// While this value exists, a request of its connection is under way.
pub(in crate::http) struct Busy(Arc<Connection>);

/// While this value exists, its connection does not have to leave.
pub(in crate::http) struct Active(Arc<Connection>);

impl ConnectionLimiter {
    pub(in crate::http) fn new(places: usize) -> Arc<Self> {
        Arc::new(ConnectionLimiter { places: Arc::new(Semaphore::new(places)), idle: Mutex::default() })
    }

    /// Takes a place for a new connection: a free one, or that of one that has to leave, or the next one that becomes free.
    pub(in crate::http) async fn enter(self: &Arc<Self>, network: Network) -> Arc<Connection> {
        if self.places.available_permits() == 0
            && let Some(leave) = lock(&self.idle).take_one()
        {
            leave.notify_one();
        }
        let permit = Arc::clone(&self.places).acquire_owned().await.expect("never closed");
        let (limiter, leave, activity) = (Arc::clone(self), Arc::new(Notify::new()), Mutex::default());
        let connection = Arc::new(Connection { limiter, network, leave, activity, _permit: permit });
        connection.change(|_| {});
        connection
    }
}

impl Idle {
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

impl Activity {
    fn age(&self) -> Age {
        (self.served > 0, self.number)
    }
}

impl Connection {
    /// A request of this connection has come, of a caller who may come in.
    pub(in crate::http) fn serve(self: &Arc<Self>) -> Busy {
        self.change(|activity| activity.served += 1);
        Busy(Arc::clone(self))
    }

    /// Resolves once the connection must leave.
    pub(in crate::http) async fn must_leave(&self) {
        self.leave.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut Activity)) {
        let mut activity = lock(&self.activity);
        let mut idle = lock(&self.limiter.idle);
        idle.remove(self.network, activity.age());
        change(&mut activity);
        if activity.active == 0 {
            idle.last += 1;
            activity.number = idle.last;
            let ages = idle.by_network.entry(self.network).or_default();
            ages.insert(activity.age(), Arc::clone(&self.leave));
        }
    }
}

impl Busy {
    /// The server works on the request from now on.
    pub(in crate::http) fn mark_active(&self) -> Active {
        self.0.change(|activity| activity.active += 1);
        Active(Arc::clone(&self.0))
    }

    /// Tells the connection to leave.
    pub(in crate::http) fn leave(&self) -> &Arc<Notify> {
        &self.0.leave
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|activity| activity.served -= 1);
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.change(|activity| activity.active -= 1);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let age = lock(&self.activity).age();
        lock(&self.limiter.idle).remove(self.network, age);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::of(text.parse().unwrap())
    }

    async fn enter(limiter: &Arc<ConnectionLimiter>, text: &str) -> Arc<Connection> {
        limiter.enter(network(text)).await
    }

    /// Another one enters, and the one that is expected to leave does so.
    async fn takes_the_place_of(
        limiter: &Arc<ConnectionLimiter>,
        text: &str,
        leaving: Arc<Connection>,
    ) -> Arc<Connection> {
        let (newcomer, ()) = tokio::join!(enter(limiter, text), async {
            leaving.must_leave().await;
            drop(leaving);
        });
        newcomer
    }

    #[tokio::test]
    async fn the_oldest_stranger_yields_and_nobody_else() {
        let limiter = ConnectionLimiter::new(3);
        let first = enter(&limiter, "10.0.0.1").await;
        let others = [enter(&limiter, "10.0.0.1").await, enter(&limiter, "10.0.0.1").await];
        let busy = first.serve();
        let mut active = Some(busy.mark_active());
        let mut newcomers = Vec::new();
        for other in others {
            newcomers.push(takes_the_place_of(&limiter, "10.0.0.1", other).await);
            // It may have to leave again, after the others.
            active.take();
        }
        drop((first, busy, newcomers));
        assert!(lock(&limiter.idle).by_network.is_empty());
        assert_eq!(limiter.places.available_permits(), 3);
    }

    #[tokio::test]
    async fn where_nobody_is_a_stranger_one_waits() {
        let limiter = ConnectionLimiter::new(1);
        let first = enter(&limiter, "10.0.0.1").await;
        let busy = first.serve();
        let active = busy.mark_active();
        let (_second, ()) = tokio::join!(enter(&limiter, "10.0.0.1"), async {
            tokio::task::yield_now().await;
            assert_eq!(limiter.places.available_permits(), 0);
            drop((active, busy));
            drop(first);
        });
    }

    /// A flood of one network, silent or with requests that do not arrive, leaves a slow caller of another one alone.
    #[tokio::test]
    async fn the_network_with_most_yields_and_first_what_is_silent() {
        let limiter = ConnectionLimiter::new(5);
        let slow = enter(&limiter, "10.0.0.1").await;
        let _arriving = slow.serve();
        let mut many = Vec::new();
        for n in 1..=4 {
            many.push(enter(&limiter, &format!("2001:db8:0:1::{n}")).await);
        }
        let arriving = many[0].serve();
        let mut others = Vec::new();
        for n in 0..2 {
            let silent = many.remove(1);
            others.push(takes_the_place_of(&limiter, &format!("10.0.1.{n}"), silent).await);
        }
        others.push(takes_the_place_of(&limiter, "10.0.1.2", many.remove(1)).await);
        // Now each network has one: of them, the silent ones come first for their own network alone.
        assert_eq!(limiter.places.available_permits(), 0);
        drop((arriving, many, slow));
    }
}
