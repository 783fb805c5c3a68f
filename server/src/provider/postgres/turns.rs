//! The callers of this instance that want to write an org. They come one after another, so that only one of
//! them waits in the database. A busy org then takes one connection, and leaves the others to other orgs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::lock;

use escale::{Code, Error, Result};

/// Callers that may wait for one org.
const WAITING_MAX: usize = 64;

/// The queue of each org in which somebody writes or waits.
#[derive(Default)]
pub(super) struct Turns {
    queues: Mutex<Queues>,
    moved: Condvar,
}

#[derive(Default)]
struct Queues {
    /// The tickets of each org in the order of their arrival. The first one has the turn.
    by_org: HashMap<String, VecDeque<u64>>,
    last: u64,
}

/// The turn of one org, or the place in its queue. Given back when dropped.
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    org: String,
    ticket: u64,
}

impl Turns {
    /// Waits at most `wait` for the turn of an org. Errors: `contention`.
    pub(super) fn take(&self, org: &str, wait: Duration) -> Result<Turn<'_>> {
        let until = Instant::now() + wait;
        let mut queues = self.lock();
        queues.last += 1;
        let ticket = queues.last;
        let queue = queues.by_org.entry(org.to_owned()).or_default();
        // One has the turn, the others wait.
        if queue.len() > WAITING_MAX {
            return Err(contended());
        }
        queue.push_back(ticket);
        let turn = Turn { turns: self, org: org.to_owned(), ticket };
        while queues.first(org) != Some(ticket) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The place is given back without this lock.
                drop(queues);
                return Err(contended());
            }
            queues = self.moved.wait_timeout(queues, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(queues);
        Ok(turn)
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }
}

impl Queues {
    fn first(&self, org: &str) -> Option<u64> {
        self.by_org.get(org)?.front().copied()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
        if let Some(queue) = queues.by_org.get_mut(&self.org) {
            queue.retain(|ticket| *ticket != self.ticket);
            if queue.is_empty() {
                queues.by_org.remove(&self.org);
            }
        }
        drop(queues);
        self.turns.moved.notify_all();
    }
}

fn contended() -> Error {
    Error::new(Code::Contention, "other writes hold the org")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_org_has_one_turn_and_a_bounded_queue() {
        let turns = Turns::default();
        let first = turns.take("o", Duration::ZERO).expect("a turn");
        assert!(turns.take("o", Duration::ZERO).is_err(), "it is taken");
        assert!(turns.take("p", Duration::ZERO).is_ok(), "another org's is not");
        let is_full = |turns: &Turns| turns.lock().by_org["o"].len() > WAITING_MAX;
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..WAITING_MAX)
                .map(|_| scope.spawn(|| turns.take("o", Duration::from_secs(60)).map(drop)))
                .collect();
            while !is_full(&turns) {
                std::thread::yield_now();
            }
            assert!(turns.take("o", Duration::from_secs(60)).is_err(), "the queue is full");
            drop(first);
            for one in waiting {
                one.join().expect("a thread").expect("a turn in the end");
            }
        });
        assert!(turns.lock().by_org.is_empty(), "nothing is left of a queue");
    }
}
