//! The words of tabs to each other: signals, and the leader's status.

use crate::codec::{Fault, read_json, write_json};
use crate::error::Code;
use crate::journal::Signal;
use crate::model::Def;
use crate::sync::{Machine, Phase, TabEvent, role_of};

/// The signals that every tab obeys.
const SIGNALS: [Signal; 6] =
    [Signal::Lock, Signal::Wipe, Signal::Revoked, Signal::Barred, Signal::Synced, Signal::Avion];

/// The word of a signal, in the channel and in JavaScript.
pub fn word_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Beat => "here",
        Signal::Lock => "locked",
        Signal::Wipe => "wiped",
        Signal::Revoked => "revoked",
        Signal::Barred => "barred",
        Signal::Synced => "synced",
        Signal::Avion => "avion",
    }
}

/// The signal that a message carries, if it carries one.
pub fn signal_of(word: &str) -> Option<Signal> {
    SIGNALS.into_iter().find(|signal| word_of(*signal) == word)
}

/// The leader's message about its status: its phase, its restriction with its role, and the defs that the server refuses, in
/// JSON.
pub(super) fn here(machine: &Machine) -> String {
    let status = machine.status();
    let faults: Vec<(Def, Fault)> =
        status.faults.iter().map(|(def, error)| (def.clone(), error.into())).collect();
    let faults = write_json(&faults).unwrap_or_default();
    let (phase, level, role) = (status.phase.as_str(), status.restriction, status.role.unwrap_or_default());
    format!("{} {phase} {level}:{role} {faults}", word_of(Signal::Beat))
}

/// The phase of such a message without its first word, and the event of the rest.
pub(super) fn read_here(status: &str) -> (Option<Phase>, TabEvent) {
    let (phase, rest) = status.split_once(' ').unwrap_or((status, ""));
    let (standing, faults) = rest.split_once(' ').unwrap_or_default();
    let faults = read_json(faults, Code::Malformed).unwrap_or_default();
    // A tab of an earlier release names no role.
    let (restriction, role) = standing.split_once(':').unwrap_or((standing, ""));
    (Phase::parse(phase), TabEvent::Refused(faults, restriction.parse().unwrap_or(0), role_of(role)))
}
