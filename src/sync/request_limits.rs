//! Limits the operations of one request. If a request was too large or nested too deep, the next one takes
//! less, down to a single operation, which is then refused. A server, or a proxy before it, may have limits
//! of its own.
//!
//! That operation is parked only once the server cannot execute it any more: a copy of it may have passed, or
//! may be on its way.

use super::machine::Machine;
use super::message::Effect;
use super::pull::InFlight;
use crate::codec::{Fault, Op};
use crate::error::{Code, Error};
use crate::journal::{Unsendable, is_built_in};
use crate::limits::OPS_BYTES_MAX;
use crate::model::{Def, SortedSet};

/// The operations of a request.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Numbered, in order.
    pub ops: Vec<Op>,
    /// The bytes of their arguments.
    pub bytes: usize,
    /// The defs whose pull must show their effect.
    pub defs: SortedSet<Def>,
    /// Whether the request contains nothing else.
    pub is_alone: bool,
}

impl Outgoing {
    /// No operation, and nothing else in the request: it asks for the epoch.
    pub fn alone() -> Self {
        Outgoing { is_alone: true, ..Outgoing::default() }
    }
}

/// The limits of one request. They are reset when there is a reason to try at once, and when the operation
/// that was too large is found.
#[derive(Debug)]
pub(super) struct Room {
    bytes_max: usize,
    is_alone: bool,
}

impl Default for Room {
    fn default() -> Self {
        Room { bytes_max: OPS_BYTES_MAX, is_alone: false }
    }
}

impl Room {
    /// Whether operations of so many bytes fit in one request.
    pub fn holds(&self, bytes: usize) -> bool {
        !self.is_alone && bytes <= self.bytes_max
    }

    /// Whether the next operation is sent without subscriptions.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// A request with operations was answered.
    pub fn was_enough(&mut self) {
        self.is_alone = false;
    }
}

impl Machine {
    /// A request was refused whole, before any of it was executed. If its size or its depth was the reason,
    /// the next one takes less: fewer operations, if it had some, and fewer subscriptions otherwise. Each
    /// attempt takes less, until the one operation at fault is found.
    pub(super) fn found_too_large(&mut self, request: &InFlight, error: &Error) {
        if !matches!(error.code(), Code::TooLarge | Code::TooDeep) {
            return;
        }
        match &request.ops[..] {
            [] => self.pull.subs_max = (self.pull.subs_max.min(request.subs) / 2).max(1),
            [(id, _)] if request.subs == 0 => {
                let Some(op) = self.writes.get_mut(id).filter(|op| op.is_waiting()) else { return };
                // If even the operation that does nothing is too large, the session can only try later.
                op.unsendable.get_or_insert(Unsendable { fault: Fault::from(error), is_known: false });
                self.writes.room = Room::default();
            }
            [_] => self.writes.room.is_alone = true,
            _ => self.writes.room.bytes_max = request.ops_bytes / 2,
        }
    }

    /// The server knows the id of an operation that cannot be sent, and has not executed it. Returns whether
    /// the operation is parked.
    pub(super) fn take_unsendable(&mut self, order: u64) -> bool {
        let op = self.writes.ops.get_mut(&order).expect("the operation is there");
        let Some(unsendable) = &mut op.unsendable else { return false };
        if !is_built_in(&op.state.name, &op.state.args) && !unsendable.is_known {
            // The server may know it under its own name.
            unsendable.is_known = true;
            return false;
        }
        let (id, fault) = (op.state.id.clone(), unsendable.fault.clone());
        let error = super::message::error_of(&fault);
        self.park(order, fault);
        self.ctx.effects.push(Effect::Refused { id, error });
        true
    }
}
