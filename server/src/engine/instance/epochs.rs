//! Epochs: the first state of a database, the next epoch, and its begin in every org (R8).

use std::time::Duration;

use escale::model::Epoch;
use escale::{Code, Error, Result};

use crate::mark::Mark;
use crate::provider::{Head, Maintenance, Site};

/// How long the opening waits for the writes of another process.
pub(in crate::engine) const WRITE_WAIT: Duration = Duration::from_secs(5);

/// Heads read at once.
pub(in crate::engine) const HEADS: usize = 1_000;

/// The state of a database that is made at `now_ms`.
pub fn first_site(now_ms: u64) -> Result<Site> {
    let mut cursor_key = vec![0; 32];
    getrandom::fill(&mut cursor_key).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    let epoch = make_epoch(now_ms, fresh_name()?)?;
    Ok(Site {
        last_epoch: epoch.clone(),
        epoch,
        generation: 0,
        commits: 0,
        promised_now: 0,
        cursor_key,
        schema: String::new(),
        seal_check: Vec::new(),
        server: None,
    })
}

/// A random name for an epoch.
pub fn fresh_name() -> Result<u64> {
    let mut random = <[u8; 8]>::default();
    getrandom::fill(&mut random).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    Ok(u64::from_be_bytes(random))
}

/// A new epoch, made at `ms`.
fn make_epoch(ms: u64, name: u64) -> Result<Epoch> {
    Epoch::new(ms, &format!("{name:016x}"))
}

/// The next epoch: later than those of the database and of its watermark, even if the clock is behind.
/// `fresh` is the time, and the epoch's name.
pub(in crate::engine) fn next_epoch(site: &Site, mark: &Mark, (now_ms, name): (u64, u64)) -> Result<Epoch> {
    next_epoch_after(0, site, mark, (now_ms, name))
}

/// The same, and later than an epoch that began at `ms`.
pub(in crate::engine) fn next_epoch_after(
    ms: u64,
    site: &Site,
    mark: &Mark,
    (now_ms, name): (u64, u64),
) -> Result<Epoch> {
    let last = mark.epoch().map_or(ms, |epoch| epoch.ms().max(ms));
    make_epoch(now_ms.max(site.last_epoch.ms().max(last) + 1), name)
}

/// Begins an epoch of the site and of every org. The caller stores the site.
pub(in crate::engine) fn renew_all(tx: &mut dyn Maintenance, site: &mut Site, epoch: &Epoch) -> Result<()> {
    each_head(tx, |tx, org, head| tx.put_head(org, &renewed(head, epoch)))?;
    (site.epoch, site.last_epoch) = (epoch.clone(), epoch.clone());
    Ok(())
}

/// Visits the head of each org.
pub(in crate::engine) fn each_head(
    tx: &mut dyn Maintenance,
    mut visit: impl FnMut(&mut dyn Maintenance, &str, Head) -> Result<()>,
) -> Result<()> {
    let mut last = String::new();
    loop {
        let heads = tx.snapshot().heads(&last, HEADS)?;
        let Some((org, _)) = heads.last() else { return Ok(()) };
        last.clone_from(org);
        for (org, head) in heads {
            visit(tx, &org, head)?;
        }
    }
}

pub(in crate::engine) fn renewed(head: Head, epoch: &Epoch) -> Head {
    Head { epoch: epoch.clone(), commits: head.commits + 1, ..head }
}
