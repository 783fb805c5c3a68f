//! Reads the base of documents with pending operations into memory, if it is only on the device.

use super::optimistic::Overlay;
use super::table::PendingOps;
use crate::codec::Data;
use crate::sync::context::Ctx;

/// Delay after the device failed to read them.
const PIN_RETRY_MS: u64 = 1_000;

/// The reading that is in progress, if any.
#[derive(Default)]
pub struct PinReading {
    is_under_way: bool,
    /// No reading before this time, since the device failed.
    not_before_ms: u64,
}

impl Overlay {
    /// The documents whose bases are needed and not in memory, if they can be read now.
    pub fn pins_to_read(&self, ctx: &mut Ctx) -> Vec<u32> {
        if self.pins.is_under_way || ctx.clock.mono_ms < self.pins.not_before_ms {
            return Vec::new();
        }
        ctx.memory.pins_at_rest()
    }

    /// The documents are being read.
    pub fn reads_pins(&mut self) {
        self.pins.is_under_way = true;
    }

    /// The data of documents with pending operations was read.
    pub fn pins_read(&mut self, ctx: &mut Ctx, table: &mut PendingOps, found: Vec<(u32, Data)>) {
        self.pins.is_under_way = false;
        for (id, data) in found {
            let key = ctx.memory.by_id(id).map(|(key, _)| key.clone());
            ctx.memory.hold(id, data);
            table.unshown.note_all(key);
        }
    }

    /// The device could not read them: it is asked again later.
    pub fn pins_failed(&mut self, ctx: &Ctx) {
        self.pins.is_under_way = false;
        self.pins.not_before_ms = ctx.clock.mono_ms + PIN_RETRY_MS;
    }

    /// When to read again after the device failed.
    pub fn pins_due(&self) -> Option<u64> {
        (!self.pins.is_under_way).then_some(self.pins.not_before_ms)
    }
}
