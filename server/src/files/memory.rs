//! Objects in memory, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escale::Result;
use escale::model::sha_s;

use super::Files;

type Objects = BTreeMap<(String, String), Vec<u8>>;

/// Objects in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Mutex<Objects>>);

impl MemoryFiles {
    /// The objects of every org, by org and name.
    pub fn all(&self) -> Vec<(String, String)> {
        self.objects().keys().cloned().collect()
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for MemoryFiles {
    fn put(&self, org: &str, name: &str, bytes: &[u8]) -> Result<()> {
        self.objects().insert((org.to_owned(), name.to_owned()), bytes.to_owned());
        Ok(())
    }

    fn get(&self, org: &str, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.objects().get(&(org.to_owned(), name.to_owned())).cloned())
    }

    fn delete(&self, org: &str, name: &str) -> Result<()> {
        self.objects().remove(&(org.to_owned(), name.to_owned()));
        Ok(())
    }

    fn list(&self, org: &str, after: &str, limit: usize) -> Result<Vec<String>> {
        let objects = self.objects();
        let own = objects.keys().filter(|(of, name)| of == org && name.as_str() > after);
        Ok(own.take(limit).map(|(_, name)| name.clone()).collect())
    }

    fn orgs(&self) -> Result<Vec<String>> {
        let orgs: BTreeSet<String> = self.objects().keys().map(|(org, _)| sha_s(org)).collect();
        Ok(orgs.into_iter().collect())
    }
}
