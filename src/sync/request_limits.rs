//! How much of the operations one request takes: less where it was found too large or nested too deep, down to one
//! operation by itself, which then is refused. A server, or a proxy before it, may have bounds of its own.
//!
//! That one is parked only once the server cannot execute it any more: a copy of it may have passed, or be on its way.

use super::event::Effect;
use super::machine::Machine;
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
    /// Nothing else goes with them.
    pub is_alone: bool,
}

impl Outgoing {
    /// None, and nothing else in their request.
    pub fn alone() -> Self {
        Outgoing { is_alone: true, ..Outgoing::default() }
    }
}

/// What one request may take. It grows again when there is a reason to hope, and once what was too large is parked.
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
    /// Whether operations of so many bytes go in one request.
    pub fn holds(&self, bytes: usize) -> bool {
        !self.is_alone && bytes <= self.bytes_max
    }

    /// Whether the next operation goes without subscriptions.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// A request with operations was answered.
    pub fn was_enough(&mut self) {
        self.is_alone = false;
    }
}

impl Machine {
    /// A request was refused whole, before anything of it was executed. Where that is for its size or its depth, the next
    /// one takes less: of the operations, where it had some, and of the subscriptions otherwise. Each time less is left,
    /// so that the one operation to blame is found.
    pub(super) fn found_too_large(&mut self, request: &InFlight, error: &Error) {
        if !matches!(error.code(), Code::TooLarge | Code::TooDeep) {
            return;
        }
        match &request.ops[..] {
            [] => self.pull.subs_max = (self.pull.subs_max.min(request.subs) / 2).max(1),
            [(id, _)] if request.subs == 0 => {
                let Some(op) = self.writes.get_mut(id).filter(|op| op.is_waiting()) else { return };
                // Where even what does nothing is too large, all that is left is to try later.
                op.unsendable.get_or_insert(Unsendable { fault: Fault::from(error), is_known: false });
                self.writes.room = Room::default();
            }
            [_] => self.writes.room.is_alone = true,
            _ => self.writes.room.bytes_max = request.ops_bytes / 2,
        }
    }

    /// The server knows the id of an operation that cannot be sent, and has not executed it. Gives whether it is parked.
    pub(super) fn take_unsendable(&mut self, order: u64) -> bool {
        let op = self.writes.ops.get_mut(&order).expect("the operation is there");
        let Some(unsendable) = &mut op.unsendable else { return false };
        if !is_built_in(&op.state.name, &op.state.args) && !unsendable.is_known {
            // It may be known by its own name.
            unsendable.is_known = true;
            return false;
        }
        let (id, fault) = (op.state.id.clone(), unsendable.fault.clone());
        let error = super::replies::error_of(&fault);
        self.park(order, fault);
        self.effects.push(Effect::Refused { id, error });
        true
    }
}
