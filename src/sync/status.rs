//! Derives the status from the state of the session.

use super::message::{Damaged, Mode, Phase, Progress, Status, StorageState};
use super::router::Router;
use crate::error::{Code, Error};
use crate::storage::RolledBack;

impl Router {
    /// The status.
    pub fn status(&self) -> Status {
        let era = self.ctx.memory.epoch().1;
        let loading = || self.ctx.memory.collections().filter(|(_, c)| c.is_loading(era));
        let loads: Vec<_> = loading().collect();
        let progress = (self.ctx.mode != Mode::Avion && !loads.is_empty()).then(|| {
            let received = loads.iter().map(|(_, c)| c.load.as_ref().map_or(0, |load| load.received)).sum();
            let total = loads.iter().map(|(_, c)| c.load.as_ref().and_then(|load| load.total)).sum();
            Progress { received, total }
        });
        let (records_lost, rolled_back) = self.device.losses();
        let damaged = Damaged {
            documents: self.reads.lost.len() as u64,
            collections: self.pull.lost().len() as u64,
            operations: rolled_back.map_or(0, |rolled_back| rolled_back.lost),
        };
        let storage = match self.device.state() {
            StorageState::Ok if damaged != Damaged::default() || records_lost > 0 => StorageState::Lost,
            other => other,
        };
        let phase = self.phase(loads.iter().any(|(def, _)| !self.pull.faults().contains_key(*def)));
        // If no operation is lost, a restored store is reported only until the server has sent everything
        // again.
        let is_made_good = self.pull.contact().has_answered && self.pull.lost().is_empty();
        let rolled_back = rolled_back.filter(|rolled_back| rolled_back.lost > 0 || !is_made_good);
        let rolled_back = rolled_back.map(|RolledBack { records, pending, lost }| {
            let detail = format!(
                "the store has lost its newest records, or all: {records} records were there when it was last written, \
                 and {pending} operations were pending, of which {lost} may be lost"
            );
            Error::new(Code::LocalDataLost, detail)
        });
        let lost = rolled_back.or_else(|| {
            (records_lost > 0).then(|| {
                let detail = format!(
                    "{records_lost} records of the journal are gone, each may have held an operation"
                );
                Error::new(Code::LocalDataLost, detail)
            })
        });
        let error = self.ctx.errors.last().or(self.live.error()).or(self.device.error());
        let error = lost.or_else(|| error.cloned());
        let (pending, faults) = (self.outbox.table.pending(), self.pull.faults().clone());
        Status {
            mode: self.ctx.mode,
            phase,
            updates: (!self.ctx.is_following && self.ctx.mode != Mode::Avion)
                .then(|| self.live.updates(&self.ctx)),
            leads: !self.ctx.is_following,
            pending,
            progress,
            storage,
            damaged,
            error,
            faults,
        }
    }

    fn phase(&self, is_loading: bool) -> Phase {
        if self.ctx.mode == Mode::Avion {
            return Phase::Avion;
        }
        if self.ctx.is_following {
            return self.tabs.phase;
        }
        if self.token.is_awaited() && self.ctx.errors.last().is_some() {
            return Phase::Paused;
        }
        let nothing_to_do = self.has_nothing_to_do();
        let contact = self.pull.contact();
        if contact.lacks_org && self.ctx.network && !nothing_to_do {
            return Phase::Loading;
        }
        if (contact.is_failing && !nothing_to_do) || !self.ctx.network {
            return Phase::Offline;
        }
        if !self.pull.contact().has_answered && !nothing_to_do {
            return Phase::Opening;
        }
        if is_loading {
            return Phase::Loading;
        }
        // How changes will be reported is not known before the first socket is registered or has failed.
        if self.live.is_due(&self.ctx) && !nothing_to_do { Phase::Opening } else { Phase::Live }
    }
}
