//! Passes the database's feed to the hub: the commits of this process and of others, in commit order.

use std::sync::Arc;
use std::time::Duration;

use escale::Result;
use escale::model::{Def, Name};
use tokio::sync::{Notify, watch};

use super::hub::Hub;
use super::state::{Server, stopped};
use crate::provider::{Changed, FeedRow, Seen};

/// How often the database is asked whether another process has committed. The question takes microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Reads the feed, starting from its end.
pub(super) struct Follower {
    server: Arc<Server>,
    seen: Seen,
}

impl Follower {
    /// Starts at the end of the feed.
    pub(super) fn new(server: Arc<Server>) -> Result<Self> {
        let Changed { seen, .. } = server.engine.provider().changed(None, &mut |_| Ok(()))?;
        Ok(Follower { server, seen })
    }

    /// Passes on the commits since the last call.
    fn look(&mut self) -> Result<()> {
        // A token that was withdrawn before a commit brings no hint of it.
        self.server.tokens.refresh();
        let (engine, hub) = (&self.server.engine, &self.server.hub);
        let mut pass_on = |row: FeedRow| {
            pass_on(hub, &row);
            Ok(())
        };
        let Changed { seen, is_whole } = engine.provider().changed(Some(&self.seen), &mut pass_on)?;
        if !is_whole {
            // Rows were removed before they were read, so every session has to pull.
            self.server.metrics.feed_resets.inc();
            let snapshot = engine.provider().read()?;
            for org in hub.orgs() {
                hub.hint_all(&org, snapshot.head(&org)?.map_or(0, |head| head.highest));
            }
        }
        self.seen = seen;
        Ok(())
    }

    /// Reads the feed until `stop` is set. `committed` wakes it at once after a commit of this process.
    pub(super) async fn run(self, committed: Arc<Notify>, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut follower = Some(self);
        let mut is_failing = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = committed.notified() => {}
                () = stopped(&mut stop) => return,
            }
            let Some(mut following) = follower.take() else { return };
            let looked = tokio::task::spawn_blocking(move || {
                let result = following.look();
                (following, result)
            });
            match looked.await {
                Ok((following, result)) => {
                    // A database that is away for long fills no log.
                    match &result {
                        Err(error) if !is_failing => {
                            tracing::warn!(%error, "the feed cannot be read; it is tried again");
                        }
                        Ok(()) if is_failing => tracing::info!("the feed can be read again"),
                        _ => {}
                    }
                    is_failing = result.is_err();
                    if is_failing {
                        following.server.metrics.feed_failures.inc();
                    }
                    follower = Some(following);
                }
                Err(error) => {
                    tracing::error!(%error, "hints have stopped");
                    return;
                }
            }
        }
    }
}

/// Hints to the listeners of each def that holds the document, or held it before.
fn pass_on(hub: &Hub, row: &FeedRow) {
    if !hub.has_listeners(&row.org) {
        return;
    }
    let Ok(class) = Name::new(&row.class) else { return };
    hub.hint(&row.org, &Def::class_of(&class), row.v);
    if let Ok(pk) = escale::model::Pk::parse(&row.pk) {
        hub.hint(&row.org, &Def::document(&class, &pk), row.v);
    }
    for (collection, hashes) in &row.links {
        let Ok(collection) = Name::new(collection) else { continue };
        for hash in hashes {
            hub.hint(&row.org, &Def::collection_hashed(&class, &collection, hash), row.v);
        }
    }
}
