//! The journal of a server, swept: of each document the newest states stay, with the changes between and after them.
//!
//! A state is added to a document's journal once the changes since its last state have as many bytes. So the journal has at
//! most twice the bytes of the changes. Each change still follows a state.

use escale::Result;
use escale::journal::{ActionMeta, ActionType, ActorSweep, Protect, Retention, iso8601};

use crate::engine::instance::context::Instance;
use crate::provider::{Action, ActionSize, Document, Head, Place, Snapshot, Transaction};

/// Documents looked at in one reading of the database.
const ACTORS: usize = 500;

/// Entries of a journal read at once.
const ENTRIES: usize = 1_000;

/// The most rows and bytes removed in one transaction: others wait for it.
const ROWS_MAX: usize = 500;
const BYTES_MAX: u64 = 8 << 20;

/// The work that the journal of one document needs.
#[derive(Default)]
struct Due {
    /// Whether it lacks a state.
    lacks_state: bool,
    /// The entries that go, from the newest on. Later entries change nothing in that.
    going: Vec<ActionSize>,
}

/// Sweeps the journal of an org. Errors: those of the database.
pub(in crate::engine) fn sweep_journal(instance: &Instance, org: &str) -> Result<()> {
    let most = instance.settings.journal_max;
    if most == 0 {
        return Ok(());
    }
    let mut last = String::new();
    loop {
        let snapshot = instance.provider.read()?;
        let actors = snapshot.actors(org, &last, u64::from(most), ACTORS)?;
        for actor in &actors {
            let Due { lacks_state, mut going } = look(instance, snapshot.as_ref(), actor)?;
            if lacks_state {
                add_state(instance, org, actor)?;
            }
            while !going.is_empty() {
                let (rows, upto) = batch_of(&going);
                going.truncate(going.len() - rows);
                write(instance, org, |tx, head, _| {
                    let gone = tx.remove_actions(actor, upto, rows)?;
                    head.kept = head.kept.saturating_sub(gone.bytes);
                    Ok(())
                })?;
            }
        }
        match actors.into_iter().next_back() {
            Some(actor) => last = actor,
            None => return Ok(()),
        }
    }
}

/// The number of the oldest entries that go in one transaction, and the newest of them.
fn batch_of(going: &[ActionSize]) -> (usize, i64) {
    let (mut bytes, mut rows, mut upto) = (0, 0, i64::MIN);
    for entry in going.iter().rev().take(ROWS_MAX) {
        bytes += entry.bytes;
        if rows > 0 && bytes > BYTES_MAX {
            break;
        }
        (rows, upto) = (rows + 1, entry.number);
    }
    (rows, upto)
}

/// Runs one transaction on the journal of an org. It is no commit that a session depends on.
fn write(
    instance: &Instance,
    org: &str,
    run: impl FnOnce(&mut dyn Transaction, &mut Head, u64) -> Result<()>,
) -> Result<()> {
    let mut lock = instance.hold(org, instance.settings.write_wait)?;
    let now = lock.time.unwrap_or_else(|| instance.clock.now_ms());
    run(lock.tx.as_mut(), &mut lock.head, now)?;
    lock.tx.put_head(&lock.head)?;
    lock.tx.commit().map(drop)
}

/// Adds the present state of a document to its journal.
fn add_state(instance: &Instance, org: &str, actor: &str) -> Result<()> {
    write(instance, org, |tx, head, now| {
        let Some(document) = living(tx.snapshot(), actor)? else { return Ok(()) };
        let (actor, v) = (actor.to_owned(), document.v);
        let (kind, state) = (ActionType::Persist, Some(document.data));
        let action = Action { actor, kind, state, v, commit: format!("v{v}"), timestamp: iso8601(now) };
        head.kept += action.bytes();
        tx.append_action(&action)
    })
}

/// The living document of an actor.
fn living(snapshot: &dyn Snapshot, actor: &str) -> Result<Option<Document>> {
    let Some(at) = Place::of_actor(actor) else { return Ok(None) };
    Ok(snapshot.document(at)?.filter(|document| !document.deleted))
}

fn look(instance: &Instance, snapshot: &dyn Snapshot, actor: &str) -> Result<Due> {
    let rule = Retention::Count(instance.settings.journal_max);
    let mut sweeping = ActorSweep::new(&rule, Protect::Nothing);
    let (mut due, mut changed, mut has_state) = (Due::default(), 0, false);
    let mut below = i64::MAX;
    loop {
        let entries = snapshot.actions_of(actor, below, ENTRIES)?;
        for entry in &entries {
            has_state |= entry.is_whole;
            changed += if has_state { 0 } else { entry.bytes };
            if sweeping.goes(&meta(actor, entry)) {
                due.going.push(*entry);
            }
        }
        match entries.last().filter(|_| entries.len() == ENTRIES) {
            Some(last) => below = last.number,
            None => break,
        }
    }
    if changed > 0 {
        let bytes = living(snapshot, actor)?.map(|document| document.data.len() as u64);
        due.lacks_state = bytes.is_some_and(|bytes| changed >= bytes);
    }
    Ok(due)
}

fn meta(actor: &str, entry: &ActionSize) -> ActionMeta {
    let kind = if entry.is_whole { ActionType::Persist } else { ActionType::Update };
    // The server has accepted all that it records. The rule asks for no time.
    let (actor, timestamp) = (actor.to_owned(), String::new());
    ActionMeta { rowid: entry.number, actor, kind: Some(kind), accepted: true, timestamp }
}
