//! Commands of this session: requests to the leader, and their stamps.

use super::follower::Follower;
use super::state::Tabs;
use crate::error::Result;
use crate::journal::{Request, Wanted};
use crate::model::Def;
use crate::store::RecordKey;
use crate::sync::context::Ctx;

/// The commands that a follower remembers. A leader carries requests out within a second: only the last few
/// can matter to a session that begins to lead.
const COMMANDS_MAX: usize = 1_000;

impl Tabs {
    /// The application of this session has given a command about the def. Earlier requests about it, which may
    /// still be in the inbox, no longer count.
    pub fn commanded(&mut self, ctx: &Ctx, def: &Def) {
        let stamp = self.next_stamp(ctx);
        self.commanded.insert(def.clone(), stamp);
        if self.commanded.len() > COMMANDS_MAX {
            let oldest = self.commanded.iter().min_by_key(|(_, stamp)| **stamp);
            if let Some(oldest) = oldest.map(|(def, _)| def.clone()) {
                self.commanded.remove(&oldest);
            }
        }
    }

    /// A stamp of this session: the time, and higher than all its earlier ones.
    fn next_stamp(&mut self, ctx: &Ctx) -> u64 {
        self.last_stamp = ctx.clock.wall_ms.max(self.last_stamp + 1);
        self.last_stamp
    }
}

impl Follower {
    /// Enqueues a request for the inbox, and returns the key that its record will have.
    pub fn ask(&mut self, ctx: &mut Ctx, tabs: &mut Tabs, wanted: Wanted) -> Result<RecordKey> {
        let mut key = RecordKey([0; 16]);
        ctx.random.fill(&mut key.0)?;
        let stamp = tabs.next_stamp(ctx);
        self.queue.push_back((key, Request { stamp, wanted, phase: None }));
        Ok(key)
    }
}
