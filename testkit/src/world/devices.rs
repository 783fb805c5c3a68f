//! Events of devices: the power fails, a store is wiped or restored from a copy, everything sleeps, or the
//! network fails in one direction.

use std::collections::BTreeSet;

use escale::store::conformance::block_on;
use escale::store::{Device, MemoryDevice};

use super::World;
use super::files::AtHand;
use crate::backend::Backend;

/// A copy of a device, and the operations that were saved on it by then.
pub struct Copied {
    device: MemoryDevice,
    saved: BTreeSet<String>,
    at_hand: AtHand,
}

impl<S: Backend> World<S> {
    /// No clock is read for hours. Messages in transit arrive after them.
    pub(super) fn sleep(&mut self, hours: u8) {
        self.finish_transactions();
        for client in &mut self.clients {
            if let Some(socket) = &mut client.socket {
                socket.is_up = false;
            }
        }
        self.now += u64::from(hours) * 3_600_000;
        for number in 0..self.clients.len() {
            self.clients[number].idle_since = None;
        }
        self.server.forget(0, self.now);
    }

    /// R10: the lost batches cannot contain anything that was reported as saved.
    pub(super) fn lose_power(&mut self, client: usize, batches: usize) {
        self.crash(client);
        let state = &mut self.clients[client];
        let lost = state.device.lose_power(&state.store_name(), batches);
        if lost > 0 {
            self.figures.devices += 1;
            state.ledger.forget_accepted();
            state.was_put_back = true;
            state.session = None;
            note!(self, "client {client} loses its last {lost} batches");
        }
    }

    pub(super) fn wipe(&mut self, client: usize) {
        self.crash(client);
        let state = &mut self.clients[client];
        if state.setup.incognito {
            return;
        }
        block_on(state.device.delete(&state.store_name())).expect("a store that nobody owns");
        state.copied = None;
        state.at_hand = AtHand::default();
        state.session = None;
        state.ledger.keep(&BTreeSet::new());
        self.figures.devices += 1;
        note!(self, "client {client} is wiped");
    }

    pub(super) fn copy_device(&mut self, client: usize) {
        let state = &mut self.clients[client];
        let saved = state.ledger.ops.iter().filter(|(_, issued)| issued.saved);
        let saved = saved.map(|(id, _)| id.clone()).collect();
        state.copied =
            Some(Copied { device: state.device.snapshot(), saved, at_hand: state.at_hand.clone() });
    }

    pub(super) fn put_back_device(&mut self, client: usize) {
        self.crash(client);
        let state = &mut self.clients[client];
        let Some(copied) = &state.copied else { return };
        state.device = copied.device.snapshot();
        state.at_hand = copied.at_hand.clone();
        state.was_put_back = true;
        state.session = None;
        state.ledger.may_forget_discards = true;
        state.ledger.keep(&copied.saved);
        self.figures.devices += 1;
        note!(self, "client {client} is put back");
    }

    /// A socket that is cut in one direction is half open: it delivers nothing, and no side reports it.
    pub(super) fn cut_one_way(&mut self, client: usize, mute: bool, deaf: bool) {
        let state = &mut self.clients[client];
        (state.mute, state.deaf) = (mute, deaf);
        if let Some(socket) = state.socket.as_mut().filter(|_| mute || deaf) {
            socket.is_up = false;
        }
    }
}
