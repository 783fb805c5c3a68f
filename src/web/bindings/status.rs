//! The status in the form that JavaScript gets: `CoreStatus` as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::ErrorJson;
use crate::sync::{Mode, Phase, Status, StorageState, Updates};

#[derive(Serialize)]
struct StatusJson {
    mode: &'static str,
    phase: &'static str,
    updates: Option<&'static str>,
    leads: bool,
    pending: u64,
    progress: Option<ProgressJson>,
    storage: &'static str,
    damaged: DamagedJson,
    error: Option<ErrorJson>,
    faults: BTreeMap<String, ErrorJson>,
}

#[derive(Serialize)]
struct ProgressJson {
    received: u64,
    total: Option<u64>,
}

#[derive(Default, Serialize)]
struct DamagedJson {
    documents: u64,
    collections: u64,
    operations: u64,
}

pub(super) fn status_json(status: &Status) -> String {
    let json = StatusJson {
        mode: status.mode.as_str(),
        phase: status.phase.as_str(),
        updates: status.updates.map(Updates::as_str),
        leads: status.leads,
        pending: status.pending,
        progress: status.progress.map(|p| ProgressJson { received: p.received, total: p.total }),
        storage: status.storage.as_str(),
        damaged: DamagedJson {
            documents: status.damaged.documents,
            collections: status.damaged.collections,
            operations: status.damaged.operations,
        },
        error: status.error.as_ref().map(ErrorJson::from),
        faults: status.faults.iter().map(|(def, error)| (def.to_string(), error.into())).collect(),
    };
    serde_json::to_string(&json).unwrap_or_default()
}

/// The status of a session that another tab has ended.
pub(super) fn closed_json() -> String {
    let json = StatusJson {
        mode: Mode::Synced.as_str(),
        phase: Phase::Closed.as_str(),
        updates: None,
        leads: false,
        pending: 0,
        progress: None,
        storage: StorageState::None.as_str(),
        damaged: DamagedJson::default(),
        error: None,
        faults: BTreeMap::new(),
    };
    serde_json::to_string(&json).unwrap_or_default()
}
