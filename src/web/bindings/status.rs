//! The status in the form that JavaScript gets: `CoreStatus` as JSON.

use super::error::ErrorJson;
use crate::codec::Presence::Required;
use crate::codec::{Encode, FieldOut, Named, Writer, write_json};
use crate::sync::{Mode, Phase, Status, StorageState, Updates};

struct StatusJson {
    mode: Mode,
    phase: Phase,
    updates: Option<Updates>,
    leads: bool,
    pending: u64,
    drafts: u64,
    progress: Option<Counts<2>>,
    storage: StorageState,
    damaged: Counts<3>,
    error: Option<ErrorJson>,
    faults: Named<ErrorJson>,
    restriction: u64,
    role: Option<&'static str>,
}

/// Counts under their names.
struct Counts<const N: usize>([(&'static str, Option<u64>); N]);

impl<const N: usize> Encode for Counts<N> {
    fn encode(&self, out: &mut Writer) {
        let fields = self.0.each_ref().map(|(name, count)| -> FieldOut<'_> { (*name, Required, count) });
        out.record(&fields);
    }
}

impl Encode for StatusJson {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("mode", Required, &self.mode.as_str()),
            ("phase", Required, &self.phase.as_str()),
            ("updates", Required, &self.updates.map(Updates::as_str)),
            ("leads", Required, &self.leads),
            ("pending", Required, &self.pending),
            ("drafts", Required, &self.drafts),
            ("progress", Required, &self.progress),
            ("storage", Required, &self.storage.as_str()),
            ("damaged", Required, &self.damaged),
            ("error", Required, &self.error),
            ("faults", Required, &self.faults),
            ("restriction", Required, &self.restriction),
            ("role", Required, &self.role),
        ]);
    }
}

pub(super) fn status_json(status: &Status) -> String {
    let damaged = &status.damaged;
    let json = StatusJson {
        mode: status.mode,
        phase: status.phase,
        updates: status.updates,
        leads: status.leads,
        pending: status.pending,
        drafts: status.drafts,
        progress: status.progress.map(|p| Counts([("received", Some(p.received)), ("total", p.total)])),
        storage: status.storage,
        damaged: damaged_json(damaged.documents, damaged.collections, damaged.operations),
        error: status.error.as_ref().map(ErrorJson::from),
        faults: Named(status.faults.iter().map(|(def, error)| (def.to_string(), error.into())).collect()),
        restriction: status.restriction,
        role: status.role,
    };
    write_json(&json).unwrap_or_default()
}

fn damaged_json(documents: u64, collections: u64, operations: u64) -> Counts<3> {
    Counts([
        ("documents", Some(documents)),
        ("collections", Some(collections)),
        ("operations", Some(operations)),
    ])
}
