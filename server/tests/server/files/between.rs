//! A store that does other things between the steps of an upload or a sweep, or ends them there.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use escale::{Code, Error, Result};
use escale_server::files::{Files, MemoryFiles};

/// A moment before or after one call: this runs, and then the caller perhaps ends.
pub type Moment = (Box<dyn FnOnce() + Send>, bool);

type Knows = dyn Fn(&str, &str) -> bool + Send;

/// A store in memory whose calls pass moments, two each.
#[derive(Clone, Default)]
pub struct Between {
    pub inner: MemoryFiles,
    moments: Arc<Mutex<VecDeque<Moment>>>,
    /// Whether the database knows an object that is stored now.
    knows: Arc<Mutex<Option<Box<Knows>>>>,
    /// Objects that came when nothing remembered them any more, and whose upload ended then.
    pub left: Arc<Mutex<BTreeSet<String>>>,
}

impl Between {
    /// Replaces the moments of the next calls.
    pub fn set(&self, moments: impl IntoIterator<Item = Moment>) {
        *self.moments.lock().unwrap() = moments.into_iter().collect();
    }

    /// Asks here whether the database knows an object.
    pub fn ask(&self, knows: Option<Box<Knows>>) {
        *self.knows.lock().unwrap() = knows;
    }

    fn pass(&self) -> Result<()> {
        let moment = self.moments.lock().unwrap().pop_front();
        let Some((run, ends)) = moment else { return Ok(()) };
        run();
        if ends { Err(Error::new(Code::StorageFailed, "the process ends here")) } else { Ok(()) }
    }
}

impl Files for Between {
    fn put(&self, org: &str, name: &str, bytes: &[u8]) -> Result<()> {
        self.pass()?;
        self.inner.put(org, name, bytes)?;
        let is_known = self.knows.lock().unwrap().as_ref().is_none_or(|knows| knows(org, name));
        let passed = self.pass();
        if passed.is_err() && !is_known {
            self.left.lock().unwrap().insert(name.to_owned());
        }
        passed
    }

    fn get(&self, org: &str, name: &str) -> Result<Option<Vec<u8>>> {
        self.inner.get(org, name)
    }

    fn delete(&self, org: &str, name: &str) -> Result<()> {
        self.pass()?;
        self.inner.delete(org, name)?;
        self.pass()
    }

    fn list(&self, org: &str, after: &str, limit: usize) -> Result<Vec<String>> {
        self.inner.list(org, after, limit)
    }

    fn orgs(&self) -> Result<Vec<String>> {
        self.inner.orgs()
    }
}
