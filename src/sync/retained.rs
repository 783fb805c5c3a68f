//! Reads the base of documents with pending operations into memory, if it is only on the device.

use super::machine::Machine;
use super::message::Effect;
use super::reads::{Purpose, Reading};
use crate::model::SortedSet;

/// Delay after the device failed to read them.
const PIN_RETRY_MS: u64 = 1_000;

/// The reading that is in progress, if any.
#[derive(Default)]
pub(super) struct PinReading {
    is_under_way: bool,
    /// No reading before this time, since the device failed.
    not_before_ms: u64,
}

impl Machine {
    /// Begins to read the bases that are needed and not in memory.
    pub(super) fn read_pins(&mut self) {
        if self.writes.pins.is_under_way || self.ctx.clock.mono_ms < self.writes.pins.not_before_ms {
            return;
        }
        let ids = self.ctx.memory.pins_at_rest();
        let places: SortedSet<u64> =
            ids.iter().filter_map(|id| self.ctx.memory.by_id(*id)?.1.slot).map(|place| place.page).collect();
        let Some(layout) = self.ctx.layout.as_ref().filter(|_| !places.is_empty()) else { return };
        let pages: Vec<u64> = places.into_iter().collect();
        let keys = pages.iter().map(|page| layout.page_key(*page)).collect();
        let ticket = self.reads.start(Reading { pages, purpose: Purpose::Pins { ids } });
        self.writes.pins.is_under_way = true;
        self.ctx.effects.push(Effect::ReadPages { ticket, keys });
    }

    /// The data of documents with pending operations was read.
    pub(super) fn pins_read(&mut self, found: Vec<(u32, crate::codec::Data)>) {
        self.writes.pins.is_under_way = false;
        for (id, data) in found {
            let key = self.ctx.memory.by_id(id).map(|(key, _)| key.clone());
            self.ctx.memory.hold(id, data);
            self.writes.stale.extend(key);
        }
    }

    /// The device could not read them: it is asked again later.
    pub(super) fn pins_failed(&mut self) {
        self.writes.pins.is_under_way = false;
        self.writes.pins.not_before_ms = self.ctx.clock.mono_ms + PIN_RETRY_MS;
    }

    /// When to read again after the device failed.
    pub(super) fn pins_due(&self) -> Option<u64> {
        (!self.writes.pins.is_under_way).then_some(self.writes.pins.not_before_ms)
    }
}
