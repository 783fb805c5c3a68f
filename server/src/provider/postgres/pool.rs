//! A bounded number of connections, made when needed and kept for the next use.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use escale::{Code, Error, Result};
use tokio::runtime::Handle;

use super::Address;
use super::connect::Connection;
use crate::lock::lock;

/// Connections of one purpose.
pub(super) struct Pool {
    address: Address,
    runtime: Handle,
    connections_max: usize,
    room: Mutex<Room>,
    given_back: Condvar,
}

struct Room {
    idle: Vec<Connection>,
    /// Connections that may still be taken, idle or new.
    free: usize,
}

/// A connection that is given back when dropped.
pub(super) struct Pooled<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
}

impl Pool {
    pub(super) fn new(address: Address, runtime: Handle, connections_max: usize) -> Self {
        let room = Mutex::new(Room { idle: Vec::new(), free: connections_max });
        Pool { address, runtime, connections_max, room, given_back: Condvar::new() }
    }

    pub(super) fn in_use(&self) -> usize {
        self.connections_max - self.lock().free
    }

    /// Waits at most `wait` for a free connection, and begins its use. `begin` runs again on a new connection
    /// if a kept one turns out to be lost, for example because the database was restarted.
    pub(super) fn take<T>(
        &self,
        wait: Duration,
        begin: impl Fn(&Connection) -> Result<T>,
    ) -> Result<(Pooled<'_>, T)> {
        let mut pooled = self.reserve(wait)?;
        if pooled.connection.is_some() {
            match pooled.begin(&begin) {
                Err(error) if error.code() == Code::Unavailable => {
                    // The other kept ones were most likely lost with it.
                    pooled.discard();
                    self.lock().idle.clear();
                }
                begun => return begun.map(|begun| (pooled, begun)),
            }
        }
        pooled.connection = Some(Connection::open(&self.address, &self.runtime)?);
        let begun = pooled.begin(&begin)?;
        Ok((pooled, begun))
    }

    /// A kept connection, or the right to make one.
    fn reserve(&self, wait: Duration) -> Result<Pooled<'_>> {
        let (mut room, _) = self
            .given_back
            .wait_timeout_while(self.lock(), wait, |room| room.free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        if room.free == 0 {
            return Err(Error::new(Code::Contention, "every connection to the database is in use"));
        }
        room.free -= 1;
        let mut connection = room.idle.pop();
        while connection.as_ref().is_some_and(Connection::is_closed) {
            connection = room.idle.pop();
        }
        Ok(Pooled { pool: self, connection })
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        lock(&self.room)
    }
}

impl Pooled<'_> {
    fn begin<T>(&mut self, begin: impl Fn(&Connection) -> Result<T>) -> Result<T> {
        let begun = begin(self);
        if begun.is_err() && self.batch("ROLLBACK").is_err() {
            self.discard();
        }
        begun
    }

    /// Gives the connection up: its state is not known.
    pub(super) fn discard(&mut self) {
        self.connection = None;
    }
}

impl std::ops::Deref for Pooled<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("held until given up")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        let mut room = self.pool.lock();
        room.idle.extend(self.connection.take().filter(|connection| !connection.is_closed()));
        room.free += 1;
        drop(room);
        self.pool.given_back.notify_one();
    }
}
