//! Derives the status from facts about the session.

use super::context::Ctx;
use super::message::{Damaged, Mode, Phase, Progress, Status, StorageState, Updates};
use super::pull::Contact;
use crate::error::{Code, Error};
use crate::memory::synced;
use crate::model::{Def, SortedMap};
use crate::storage::RolledBack;

/// The facts of the parts that the status depends on.
pub struct Facts<'a> {
    pub contact: Contact,
    pub faults: &'a SortedMap<Def, Error>,
    pub restriction: u64,
    pub role: Option<&'static str>,
    pub collections_lost: u64,
    pub documents_lost: u64,
    /// The records of the journal that are gone.
    pub records_lost: u64,
    pub rolled_back: Option<RolledBack>,
    pub storage: StorageState,
    pub storage_error: Option<&'a Error>,
    pub updates: Updates,
    pub socket_error: Option<&'a Error>,
    /// Whether the first socket has neither been registered nor failed.
    pub is_socket_due: bool,
    pub is_token_awaited: bool,
    /// Operations that wait for the server's answer.
    pub pending: u64,
    pub drafts: u64,
    /// The phase that the leader reported.
    pub leader: Phase,
    pub has_nothing_to_do: bool,
}

/// The status.
pub fn status_of(ctx: &Ctx, facts: &Facts<'_>) -> Status {
    let era = ctx.memory.epoch().1;
    let loading = || synced(&ctx.memory).filter(|(_, c)| c.is_loading(era));
    let loads: Vec<_> = loading().collect();
    let progress = (ctx.mode != Mode::Avion && !loads.is_empty()).then(|| {
        let received = loads.iter().map(|(_, c)| c.load.as_ref().map_or(0, |load| load.received)).sum();
        let total = loads.iter().map(|(_, c)| c.load.as_ref().and_then(|load| load.total)).sum();
        Progress { received, total }
    });
    let (records_lost, rolled_back) = (facts.records_lost, facts.rolled_back);
    let damaged = Damaged {
        documents: facts.documents_lost,
        collections: facts.collections_lost,
        operations: rolled_back.map_or(0, |rolled_back| rolled_back.lost),
    };
    let storage = match facts.storage {
        StorageState::Ok if damaged != Damaged::default() || records_lost > 0 => StorageState::Lost,
        other => other,
    };
    let phase = phase_of(ctx, facts, loads.iter().any(|(def, _)| !facts.faults.contains_key(*def)));
    // If no operation is lost, a restored store is reported only until the server has sent everything
    // again.
    let is_made_good = facts.contact.has_answered && facts.collections_lost == 0;
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
            let detail =
                format!("{records_lost} records of the journal are gone, each may have held an operation");
            Error::new(Code::LocalDataLost, detail)
        })
    });
    let error = ctx.errors.last().or(facts.socket_error).or(facts.storage_error);
    let error = lost.or_else(|| error.cloned());
    let (pending, faults) = (facts.pending, facts.faults.clone());
    Status {
        mode: ctx.mode,
        phase,
        updates: (!ctx.is_following() && ctx.mode != Mode::Avion).then_some(facts.updates),
        leads: !ctx.is_following(),
        pending,
        drafts: facts.drafts,
        progress,
        storage,
        damaged,
        error,
        faults,
        restriction: facts.restriction,
        role: facts.role,
    }
}

fn phase_of(ctx: &Ctx, facts: &Facts<'_>, is_loading: bool) -> Phase {
    if ctx.mode == Mode::Avion {
        return Phase::Avion;
    }
    if ctx.is_following() {
        return facts.leader;
    }
    if facts.is_token_awaited && ctx.errors.last().is_some() {
        return Phase::Paused;
    }
    let nothing_to_do = facts.has_nothing_to_do;
    let contact = facts.contact;
    if contact.lacks_org && ctx.network && !nothing_to_do {
        return Phase::Loading;
    }
    if (contact.is_failing && !nothing_to_do) || !ctx.network {
        return Phase::Offline;
    }
    if !facts.contact.has_answered && !nothing_to_do {
        return Phase::Opening;
    }
    if is_loading {
        return Phase::Loading;
    }
    // How changes will be reported is not known before the first socket is registered or has failed.
    if facts.is_socket_due && !nothing_to_do { Phase::Opening } else { Phase::Live }
}
