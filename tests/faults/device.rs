//! A device that fails on demand, in the ways of browsers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use escale::crypto::Sealed;
use escale::store::{BackupHeader, Batch, Device, MemoryDevice, MemoryStore, RecordKey, Store, Table};
use escale::{Code, Error, Result};

/// How the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The call fails, without further effects.
    Error,
    /// A batch finds no room, and neither does the next one.
    Quota,
    /// The handle dies. The request may have been carried out all the same.
    Closed,
    /// The handle dies, and all data is gone.
    Wiped,
    /// The handle dies, and the last batches are gone.
    TailDropped,
    /// The process dies.
    Crash,
}

impl Fault {
    pub const ALL: [Fault; 6] =
        [Fault::Error, Fault::Quota, Fault::Closed, Fault::Wiped, Fault::TailDropped, Fault::Crash];

    /// Whether saved data can be lost.
    pub fn destroys(self) -> bool {
        matches!(self, Fault::Wiped | Fault::TailDropped)
    }

    /// Whether the request may have been carried out, although nobody learns it.
    pub fn leaves_in_doubt(self) -> bool {
        matches!(self, Fault::Closed | Fault::Crash)
    }
}

/// Which call fails, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub fault: Fault,
    /// The first call is 1; 0 means no call.
    pub call: u64,
    /// The process dies of it as well: nobody is left to recover.
    pub dies: bool,
    /// The request is carried out all the same.
    pub does: bool,
}

impl Plan {
    pub const NONE: Plan = Plan { fault: Fault::Error, call: 0, dies: false, does: false };
}

#[derive(Default)]
struct State {
    calls: Cell<u64>,
    fired: Cell<bool>,
    /// The process is dead: its further requests are ignored.
    dead: Cell<bool>,
    full: Cell<u8>,
    /// It cannot be opened.
    away: Cell<bool>,
    /// The device before each of the last batches.
    earlier: RefCell<Vec<MemoryDevice>>,
}

#[derive(Clone)]
pub struct FaultyDevice {
    pub inner: MemoryDevice,
    plan: Rc<Cell<Plan>>,
    state: Rc<State>,
}

pub struct FaultyStore {
    inner: MemoryStore,
    name: String,
    device: FaultyDevice,
    is_closed: Cell<bool>,
}

fn closed() -> Error {
    Error::new(Code::StorageClosed, "by the test")
}

impl FaultyDevice {
    pub fn new(plan: Plan) -> Self {
        let inner = MemoryDevice::new();
        FaultyDevice { inner, plan: Rc::new(Cell::new(plan)), state: Rc::default() }
    }

    /// Whether the fault has happened.
    pub fn has_fired(&self) -> bool {
        self.state.fired.get()
    }

    /// Whether the process died of it.
    pub fn is_dead(&self) -> bool {
        self.state.dead.get()
    }

    /// Another process begins.
    pub fn revive(&self) {
        self.state.dead.set(false);
    }

    /// Makes the next call fail in this way.
    pub fn fail_next(&self, fault: Fault) {
        let call = self.state.calls.get() + 1;
        self.plan.set(Plan { fault, call, dies: false, does: false });
        self.state.fired.set(false);
    }

    /// Ends all faults.
    pub fn heals(&self) {
        self.plan.set(Plan::NONE);
        self.state.full.set(0);
    }

    /// Makes every opening fail from now on, or ends that.
    pub fn stays_away(&self, away: bool) {
        self.state.away.set(away);
    }

    /// Whether this call is the one to fail.
    fn is_due(&self, is_commit: bool) -> bool {
        let plan = self.plan.get();
        if plan.fault == Fault::Quota && !is_commit {
            return false;
        }
        self.state.calls.set(self.state.calls.get() + 1);
        let due = plan.call > 0 && self.state.calls.get() == plan.call;
        if due {
            self.state.fired.set(true);
        }
        due
    }

    /// Keeps the present state, for a later drop of the tail.
    fn remember(&self) {
        let mut earlier = self.state.earlier.borrow_mut();
        earlier.push(self.inner.snapshot());
        if earlier.len() > 2 {
            earlier.remove(0);
        }
    }

    fn destroy(&self, name: &str) {
        match self.plan.get().fault {
            Fault::Wiped => self.inner.put_back(name, &MemoryDevice::new()),
            Fault::TailDropped => {
                let earlier = self.state.earlier.borrow();
                if let Some(copy) = earlier.first() {
                    self.inner.put_back(name, copy);
                }
            }
            _ => {}
        }
    }
}

impl Device for FaultyDevice {
    type Store = FaultyStore;

    async fn open(&self, name: &str, create: bool) -> Result<Option<FaultyStore>> {
        if self.is_due(false) {
            let plan = self.plan.get();
            self.destroy(name);
            self.state.dead.set(plan.dies);
            return Err(if plan.fault == Fault::Error { failed() } else { closed() });
        }
        let Some(inner) = self.inner.open(name, create).await? else { return Ok(None) };
        Ok(Some(FaultyStore {
            inner,
            name: name.to_owned(),
            device: self.clone(),
            is_closed: Cell::new(false),
        }))
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.inner.delete(name).await
    }
}

fn failed() -> Error {
    Error::new(Code::StorageFailed, "by the test")
}

impl FaultyStore {
    /// Fails if it is time to. `Ok(true)` means: carry out the call, and fail nevertheless.
    fn meet(&self, is_commit: bool) -> Result<bool> {
        let state = &self.device.state;
        if state.dead.get() || self.is_closed.get() {
            return Err(closed());
        }
        if is_commit && state.full.get() > 0 {
            state.full.set(state.full.get() - 1);
            return Err(Error::new(Code::StorageFull, "by the test"));
        }
        if !self.device.is_due(is_commit) {
            return Ok(false);
        }
        let plan = self.device.plan.get();
        match plan.fault {
            Fault::Error => return Err(failed()),
            Fault::Quota => {
                state.full.set(1);
                return Err(Error::new(Code::StorageFull, "by the test"));
            }
            Fault::Closed | Fault::Wiped | Fault::TailDropped | Fault::Crash => {}
        }
        self.is_closed.set(true);
        state.dead.set(plan.dies || plan.fault == Fault::Crash);
        self.device.destroy(&self.name);
        if plan.does && !plan.fault.destroys() { Ok(true) } else { Err(closed()) }
    }
}

impl Store for FaultyStore {
    async fn header(&self) -> Result<Option<Vec<u8>>> {
        if self.meet(false)? { Err(closed()) } else { self.inner.header().await }
    }

    async fn get(&self, table: Table, keys: &[RecordKey]) -> Result<Vec<Option<Vec<u8>>>> {
        if self.meet(false)? { Err(closed()) } else { self.inner.get(table, keys).await }
    }

    async fn scan(
        &self,
        table: Table,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<Vec<(RecordKey, Vec<u8>)>> {
        if self.meet(false)? { Err(closed()) } else { self.inner.scan(table, after, limit).await }
    }

    async fn commit(&self, batch: Batch) -> Result<()> {
        let is_done_and_fails = self.meet(true)?;
        self.device.remember();
        self.inner.commit(batch).await?;
        if is_done_and_fails {
            // The write to the backup database would follow, and has not happened.
            if let Some(before) = self.device.state.earlier.borrow().last() {
                self.device.inner.put_back_backup(&self.name, before);
            }
            return Err(closed());
        }
        Ok(())
    }

    async fn backup_header(&self) -> Result<BackupHeader> {
        if self.meet(false)? { Err(closed()) } else { self.inner.backup_header().await }
    }

    async fn copies(&self, table: Table) -> Result<Vec<(RecordKey, Sealed)>> {
        if self.meet(false)? { Err(closed()) } else { self.inner.copies(table).await }
    }

    async fn reopen(&self) -> Result<()> {
        if self.device.state.dead.get() || self.device.state.away.get() {
            return Err(closed());
        }
        self.is_closed.set(false);
        if self.meet(false)? {
            return Err(closed());
        }
        self.inner.reopen().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
