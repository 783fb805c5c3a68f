//! Limits the operations of one request. If a request was too large or nested too deep, the next one takes
//! less, down to a single operation, which is then refused. A server, or a proxy before it, may have limits
//! of its own.
//!
//! A slow line has a limit too: a server or a proxy waits only so long for a body. A request that was cut off is sent
//! again from its first byte. So requests begin small, grow while the line is fast, and are halved when one fails late.
//! This limit holds until the line shows another one.
//!
//! That operation is parked only once the server cannot execute it any more: a copy of it may have passed, or
//! may be on its way.

use super::table::PendingOps;
use crate::journal::is_built_in;
use crate::limits::{OPS_BYTES_MAX, PASSES_MAX, PIECE_BYTES, QUICK_MS, SUB_BYTES};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, error_of};

/// The limits of one request. Those of its size are reset when there is a reason to try at once, and when the operation
/// that was too large is found.
#[derive(Debug)]
pub struct Room {
    pub(super) bytes_max: usize,
    pub(super) is_alone: bool,
    /// As many bytes as the line carries in time.
    piece: usize,
    /// How many requests in a row have passed an operation that was too large for a piece.
    pub(super) passes: u8,
}

impl Default for Room {
    fn default() -> Self {
        Room { bytes_max: OPS_BYTES_MAX, is_alone: false, piece: PIECE_BYTES.0, passes: 0 }
    }
}

impl Room {
    /// Whether operations of so many bytes fit in one request.
    pub fn holds(&self, bytes: usize) -> bool {
        !self.is_alone && self.fits(bytes)
    }

    fn fits(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max.min(self.piece)
    }

    /// Whether smaller operations go before one of so many bytes.
    pub fn postpones(&self, bytes: usize) -> bool {
        !self.is_alone && !self.fits(bytes) && self.passes < PASSES_MAX
    }

    /// How many subscriptions the line carries in time.
    pub fn subs_max(&self) -> usize {
        self.piece / SUB_BYTES
    }

    /// A request of so many bytes was answered, or has failed, after that time. An early failure tells nothing of the line.
    pub fn took(&mut self, bytes: usize, ms: u64, failed: bool) {
        if failed && ms >= QUICK_MS && bytes > PIECE_BYTES.1 {
            self.piece = self.piece.min(bytes / 2);
        } else if !failed && ms < QUICK_MS {
            self.piece = self.piece.max((bytes * 4).min(OPS_BYTES_MAX));
        }
    }

    /// There is a reason to try a larger request.
    pub fn reset(&mut self) {
        *self = Room { piece: self.piece, passes: self.passes, ..Room::default() };
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
pub fn take_unsendable(ctx: &mut Ctx, table: &mut PendingOps, order: u64) {
    let op = table.op_mut(order).expect("the operation is there");
    let Some(unsendable) = &mut op.unsendable else { return };
    if !is_built_in(&op.state.issued.name, &op.state.issued.args) && !unsendable.is_id_known {
        // The server may know it under its own name.
        unsendable.is_id_known = true;
        return;
    }
    let (id, fault) = (op.state.issued.id.clone(), unsendable.fault.clone());
    let error = error_of(&fault);
    table.park(order, fault);
    ctx.effects.push(Effect::Refused { id, error });
}
