//! The connection that writes, for one transaction at a time. Orgs take turns, and within an org those who came first go
//! first. So an org with hundreds of waiting writes delays a write of another org by one of its own.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use escale::{Code, Error, Result};
use rusqlite::Connection;

use crate::lock::lock;

/// The connection that writes, and those who wait for it.
pub(super) struct Turn<C = Connection> {
    state: Mutex<State<C>>,
    changed: Condvar,
}

struct State<C> {
    connection: Option<C>,
    queue: Queue,
}

/// Those who wait. Each has a number of its own.
#[derive(Default)]
struct Queue {
    last: u64,
    /// Orgs with somebody who waits, in the order of their turns.
    orgs: VecDeque<String>,
    waiting: HashMap<String, VecDeque<u64>>,
}

/// The connection that writes, given back when dropped.
pub(super) struct Writer<'p, C = Connection> {
    turn: &'p Turn<C>,
    connection: Option<C>,
}

impl Queue {
    fn join(&mut self, org: &str) -> u64 {
        self.last += 1;
        let own = self.waiting.entry(org.to_owned()).or_default();
        if own.is_empty() {
            self.orgs.push_back(org.to_owned());
        }
        own.push_back(self.last);
        self.last
    }

    fn is_next(&self, org: &str, number: u64) -> bool {
        self.orgs.front().is_some_and(|next| next == org)
            && self.waiting.get(org).is_some_and(|own| own.front() == Some(&number))
    }

    /// Somebody has the connection, or waits no more. After a turn, the org goes behind the others.
    fn leave(&mut self, org: &str, number: u64, had_its_turn: bool) {
        let Some(own) = self.waiting.get_mut(org) else { return };
        own.retain(|other| *other != number);
        let is_empty = own.is_empty();
        if is_empty {
            self.waiting.remove(org);
        }
        if is_empty || had_its_turn {
            self.orgs.retain(|other| other != org);
        }
        if !is_empty && had_its_turn {
            self.orgs.push_back(org.to_owned());
        }
    }
}

impl<C> Turn<C> {
    pub(super) fn new(connection: C) -> Self {
        let state = State { connection: Some(connection), queue: Queue::default() };
        Turn { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits at most `wait` for the other writes of this process. An empty org stands for the work of the whole file.
    pub(super) fn take(&self, org: &str, wait: Duration) -> Result<Writer<'_, C>> {
        let mut state = lock(&self.state);
        let number = state.queue.join(org);
        let not_yet = |state: &mut State<C>| state.connection.is_none() || !state.queue.is_next(org, number);
        let waited = self.changed.wait_timeout_while(state, wait, not_yet);
        (state, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        let connection = if not_yet(&mut state) { None } else { state.connection.take() };
        state.queue.leave(org, number, connection.is_some());
        drop(state);
        if connection.is_some() {
            return Ok(Writer { turn: self, connection });
        }
        // It may have been the next one: then another one is now.
        self.changed.notify_all();
        Err(Error::new(Code::Contention, "another write holds the database"))
    }
}

impl<C> Deref for Writer<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect("held until dropped")
    }
}

impl<C> Drop for Writer<'_, C> {
    fn drop(&mut self) {
        lock(&self.turn.state).connection = self.connection.take();
        self.turn.changed.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Waits until so many wait for the connection.
    fn wait_for(turn: &Turn<u8>, count: usize) {
        while lock(&turn.state).queue.waiting.values().map(VecDeque::len).sum::<usize>() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn orgs_take_turns_and_within_an_org_the_first_goes_first() {
        let names = ["a1", "a2", "a3", "a4", "b1", "c1", "b2"];
        let (turn, order) = (Turn::new(0_u8), Mutex::new(Vec::new()));
        let held = turn.take("a", LONG).unwrap();
        std::thread::scope(|scope| {
            for (count, name) in names.iter().enumerate() {
                let (turn, order) = (&turn, &order);
                scope.spawn(move || {
                    let _writer = turn.take(&name[..1], LONG).unwrap();
                    lock(order).push(*name);
                });
                wait_for(turn, count + 1);
            }
            drop(held);
        });
        assert_eq!(*lock(&order), ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
        assert!(lock(&turn.state).queue.waiting.is_empty() && lock(&turn.state).queue.orgs.is_empty());
    }

    #[test]
    fn one_who_waits_no_more_keeps_nobody_back() {
        let turn = Turn::new(0_u8);
        let held = turn.take("a", LONG).unwrap();
        assert_eq!(turn.take("a", Duration::ZERO).err().unwrap().code(), Code::Contention);
        std::thread::scope(|scope| {
            let next = scope.spawn(|| turn.take("b", LONG).map(|writer| *writer));
            wait_for(&turn, 1);
            assert!(turn.take("b", Duration::ZERO).is_err() && turn.take("c", Duration::ZERO).is_err());
            drop(held);
            assert_eq!(next.join().unwrap().unwrap(), 0);
        });
        assert!(turn.take("a", Duration::ZERO).is_ok(), "free at once for one who cannot wait");
        assert!(lock(&turn.state).queue.orgs.is_empty());
    }
}
