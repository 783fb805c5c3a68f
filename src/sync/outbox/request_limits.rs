//! Limits the operations of one request. If a request was too large or nested too deep, the next one takes
//! less, down to a single operation, which is then refused. A server, or a proxy before it, may have limits
//! of its own.
//!
//! That operation is parked only once the server cannot execute it any more: a copy of it may have passed, or
//! may be on its way.

use super::table::Table;
use crate::journal::is_built_in;
use crate::limits::OPS_BYTES_MAX;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, error_of};

/// The limits of one request. They are reset when there is a reason to try at once, and when the operation
/// that was too large is found.
#[derive(Debug)]
pub struct Room {
    pub(super) bytes_max: usize,
    pub(super) is_alone: bool,
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

/// The server knows the id of an operation that cannot be sent, and has not executed it.
pub fn take_unsendable(ctx: &mut Ctx, table: &mut Table, order: u64) {
    let op = table.ops.get_mut(&order).expect("the operation is there");
    let Some(unsendable) = &mut op.unsendable else { return };
    if !is_built_in(&op.state.name, &op.state.args) && !unsendable.is_id_known {
        // The server may know it under its own name.
        unsendable.is_id_known = true;
        return;
    }
    let (id, fault) = (op.state.id.clone(), unsendable.fault.clone());
    let error = error_of(&fault);
    table.park(order, fault);
    ctx.effects.push(Effect::Refused { id, error });
}
