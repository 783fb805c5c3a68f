//! Passes the database's feed to the hub: the commits of this process and of others, in commit order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use escale::Result;
use escale::model::{Def, DefKind, Name, Pk, Version};
use tokio::sync::{Notify, watch};

use super::hub::Hub;
use super::state::Server;
use super::stopped::stopped;
use crate::accounts::AccountTokens;
use crate::engine::{Access, Restrictions, items_told_by, whole_row};
use crate::provider::{Changed, FeedRow, Seen};

/// How often the database is asked whether another process has committed. The question takes microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pushes that sockets may be given in a second. A def that changes all the time is pushed less often.
const PUSHES_A_SECOND: u32 = 10_000;

/// Defs that wait to be pushed. Further ones are only hinted.
const DUE_MAX: usize = 1_000;

/// Reads the feed, starting from its end.
pub(super) struct Follower {
    server: Arc<Server>,
    seen: Seen,
    pushes: Pushes,
}

/// Defs with many followers that have changed, from that version on (R41).
struct Pushes {
    due: BTreeMap<(String, Def), Version>,
    /// No push before this time.
    free_at: Instant,
}

impl Follower {
    /// Starts at the end of the feed.
    pub(super) fn new(server: Arc<Server>) -> Result<Self> {
        let Changed { seen, .. } = server.engine.provider().changed(None, &mut |_| Ok(()))?;
        let pushes = Pushes { due: BTreeMap::new(), free_at: Instant::now() };
        Ok(Follower { server, seen, pushes })
    }

    /// Passes on the commits since the last call.
    fn look(&mut self) -> Result<()> {
        // A token that was withdrawn before a commit brings no hint of it.
        self.server.tokens.refresh();
        let (engine, hub) = (&self.server.engine, &self.server.hub);
        let access = Access::of(engine);
        let pushes = &mut self.pushes;
        let accounts = self.server.accounts.as_ref();
        // An account of these orgs has changed. Their later rows wait until its tokens are read again, so a socket whose
        // token has ended gets no hint of them.
        let mut waiting: BTreeMap<String, (BTreeSet<String>, Vec<FeedRow>)> = BTreeMap::new();
        let mut pass_on = |row: FeedRow| {
            if !hub.has_listeners(&row.org) {
                return;
            }
            // Doubts come before the hints of the same row and of later ones: a socket that has lost a right hears no more.
            if let Some(collection) = access.memberships_of(&row.class) {
                let accounts = row.links.get(collection.as_str()).into_iter().flatten();
                accounts.for_each(|account| hub.doubt(&row.org, account));
            }
            for def in access.items_decided_by(&row.class, &row.pk) {
                hub.doubt_def(&row.org, &def);
                let items =
                    if access.asks_parent(&def) { hub.single_items(&row.org, &def) } else { Vec::new() };
                for item in items {
                    hub.doubt_def(&row.org, &item);
                }
            }
            if let Some((items, is_end)) = items_told_by(engine.schema(), &row) {
                let ended = if is_end { hub.single_items(&row.org, &items) } else { Vec::new() };
                for item in &ended {
                    hub.hint(&row.org, item, row.v);
                }
                if !is_end && let Some(item) = single(&row) {
                    hub.note_item(&row.org, &item, &items);
                }
            }
            let decides_by_document = access.is_decided_by_document(&row.class);
            pass_on(&row, &mut |def, v| {
                if decides_by_document && matches!(def.kind(), DefKind::Document(_)) {
                    hub.doubt_def(&row.org, &def);
                }
                hub.hint(&row.org, &def, v);
                pushes.note(hub, &row.org, def, v);
            });
        };
        let mut restricted: BTreeSet<String> = BTreeSet::new();
        let mut visit = |row: FeedRow| {
            let row = whole_row(engine, row)?;
            if Restrictions::is_relevant(&row.class) {
                // Before the rows that follow it: a socket that may not read any more must not hear of them.
                Restrictions::of(engine).invalidate(Some(&row.org));
                restricted.insert(row.org);
            } else if AccountTokens::is_relevant(&row.class) {
                waiting.entry(row.org).or_default().0.insert(row.pk);
            } else if let Some((_, rows)) = waiting.get_mut(&row.org) {
                rows.push(row);
            } else {
                pass_on(row);
            }
            Ok(())
        };
        let Changed { seen, is_whole } = engine.provider().changed(Some(&self.seen), &mut visit)?;
        if let Some(accounts) = accounts {
            for (org, (changed, _)) in &waiting {
                accounts.tokens.invalidate(engine, Some((org, changed)));
            }
            if !is_whole {
                accounts.tokens.invalidate(engine, None);
            }
        }
        waiting.into_values().flat_map(|(_, rows)| rows).for_each(pass_on);
        for org in &restricted {
            hub.doubt_all(org);
        }
        if !is_whole {
            // Rows were removed before they were read, so every session has to pull.
            self.server.metrics.feed_resets.inc();
            Restrictions::of(engine).invalidate(None);
            let snapshot = engine.provider().read()?;
            for org in hub.orgs() {
                hub.doubt_all(&org);
                hub.hint_all(&org, snapshot.head(&org)?.map_or(0, |head| head.highest));
            }
        }
        self.seen = seen;
        self.pushes.give(&self.server);
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

impl Pushes {
    /// A def has changed at that version. Small numbers of followers are hinted at once, and need no push.
    fn note(&mut self, hub: &Hub, org: &str, def: Def, v: Version) {
        if self.due.len() < DUE_MAX && hub.is_crowded(org, &def) {
            let first = self.due.entry((org.to_owned(), def)).or_insert(v);
            *first = v.min(*first);
        }
    }

    /// Gives the pushes for which it is time. A push that fails is no loss, because hints follow.
    fn give(&mut self, server: &Server) {
        while Instant::now() >= self.free_at
            && let Some(((org, def), v)) = self.due.pop_first()
        {
            let followers = server.hub.followers(&org, &def);
            let pushed = server.engine.push(&org, &def, v, &followers.sessions);
            let given = pushed.and_then(|pushed| pushed.map_or(Ok(0), |pushed| Hub::push(followers, pushed)));
            match given {
                Ok(count) => {
                    server.metrics.pushes.inc_by(count);
                    let count = u32::try_from(count).unwrap_or(u32::MAX);
                    self.free_at = Instant::now() + Duration::from_secs(1) * count / PUSHES_A_SECOND;
                }
                Err(error) => tracing::warn!(%error, "a push failed"),
            }
        }
    }
}

/// The def of the document alone.
fn single(row: &FeedRow) -> Option<Def> {
    Some(Def::document(&Name::new(&row.class).ok()?, &Pk::parse(&row.pk).ok()?))
}

/// Visits each def that holds the document, or held it before.
fn pass_on(row: &FeedRow, visit: &mut dyn FnMut(Def, Version)) {
    let Ok(class) = Name::new(&row.class) else { return };
    visit(Def::class_of(&class), row.v);
    if let Some(def) = single(row) {
        visit(def, row.v);
    }
    for (collection, hashes) in &row.links {
        let Ok(collection) = Name::new(collection) else { continue };
        for hash in hashes {
            visit(Def::collection_hashed(&class, &collection, hash), row.v);
        }
    }
}
