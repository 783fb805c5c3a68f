//! The tables of files in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use escale::Result;
use escale::limits::CHUNK_BYTES;
use smol_str::SmolStr;

use super::tables::{DocumentKey, Tables, document_key};
use crate::provider::{File, FileEdits, FileReads, Place, Purge, Uploads};

/// The tables of one org.
#[derive(Clone, Default)]
pub(super) struct FileTables {
    files: BTreeMap<SmolStr, File>,
    /// The hash, then class and pk.
    references: BTreeSet<(SmolStr, DocumentKey)>,
    chunks: BTreeMap<SmolStr, Vec<SmolStr>>,
    /// The hash, then the account.
    uploads: BTreeSet<(SmolStr, SmolStr)>,
    purges: BTreeMap<SmolStr, Purge>,
}

impl Tables {
    fn files_of(&self, org: &str) -> Option<&FileTables> {
        self.org(org).map(|tables| tables.files.as_ref())
    }

    fn files_mut(&mut self, org: &str) -> &mut FileTables {
        Arc::make_mut(&mut self.org_mut(org).files)
    }

    /// The results of a reading of an org's tables; none if it has none.
    fn found<T>(&self, org: &str, read: impl FnOnce(&FileTables) -> Vec<T>) -> Result<Vec<T>> {
        let found = self.files_of(org).map(read).unwrap_or_default();
        self.look(1 + found.len());
        Ok(found)
    }
}

impl FileReads for Tables {
    fn file(&self, org: &str, sha: &str) -> Result<Option<File>> {
        self.look(1);
        Ok(self.files_of(org).and_then(|tables| tables.files.get(sha)).cloned())
    }

    fn those(&self, org: &str, shas: &[&str]) -> Result<HashMap<String, File>> {
        let mut found = HashMap::new();
        for sha in shas {
            found.extend(self.file(org, sha)?.map(|file| ((*sha).to_owned(), file)));
        }
        Ok(found)
    }

    fn files_after(&self, org: &str, after: &str, limit: usize) -> Result<Vec<(String, File)>> {
        self.found(org, |tables| {
            let later = tables.files.range((Bound::Excluded(SmolStr::new(after)), Bound::Unbounded));
            later.take(limit).map(|(sha, file)| (sha.to_string(), file.clone())).collect()
        })
    }

    fn has_files(&self) -> Result<bool> {
        Ok(self.orgs.values().any(|tables| !tables.files.files.is_empty()))
    }

    fn due_files(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>> {
        self.found(org, |tables| {
            let due = tables.files.iter().filter(|(_, file)| file.until.is_some_and(|until| until <= now));
            due.take(limit).map(|(sha, _)| sha.to_string()).collect()
        })
    }

    fn references(&self, at: Place) -> Result<Vec<String>> {
        let key = document_key(at);
        self.found(at.org, |tables| {
            let own = tables.references.iter().filter(|(_, document)| *document == key);
            own.map(|(sha, _)| sha.to_string()).collect()
        })
    }

    fn referring(&self, org: &str, sha: &str, limit: usize) -> Result<Vec<(String, String)>> {
        self.found(org, |tables| {
            let own = tables.references.iter().filter(|(of, _)| of == sha);
            own.take(limit).map(|(_, (class, pk))| (class.to_string(), pk.to_string())).collect()
        })
    }

    fn lists_of(&self, org: &str, chunk: &str, limit: usize) -> Result<Vec<String>> {
        self.found(org, |tables| {
            let lists = tables.chunks.iter().filter(|(_, chunks)| chunks.iter().any(|own| own == chunk));
            lists.take(limit).map(|(list, _)| list.to_string()).collect()
        })
    }

    fn chunks(&self, org: &str, list: &str) -> Result<Vec<String>> {
        self.found(org, |tables| {
            let chunks =
                tables.chunks.get(list).map(|chunks| chunks.iter().map(SmolStr::to_string).collect());
            chunks.unwrap_or_default()
        })
    }

    fn has_uploaded(&self, org: &str, account: &str, sha: &str) -> Result<bool> {
        let key = (SmolStr::new(sha), SmolStr::new(account));
        self.look(1);
        Ok(self.files_of(org).is_some_and(|tables| tables.uploads.contains(&key)))
    }

    fn open_uploads(&self, org: &str, account: &str) -> Result<Uploads> {
        let mut open = Uploads::default();
        let Some(tables) = self.files_of(org) else { return Ok(open) };
        for (sha, _) in tables.uploads.iter().filter(|(_, of)| of == account) {
            if let Some(file) = tables.files.get(sha).filter(|file| file.until.is_some()) {
                self.look(1);
                let list = file.list.unwrap_or(0);
                open.objects += 1 + list.div_ceil(CHUNK_BYTES as u64);
                open.bytes += file.size + list;
            }
        }
        Ok(open)
    }

    fn purge(&self, org: &str, name: &str) -> Result<Option<Purge>> {
        Ok(self.files_of(org).and_then(|tables| tables.purges.get(name)).copied())
    }

    fn due_purges(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>> {
        self.found(org, |tables| {
            let due = tables.purges.iter().filter(|(_, purge)| purge.at <= now);
            due.take(limit).map(|(name, _)| name.to_string()).collect()
        })
    }
}

impl FileEdits for Tables {
    fn put_file(&mut self, org: &str, sha: &str, file: &File) -> Result<()> {
        self.files_mut(org).files.insert(sha.into(), file.clone());
        Ok(())
    }

    fn remove_file(&mut self, org: &str, sha: &str) -> Result<()> {
        let tables = self.files_mut(org);
        tables.files.remove(sha);
        tables.chunks.remove(sha);
        tables.uploads.retain(|(of, _)| of != sha);
        Ok(())
    }

    fn refer(&mut self, at: Place, sha: &str) -> Result<()> {
        self.files_mut(at.org).references.insert((sha.into(), document_key(at)));
        Ok(())
    }

    fn unrefer(&mut self, at: Place, sha: &str) -> Result<()> {
        self.files_mut(at.org).references.remove(&(sha.into(), document_key(at)));
        Ok(())
    }

    fn put_chunks(&mut self, org: &str, list: &str, chunks: &[&str]) -> Result<()> {
        let chunks = chunks.iter().map(SmolStr::new).collect();
        self.files_mut(org).chunks.insert(list.into(), chunks);
        Ok(())
    }

    fn put_upload(&mut self, org: &str, account: &str, sha: &str) -> Result<()> {
        let tables = self.files_mut(org);
        if tables.files.contains_key(sha) {
            tables.uploads.insert((sha.into(), account.into()));
        }
        Ok(())
    }

    fn put_purge(&mut self, org: &str, name: &str, purge: &Purge) -> Result<()> {
        self.files_mut(org).purges.insert(name.into(), *purge);
        Ok(())
    }

    fn remove_purge(&mut self, org: &str, name: &str) -> Result<()> {
        self.files_mut(org).purges.remove(name);
        Ok(())
    }
}
