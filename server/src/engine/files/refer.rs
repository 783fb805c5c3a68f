//! References in a write: looked at once, at its end. So the order of the writes of a batch does not count, and the fault
//! names all missing objects at once (R25).

use std::collections::{BTreeMap, BTreeSet};

use escale::limits::{CHUNK_BYTES, FILES_MAX};
use escale::model::Value;
use escale::model::schema::{Class, FileRef, Schema};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use super::Filing;
use crate::engine::write::{Actor, Writing};
use crate::engine::{Caller, Engine};
use crate::provider::{Edit, File, Place};
use crate::settings::Settings;

/// The references of the documents that a write has written.
#[derive(Default)]
pub(in crate::engine) struct Referenced<'t> {
    documents: BTreeMap<Actor, Vec<(String, u64)>>,
    /// The caller, if an operation writes and rights decide which objects it may name.
    caller: Option<(Filing<'t>, &'t Caller)>,
    /// The objects for which the write is refused, or the first of them.
    pub(in crate::engine) missing: Vec<String>,
}

impl<'t> Referenced<'t> {
    /// Of a write of that caller.
    pub(in crate::engine) fn by(engine: &'t Engine, caller: &'t Caller) -> Self {
        let filing = Filing::of(engine);
        let caller = filing.decides_reads().then_some((filing, caller));
        Referenced { caller, ..Referenced::default() }
    }
}

impl Writing<'_> {
    /// Notes the references that a document has after a change; without data it has none. Errors: `bad_value`.
    pub(in crate::engine) fn note_files(
        &mut self,
        class: &Class,
        at: Place,
        data: Option<&BTreeMap<String, Value>>,
    ) -> Result<()> {
        if class.has_files() {
            let files = data.map(|data| class.files(data)).transpose()?.unwrap_or_default();
            let files = files.into_iter().map(|file| (file.sha.to_owned(), file.size)).collect();
            self.files.documents.insert((SmolStr::new(at.class), SmolStr::new(at.pk)), files);
        }
        Ok(())
    }

    /// Makes and ends references. Errors: `file_missing` if the write would leave a document with a reference to an object
    /// that is not there; `bad_value` for another size.
    pub(in crate::engine) fn finish_files(&mut self) -> Result<()> {
        let documents = std::mem::take(&mut self.files.documents);
        if documents.is_empty() {
            return Ok(());
        }
        let names: BTreeSet<&str> = documents.values().flatten().map(|(sha, _)| sha.as_str()).collect();
        let found = self.tx.files().those(self.org, &names.into_iter().collect::<Vec<_>>())?;
        let (mut fresh, mut ended, mut missing) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut has_wrong_size = false;
        for ((class, pk), files) in &documents {
            let at = Place { org: self.org, class, pk };
            let before = self.tx.files().references(at)?;
            for sha in before.iter().filter(|sha| !files.iter().any(|(own, _)| own == *sha)) {
                self.tx.edit_files().unrefer(at, sha)?;
                ended.insert(sha.clone());
            }
            for (sha, size) in files {
                let is_new = !before.contains(sha);
                let file = found.get(sha).filter(|file| is_there(file, *size));
                match file {
                    Some(_) if is_new && !self.may_name(sha, *size)? => drop(missing.insert(sha.clone())),
                    None => drop(missing.insert(sha.clone())),
                    Some(file) => {
                        has_wrong_size |= !is_of_size(file, *size);
                        fresh.extend(is_new.then_some((at, sha, file)));
                    }
                }
            }
        }
        if !missing.is_empty() {
            let what = format!("{} of the referenced files are not on the server", missing.len());
            self.files.missing = missing.into_iter().take(FILES_MAX).collect();
            return Err(Error::new(Code::FileMissing, what));
        }
        if has_wrong_size {
            return Err(Error::new(Code::BadValue, "a reference has another size than its file"));
        }
        for (at, sha, file) in fresh {
            let tx = self.tx.edit_files();
            tx.refer(at, sha)?;
            if file.until.is_some() {
                tx.put_file(at.org, sha, &File { until: None, ..file.clone() })?;
            }
        }
        end_references(self.tx, self.org, ended, self.now + self.settings.file_ms())
    }

    /// Whether the caller may reference an object. To know its hash is no right.
    fn may_name(&self, sha: &str, size: u64) -> Result<bool> {
        match &self.files.caller {
            None => Ok(true),
            Some((filing, caller)) => {
                filing.may_name_file(self.tx, (self.org, caller), (sha, size), self.now)
            }
        }
    }
}

/// Whether the object can be the file of that size: a list that was uploaded as plain bytes cannot yet.
fn is_there(file: &File, size: u64) -> bool {
    size <= CHUNK_BYTES as u64 || file.list.is_some()
}

fn is_of_size(file: &File, size: u64) -> bool {
    if size <= CHUNK_BYTES as u64 { file.size == size } else { file.list == Some(size) }
}

/// Gives a deadline to those objects that nothing references any more.
fn end_references(
    tx: &mut (impl Edit + ?Sized),
    org: &str,
    ended: impl IntoIterator<Item = String>,
    until: u64,
) -> Result<()> {
    for sha in ended {
        let files = tx.files();
        let is_over = files.referring(org, &sha, 1)?.is_empty() && files.lists_of(org, &sha, 1)?.is_empty();
        if let Some(file) = files.file(org, &sha)?.filter(|_| is_over) {
            tx.edit_files().put_file(org, &sha, &File { until: Some(until), ..file })?;
        }
    }
    Ok(())
}

/// Ends all references of documents that are removed for good. `now` is the time of the transaction.
pub(in crate::engine) fn release<'p>(
    tx: &mut (impl Edit + ?Sized),
    org: &str,
    removed: impl IntoIterator<Item = (&'p str, &'p str)>,
    (settings, now): (&Settings, u64),
) -> Result<()> {
    if !tx.files().has_files()? {
        return Ok(());
    }
    let mut ended = BTreeSet::new();
    for (class, pk) in removed {
        let at = Place { org, class, pk };
        for sha in tx.files().references(at)? {
            tx.edit_files().unrefer(at, &sha)?;
            ended.insert(sha);
        }
    }
    end_references(tx, org, ended, now + settings.file_ms())
}

/// Whether documents of that class have other references under the newer schema.
pub(in crate::engine) fn differ(older: &Schema, newer: &Class) -> bool {
    let declared = |class: &Class| -> BTreeSet<(String, String)> {
        let files = class.properties().iter().filter(|(_, kind)| kind.starts_with("file"));
        files.map(|(name, kind)| (name.to_string(), kind.clone())).collect()
    };
    // A class that was in no schema for a while may have had other properties then.
    older.class(newer.name().as_str()).map_or(true, |was| declared(was) != declared(newer))
}

/// Makes the references of a living document as its class declares them now. A reference to an object that is not there,
/// or a value that is none, stays without: the next write of the document meets it.
pub(in crate::engine) fn refile(
    tx: &mut (impl Edit + ?Sized),
    class: &Class,
    at: Place,
    map: &BTreeMap<String, Value>,
    (settings, now): (&Settings, u64),
) -> Result<()> {
    let files: Vec<FileRef> = class.files(map).unwrap_or_default();
    let names: Vec<&str> = files.iter().map(|file| file.sha).collect();
    let found = tx.files().those(at.org, &names)?;
    let good = |file: &&FileRef| found.get(file.sha).is_some_and(|own| is_of_size(own, file.size));
    let wanted: BTreeSet<&str> = files.iter().filter(good).map(|file| file.sha).collect();
    let before = tx.files().references(at)?;
    let ended: Vec<String> = before.into_iter().filter(|sha| !wanted.contains(sha.as_str())).collect();
    for sha in &ended {
        tx.edit_files().unrefer(at, sha)?;
    }
    for sha in wanted {
        tx.edit_files().refer(at, sha)?;
        tx.edit_files().put_file(at.org, sha, &File { until: None, ..found[sha].clone() })?;
    }
    end_references(tx, at.org, ended, now + settings.file_ms())
}
