//! The watchdog: a queue that is not empty makes progress, or says when it will.

use escale::limits::BACKOFF_MS;
use escale::sync::Mode;

use super::World;
use crate::backend::Backend;

/// Longer than any delay of the machine.
const IDLE_MS_MAX: u64 = BACKOFF_MS.1 + 10_000;

impl<S: Backend> World<S> {
    /// Before an event: an operation that could have been sent, with no request in progress, was not left
    /// waiting.
    pub(super) fn check_idle(&mut self, number: usize) {
        if let Some(since) = self.clients[number].idle_since {
            let idle = self.now - since;
            assert!(idle <= IDLE_MS_MAX, "stuck: client {number} has not moved its queue for {idle} ms");
        }
    }

    /// After an event.
    pub(super) fn note_idle(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let Some(machine) = &client.machine else { return };
        let is_busy = client.sending.is_some() || client.is_writing || client.reading > 0;
        let is_cut = client.mode == Mode::Avion || !client.network;
        let waits = || {
            let mut operations = machine.operations().into_iter();
            operations.any(|(op, held)| !held && op.state.refused.is_none() && op.state.accepted.is_none())
        };
        if is_busy || is_cut || !waits() {
            client.idle_since = None;
        } else {
            client.idle_since.get_or_insert(self.now);
        }
    }
}
