//! The files of operations. An operation is sent only after the server has confirmed, in the present epoch, every file
//! that it references and that the device holds (R24). The bytes are the application's side's matter: it gives its word on
//! each object.

use super::table::PendingOps;
use crate::codec::Fault;
use crate::error::{Code, Error};
use crate::journal::{PendingOp, files_of};
use crate::limits::UPLOADS_AGAIN_MAX;
use crate::model::{Epoch, SortedSet, Value, order};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, FileWord};

/// The word on the files of waiting operations.
#[derive(Default)]
pub struct Files {
    /// The objects that the server has confirmed.
    there: SortedSet<String>,
    /// Those over which the server decides: the device does not hold them, or failed to send them again.
    left_to_server: SortedSet<String>,
    /// The epoch of the confirmations.
    epoch: Option<Epoch>,
    /// The objects that were last asked for.
    asked: Vec<String>,
}

impl Files {
    /// Whether an operation must wait for its files.
    pub fn hold(&self, op: &PendingOp) -> bool {
        op.is_waiting() && op.files.iter().any(|sha| self.lack(sha))
    }

    /// Whether there is no word on an object.
    fn lack(&self, sha: &String) -> bool {
        !self.there.contains(sha) && !self.left_to_server.contains(sha)
    }
}

/// Asks for a word on the objects that operations wait for, if they are others than before.
pub fn ask_for_files(ctx: &mut Ctx, table: &mut PendingOps) {
    if !ctx.config.has_files || ctx.is_following() {
        return;
    }
    let epoch = table.files.epoch.as_ref();
    // The database of a later epoch may have been restored: it may hold less.
    let is_past = ctx.memory.epoch().0.is_some_and(|now| epoch.is_some_and(|own| own < now));
    if is_past || table.pending() == 0 {
        table.files = Files { asked: std::mem::take(&mut table.files.asked), ..Files::default() };
    }
    let mut needed = Vec::new();
    for op in table.waiting() {
        needed.extend(op.files.iter().filter(|sha| table.files.lack(sha)).cloned());
    }
    order::sort(&mut needed);
    needed.dedup();
    if needed != table.files.asked || (is_past && !needed.is_empty()) {
        table.files.asked.clone_from(&needed);
        ctx.effects.push(Effect::Files { needed });
    }
}

/// Takes the word on objects.
pub fn settle_files(ctx: &mut Ctx, table: &mut PendingOps, shas: Vec<String>, word: FileWord) {
    let files = &mut table.files;
    match word {
        FileWord::There(epoch) => {
            if ctx.memory.epoch().0.is_some_and(|now| epoch < *now) {
                // The database was replaced meanwhile, so the word is void, and another one is needed.
                files.asked.clear();
                return;
            }
            // Confirmations of two epochs do not mix: the earlier ones are void.
            if files.epoch.as_ref().is_some_and(|own| *own != epoch) {
                files.there.clear();
            }
            files.epoch = Some(epoch);
            files.there.extend(shas);
        }
        FileWord::Absent => files.left_to_server.extend(shas),
        FileWord::Failed(code) => park_for(ctx, table, shas, code),
    }
}

/// Parks the operations that reference one of these objects. The server may have executed those that were sent before, and
/// dropped the files since: it decides over them.
fn park_for(ctx: &mut Ctx, table: &mut PendingOps, shas: Vec<String>, code: Code) {
    let concerns = |op: &&PendingOp| op.files.iter().any(|sha| shas.contains(sha));
    let orders: Vec<u64> = table.waiting().filter(concerns).map(|op| op.state.order).collect();
    let mut is_any_sent = false;
    for order in orders {
        if table[order].may_be_sent() {
            is_any_sent = true;
        } else {
            table.refuse_here(ctx, order, Error::new(code, "a file that the operation references"));
        }
    }
    if is_any_sent {
        table.files.left_to_server.extend(shas);
    }
}

/// The server lacks files of an operation. Returns whether the device holds one of them: the session then uploads
/// it again, a few times.
pub(super) fn is_to_upload_again(table: &mut PendingOps, order: u64, fault: &Fault) -> bool {
    let of_op = table[order].files.iter();
    let lacking: Vec<String> = of_op.filter(|sha| fault.files.contains(sha)).cloned().collect();
    let mut is_held_here = false;
    for sha in &lacking {
        is_held_here |= table.files.there.remove(sha);
        table.files.left_to_server.remove(sha);
    }
    is_held_here && table[order].state.replaces.len() < UPLOADS_AGAIN_MAX
}

/// The objects that local documents reference, and those of operations which are not over at the server unless `is_local`:
/// their bytes must stay. Local documents come back with an operation that is discarded.
pub fn files(table: &PendingOps, is_local: bool) -> Vec<String> {
    let mut shas = Vec::new();
    let is_open = |op: &PendingOp| !is_local && op.state.accepted.is_none();
    for op in table.iter().filter(|op| op.is_local() || is_open(op)) {
        shas.extend(op.files.iter().cloned());
        let before = op.state.drafts.iter().filter_map(|(.., before)| before.to_map().ok());
        shas.extend(before.flat_map(|state| files_of(&Value::Map(state))));
    }
    order::sort(&mut shas);
    shas.dedup();
    shas
}
