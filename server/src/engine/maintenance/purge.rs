//! Maintenance of the database: the purge, and the renewal of the epoch.

use std::path::Path;

use escale::limits::VERSION_MAX;
use escale::model::Epoch;
use escale::{Code, Error, Result};

use crate::engine::effects::file_references::release;
use crate::engine::files::filing::Filing;
use crate::engine::instance::context::Instance;
use crate::engine::instance::epochs::{
    HEADS, WRITE_WAIT, first_site, fresh_name, next_epoch, renew_all, renewed,
};
use crate::engine::maintenance::sweep::sweep_journal;
use crate::engine::records::counter::{Counted, put_counter, read_counter};
use crate::engine::records::opened::{Opened, read_document};
use crate::engine::tx::trees::{items_of, parent_of};
use crate::mark::{Mark, Reached};
use crate::provider::{
    Document, Place, Provider, Purged, SqliteProvider, TOMBSTONES_MAX, Transaction, Tree, inspect,
};

/// Documents and departures purged in one transaction: far below the time limit of a write.
const PURGE_BATCH: usize = 500;

/// The same once there are files: each document may have a thousand references, which end with it.
const PURGE_BATCH_WITH_FILES: usize = 25;

/// A tombstone stays in its collection for so many times `delta`. Until then a session may hold its document
/// by a later link than the list of members is compared with.
const TRIM_DELTAS: u64 = 60;

impl Instance {
    /// Removes everything older than the retention time, org by org, and moves their horizons there (R6).
    /// Returns how many tombstones, expired documents and departures were removed. Old results of operations
    /// are removed too. An org whose writes leave no turn is left out, and reported in the end: `contention`.
    pub fn purge(&self) -> Result<u64> {
        let (mut n, mut contended) = (0, None);
        let mut last = String::new();
        loop {
            let heads = self.provider.read()?.heads(&last, HEADS)?;
            for (org, _) in &heads {
                match self.purge_org(org) {
                    Ok(gone) => n += gone,
                    Err(error) if error.code() == Code::Contention => contended = Some(error),
                    Err(error) => return Err(error),
                }
            }
            match heads.into_iter().next_back() {
                Some((org, _)) => last = org,
                None => return contended.map_or(Ok(n), Err),
            }
        }
    }

    fn purge_org(&self, org: &str) -> Result<u64> {
        let (mut n, batch) = (0, purge_batch(self)?);
        loop {
            let mut lock = self.hold(org, self.settings.write_wait)?;
            let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
            let horizon = lock.head.horizon.max(now.saturating_sub(self.settings.retention_ms()));
            let purged = lock.tx.purge(now, horizon, batch)?;
            let gone = purged.count();
            n += gone;
            if gone > 0 {
                count_purged(self, lock.tx.as_mut(), (org, now), &purged)?;
                let removed = purged.documents.iter().map(|(class, pk, _)| (class.as_str(), pk.as_str()));
                release(lock.tx.as_mut(), org, removed, (&self.settings, now))?;
                // The horizon moves with the first removal, and not before. Until then no session needs
                // `present`.
                if gone > self.raise_horizons(lock.tx.as_mut(), org, &purged)? {
                    lock.head.horizon = horizon;
                }
                self.commit(lock)?;
            }
            if gone < batch as u64 {
                break;
            }
        }
        n += self.purge_trees(org, batch)?;
        n += Filing::of(self).purge_files(org)?;
        self.purge_results(org)?;
        sweep_journal(self, org)?;
        Ok(n)
    }

    /// The versions of the clock `sequence` are below no time. So its trees have horizons of their own, which move above
    /// all that was removed (R20). Returns how many of the removed documents were in such trees.
    fn raise_horizons(&self, tx: &mut dyn Transaction, org: &str, purged: &Purged) -> Result<u64> {
        let mut n = 0;
        for (class, pk, Document { v, shown, .. }) in &purged.documents {
            // A parent's record tells its clock, also while its class is in no schema.
            let parent = self.schema.class(class).ok().and_then(|class| parent_of(class, shown));
            let (class, pk) = parent.unwrap_or_else(|| (class.into(), pk.into()));
            let at = Place { org, class: &class, pk: &pk };
            let Some(tree) = tx.snapshot().tree(at)?.filter(Tree::is_sequence) else { continue };
            n += 1;
            tx.put_tree(at, &Tree { horizon: tree.horizon.max(v + 1), ..tree })?;
        }
        Ok(n)
    }

    /// Removes the items that ended with their parents, and the oldest tombstones of trees that have many.
    fn purge_trees(&self, org: &str, batch: usize) -> Result<u64> {
        let (mut n, mut last) = (0, (String::new(), String::new()));
        loop {
            let snapshot = self.provider.read()?;
            let time = self.time_by(snapshot.server()?.as_ref())?;
            let horizon = snapshot.head(org)?.map_or(0, |head| head.horizon);
            let before = horizon.max(time.saturating_sub(self.settings.retention_ms()));
            let due = snapshot.due_trees(org, (&last.0, &last.1), before, HEADS)?;
            drop(snapshot);
            let Some((class, pk, _)) = due.last() else { return Ok(n) };
            last = (class.clone(), pk.clone());
            for (class, pk, _) in &due {
                while let Some(gone) = self.purge_tree(Place { org, class, pk }, batch)? {
                    n += gone;
                }
            }
        }
    }

    /// One transaction of that for one tree. Returns how many items and tombstones went; none if nothing is
    /// left to be done.
    fn purge_tree(&self, at: Place, batch: usize) -> Result<Option<u64>> {
        let mut lock = self.hold(at.org, self.settings.write_wait)?;
        let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
        let horizon = lock.head.horizon.max(now.saturating_sub(self.settings.retention_ms()));
        let Some(before) = lock.tx.snapshot().tree(at)? else { return Ok(None) };
        let (mut tree, mut room, mut is_over) = (before.clone(), batch, false);
        let items = items_of(&self.schema, at.class, at.pk);
        // A number is no time. The floor alone tells a session of the items below it (R20).
        let is_sequence = tree.is_sequence();
        let due_before = if is_sequence { VERSION_MAX } else { horizon };
        if (1..due_before).contains(&tree.due) {
            for def in &items {
                let gone = lock.tx.purge_items(def, tree.due, room)?;
                let removed = gone.iter().map(|pk| (def.class().as_str(), pk.as_str()));
                release(lock.tx.as_mut(), at.org, removed, (&self.settings, now))?;
                room -= gone.len();
            }
            if room > 0 {
                let rest = if tree.due < tree.floor { tree.floor } else { 0 };
                let parent = read_document(lock.tx.snapshot(), &self.seal, at)?;
                // The numbers of a tree go on for ever.
                is_over = rest == 0 && parent.is_none() && !is_sequence;
                // The tombstone of a parent is purged before its tree.
                if rest > 0 || is_sequence || parent.is_none_or(|parent| !parent.document.deleted) {
                    tree.due = rest;
                }
            }
        }
        // Sessions that know of an item from before learn of its end by the head's horizon, or by the floor.
        let ended = batch - room;
        if tree.tombstones > TOMBSTONES_MAX && !is_over {
            tree.tombstones = 0;
            for def in &items {
                let delay = self.settings.delta_ms * TRIM_DELTAS;
                let settled = if is_sequence { VERSION_MAX } else { now.saturating_sub(delay) };
                let trimmed = lock.tx.trim_items(def, TOMBSTONES_MAX, settled, room)?;
                room -= trimmed.removed as usize;
                tree.horizon = tree.horizon.max(trimmed.horizon);
                tree.tombstones += trimmed.left;
            }
        }
        if is_over {
            lock.tx.remove_tree(at)?;
        } else if tree != before {
            lock.tx.put_tree(at, &tree)?;
        } else if ended == 0 {
            return Ok(None);
        }
        if (ended > 0 && !is_sequence) || is_over {
            lock.head.horizon = horizon;
        }
        self.commit(lock)?;
        Ok(Some((batch - room) as u64))
    }

    /// Removes the results of old operations (R11). Their ids, and the last number of each session, are kept
    /// for ever.
    fn purge_results(&self, org: &str) -> Result<()> {
        loop {
            let mut lock = self.hold(org, self.settings.write_wait)?;
            let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
            let before = now.saturating_sub(self.settings.results_ms());
            let gone = lock.tx.purge_operations(before, PURGE_BATCH)?;
            if gone.rows > 0 {
                lock.head.kept = lock.head.kept.saturating_sub(gone.bytes);
                lock.tx.put_head(&lock.head)?;
                lock.tx.commit()?;
            }
            if gone.rows < PURGE_BATCH as u64 {
                return Ok(());
            }
        }
    }
}

fn purge_batch(instance: &Instance) -> Result<usize> {
    let has_files = instance.provider.read()?.files().has_files()?;
    Ok(if has_files { PURGE_BATCH_WITH_FILES } else { PURGE_BATCH })
}

/// Counts back the documents whose lives had ended (R88).
fn count_purged(
    instance: &Instance,
    tx: &mut dyn Transaction,
    (org, now): (&str, u64),
    purged: &Purged,
) -> Result<()> {
    for (class, pk, document) in purged.documents.iter().filter(|(_, _, document)| !document.deleted) {
        let (Some(quota), Ok(of)) = (instance.rights.quota(class), instance.schema.class(class)) else {
            continue;
        };
        let opened = Opened::of(&instance.seal, Place { org, class, pk }, document.clone())?;
        let counted = Counted::stored((of, quota), &opened)?;
        for of in counted.names() {
            let mut counter = read_counter(tx.snapshot(), &instance.seal, (org, of))?;
            counter.subtract(&counted);
            put_counter(tx, &instance.seal, (org, of, now), &counter)?;
        }
    }
    Ok(())
}

/// The epoch of an org in the database file at `path`. Without an org, the epoch of all orgs in which nothing
/// was written. Writes nothing. Errors: `bad_option` for an org in which nothing was written.
pub fn epoch_of(path: &Path, org: Option<&str>) -> Result<Epoch> {
    let (site, head) = inspect(path, org.unwrap_or_default())?;
    match org {
        None => Ok(site.epoch),
        Some(org) => Ok(head.ok_or_else(|| no_org(org))?.epoch),
    }
}

/// The epoch of an org in a database; without an org, that of all orgs in which nothing was written. Errors: as
/// for [`epoch_of`].
pub fn epoch_in(provider: &dyn Provider, org: Option<&str>) -> Result<Epoch> {
    let snapshot = provider.read()?;
    match org {
        None => Ok(snapshot.site()?.epoch),
        Some(org) => Ok(snapshot.head(org)?.ok_or_else(|| no_org(org))?.epoch),
    }
}

/// Begins a new epoch of an org in the database file at `path`, or of all of it (R8, R37). A server may be
/// using it. Their sessions then load their collections again. Errors: as for [`epoch_of`].
pub fn renew_epoch_of(path: &Path, org: Option<&str>, now_ms: u64) -> Result<Epoch> {
    if !path.is_file() {
        return Err(Error::new(Code::NoStore, "no database here: import something first"));
    }
    let provider = SqliteProvider::open(path, &first_site(now_ms)?)?;
    renew_epoch(&provider, &Mark::next_to(path), org, (now_ms, fresh_name()?))
}

/// Begins a new epoch of an org or of all of a database. `fresh` is the time, and the epoch's name.
pub fn renew_epoch(
    provider: &dyn Provider,
    mark: &Mark,
    org: Option<&str>,
    fresh: (u64, u64),
) -> Result<Epoch> {
    let mut tx = provider.maintain(WRITE_WAIT)?;
    let mut site = tx.snapshot().site()?;
    let epoch = next_epoch(&site, mark, fresh)?;
    match org {
        None => renew_all(tx.as_mut(), &mut site, &epoch)?,
        Some(org) => {
            let head = tx.snapshot().head(org)?.ok_or_else(|| no_org(org))?;
            tx.put_head(org, &renewed(head, &epoch))?;
            site.last_epoch = epoch.clone();
        }
    }
    tx.put_site(&site)?;
    let commits = tx.commit()?;
    mark.write(&Reached { epoch: epoch.clone(), commits });
    Ok(epoch)
}

fn no_org(org: &str) -> Error {
    Error::new(Code::BadOption, format!("--org {org}: nothing was written in it"))
}
