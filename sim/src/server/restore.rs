//! Restores of the database and new epochs.

use std::sync::Arc;

use escale::model::Epoch;
use escale_server::engine::renew_epoch;
use escale_server::mark::Mark;

use super::{RealServer, SKEW_MS};
use crate::clock::SimClock;
use escale_testkit::world::client::org_name;

/// How a database is restored.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// In place of the old one, next to the present watermark.
    UnderItsMark,
    /// With its watermark, on another disk.
    Elsewhere,
    /// In place of the old one, with its watermark; then a command renews the epoch.
    ByCommand,
}

impl RealServer {
    /// Restores the last copy of the database, `with_store` also that of the objects.
    pub(super) fn put_back(&mut self, now: u64, with_store: bool) -> bool {
        let Some(backup) = self.backup.take() else { return false };
        self.calls.clear();
        self.writes.clear();
        self.files.end_all_work();
        self.wire.heal();
        self.collect();
        let way = [Way::UnderItsMark, Way::Elsewhere, Way::ByCommand][self.below(3) as usize];
        if !matches!(way, Way::UnderItsMark) {
            // Only the clocks can make the new epoch later than the lost one, so they are correct here.
            self.set_back_ms = 0;
        }
        let time = self.epoch_time(now);
        self.show(time);
        let keeps_mark = matches!(way, Way::UnderItsMark);
        self.files.is_replaced = true;
        self.database.put_back(&backup, keeps_mark, matches!(way, Way::Elsewhere));
        if matches!(way, Way::ByCommand) {
            self.renew_there(None, time + SKEW_MS);
        }
        self.start();
        let epochs = self.epochs_there();
        self.saw(&epochs);
        self.record.put_back(&epochs, backup.life.clone());
        self.backup = Some(backup);
        self.files.restored(&self.instances[0].engine, &self.settings, now, with_store);
        self.collect();
        true
    }

    pub(super) fn clocks(&self) -> Vec<Arc<SimClock>> {
        self.instances.iter().map(|instance| instance.clock.clone()).collect()
    }

    /// Renews the epoch of an org, or of all. An org in which nothing was written has none of its own.
    pub(super) fn renew_there(&mut self, org: Option<usize>, time: u64) {
        let (name, org) = (self.random.next_u64(), org.map(org_name));
        let mark = Mark::in_memory(self.database.mark());
        let provider = self.database.provider(&self.wire);
        let has_head = |org: &String| provider.read().is_ok_and(|s| s.head(org).is_ok_and(|h| h.is_some()));
        let is_known = org.as_ref().is_none_or(has_head);
        let renewed = renew_epoch(provider.as_ref(), &mark, org.as_deref(), (time, name));
        assert_eq!(renewed.is_ok(), is_known, "{renewed:?}");
    }

    /// The next epoch is later than these, even if nothing but the clocks knows of them.
    pub(super) fn saw(&mut self, epochs: &[Epoch]) {
        let last = epochs.iter().map(Epoch::ms).max().unwrap_or(0);
        self.last_epoch_ms = self.last_epoch_ms.max(last);
    }
}
