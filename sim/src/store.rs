//! The store of objects under the instances: in memory, and its calls stop, fail, come late and come twice.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escale::{Code, Error, Result};
use escale_server::files::{Files, MemoryFiles};
use escale_testkit::files::FilesFault;

use crate::fiber::pause;

thread_local! {
    /// When the work on this thread began, and with it the line in `purges` that remembers its object.
    static BEGAN: Cell<u64> = const { Cell::new(0) };
}

/// Org and name of an object.
pub type Named = (String, String);

/// The store. Clones share it.
#[derive(Clone, Default)]
pub struct SlowFiles(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: MemoryFiles,
    now: u64,
    /// So many calls fail.
    down: u8,
    late_put: Option<(u64, bool)>,
    late_delete: Option<(u64, bool)>,
    /// Calls that are done at a later time.
    late: Vec<(u64, Late)>,
    /// Objects that came since the last look, each with the time at which its upload began.
    came: Vec<(Named, u64)>,
    is_changed: bool,
}

enum Late {
    Put { named: Named, bytes: Vec<u8>, began: u64 },
    Delete(Named),
}

impl State {
    fn put(&mut self, named: Named, bytes: &[u8], began: u64) -> Result<()> {
        self.objects.put(&named.0, &named.1, bytes)?;
        self.came.push((named, began));
        self.is_changed = true;
        Ok(())
    }

    fn delete(&mut self, named: &Named) -> Result<()> {
        self.is_changed = true;
        self.objects.delete(&named.0, &named.1)
    }

    /// Does the late calls that are due.
    fn catch_up(&mut self, is_due: impl Fn(u64, &Late) -> bool) {
        let (due, rest) =
            std::mem::take(&mut self.late).into_iter().partition(|(at, late)| is_due(*at, late));
        self.late = rest;
        let due: Vec<(u64, Late)> = due;
        for (_, late) in due {
            let done = match late {
                Late::Put { named, bytes, began } => self.put(named, &bytes, began),
                Late::Delete(named) => self.delete(&named),
            };
            done.expect("a store in memory");
        }
    }

    /// Fails if the store is down.
    fn meet(&mut self) -> Result<()> {
        match self.down.checked_sub(1) {
            Some(left) => {
                self.down = left;
                Err(failed("the store of the simulation is down"))
            }
            None => Ok(()),
        }
    }
}

fn failed(why: &str) -> Error {
    Error::new(Code::StorageFailed, why)
}

fn stop() -> Result<()> {
    pause().map_err(|_| failed("the process has ended"))
}

impl SlowFiles {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the world's time, which late calls wait for.
    pub fn show(&self, now: u64) {
        let mut state = self.state();
        state.now = now;
        if !state.late.is_empty() {
            state.catch_up(|at, _| at <= now);
        }
    }

    /// Work begins on this thread.
    pub fn begin(&self) {
        BEGAN.set(self.state().now);
    }

    pub fn inject_fault(&self, fault: FilesFault) {
        let mut state = self.state();
        match fault {
            FilesFault::LatePut { ms, twice } => state.late_put = Some((ms, twice)),
            FilesFault::LateDelete { ms, twice } => state.late_delete = Some((ms, twice)),
            FilesFault::Down(calls) => state.down = calls,
        }
    }

    /// From now on nothing fails, and nothing is late.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.down, state.late_put, state.late_delete) = (0, None, None);
    }

    /// All late calls are done.
    pub fn finish(&self) {
        self.state().catch_up(|_, _| true);
    }

    /// The late deletions of processes that have ended are done.
    pub fn finish_deletes(&self) {
        self.state().catch_up(|_, late| matches!(late, Late::Delete(_)));
    }

    /// A copy of the objects.
    pub fn copy(&self) -> Vec<(Named, Vec<u8>)> {
        let state = self.state();
        let all = state.objects.all().into_iter();
        let bytes = |of: &Named| state.objects.get(&of.0, &of.1).ok().flatten().expect("an object");
        all.map(|named| (named.clone(), bytes(&named))).collect()
    }

    /// Replaces the objects by a copy. No call to the old store reaches this one.
    pub fn put_back(&self, copy: &[(Named, Vec<u8>)]) {
        let mut state = self.state();
        let (objects, now) = (MemoryFiles::default(), state.now);
        for ((org, name), bytes) in copy {
            objects.put(org, name, bytes).expect("a store in memory");
        }
        *state = State { objects, now, is_changed: true, ..State::default() };
    }

    /// The names of all objects.
    pub fn all(&self) -> BTreeSet<Named> {
        self.state().objects.all().into_iter().collect()
    }

    /// Whether anything changed since the last look.
    pub fn look(&self) -> (bool, Vec<(Named, u64)>) {
        let mut state = self.state();
        (std::mem::take(&mut state.is_changed), std::mem::take(&mut state.came))
    }
}

impl Files for SlowFiles {
    fn put(&self, org: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let named = (org.to_owned(), name.to_owned());
        let began = BEGAN.get();
        stop()?;
        let is_lost = {
            let mut state = self.state();
            state.meet()?;
            let late = state.late_put.take();
            if let Some((ms, _)) = late {
                let at = state.now + ms;
                state.late.push((at, Late::Put { named: named.clone(), bytes: bytes.to_owned(), began }));
            }
            let is_lost = late.is_some_and(|(_, twice)| !twice);
            if !is_lost {
                state.put(named, bytes, began)?;
            }
            is_lost
        };
        stop()?;
        if is_lost { Err(failed("an upload without an answer")) } else { Ok(()) }
    }

    fn get(&self, org: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let mut state = self.state();
        state.meet()?;
        state.objects.get(org, name)
    }

    fn delete(&self, org: &str, name: &str) -> Result<()> {
        let named = (org.to_owned(), name.to_owned());
        stop()?;
        let is_lost = {
            let mut state = self.state();
            state.meet()?;
            let late = state.late_delete.take();
            if let Some((ms, _)) = late {
                let at = state.now + ms;
                state.late.push((at, Late::Delete(named.clone())));
            }
            let is_lost = late.is_some_and(|(_, twice)| !twice);
            if !is_lost {
                state.delete(&named)?;
            }
            is_lost
        };
        stop()?;
        if is_lost { Err(failed("a removal without an answer")) } else { Ok(()) }
    }

    fn list(&self, org: &str, after: &str, limit: usize) -> Result<Vec<String>> {
        let mut state = self.state();
        state.meet()?;
        state.objects.list(org, after, limit)
    }

    fn orgs(&self) -> Result<Vec<String>> {
        let mut state = self.state();
        state.meet()?;
        state.objects.orgs()
    }
}
