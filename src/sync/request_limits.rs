//! Limits the operations of one request. If a request was too large or nested too deep, the next one takes
//! less, down to a single operation, which is then refused. A server, or a proxy before it, may have limits
//! of its own.
//!
//! That operation is parked only once the server cannot execute it any more: a copy of it may have passed, or
//! may be on its way.

use super::context::Ctx;
use super::message::{Effect, error_of};
use super::writes::Writes;
use crate::codec::Fault;
use crate::error::{Code, Error};
use crate::journal::{OpId, Unsendable, is_built_in};
use crate::limits::OPS_BYTES_MAX;

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

impl Writes {
    /// A request with these operations was refused whole, before any of it was executed. If its size or its
    /// depth was the reason, the next one takes fewer operations. Each attempt takes less, until the one
    /// operation at fault is found.
    pub fn found_too_large(&mut self, sent: &[(OpId, u64)], bytes: usize, has_subs: bool, error: &Error) {
        if !matches!(error.code(), Code::TooLarge | Code::TooDeep) {
            return;
        }
        match sent {
            [] => {}
            [(id, _)] if !has_subs => {
                let Some(op) = self.get_mut(id).filter(|op| op.is_waiting()) else { return };
                // If even the operation that does nothing is too large, the session can only try later.
                op.unsendable.get_or_insert(Unsendable { fault: Fault::from(error), is_known: false });
                self.room = Room::default();
            }
            [_] => self.room.is_alone = true,
            _ => self.room.bytes_max = bytes / 2,
        }
    }

    /// The server knows the id of an operation that cannot be sent, and has not executed it. Returns whether
    /// the operation is parked.
    pub fn take_unsendable(&mut self, ctx: &mut Ctx, order: u64) -> bool {
        let op = self.ops.get_mut(&order).expect("the operation is there");
        let Some(unsendable) = &mut op.unsendable else { return false };
        if !is_built_in(&op.state.name, &op.state.args) && !unsendable.is_known {
            // The server may know it under its own name.
            unsendable.is_known = true;
            return false;
        }
        let (id, fault) = (op.state.id.clone(), unsendable.fault.clone());
        let error = error_of(&fault);
        self.park(order, fault);
        ctx.effects.push(Effect::Refused { id, error });
        true
    }
}
