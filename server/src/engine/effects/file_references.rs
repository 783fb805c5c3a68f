//! References in a write: looked at once, at its end. So the order of the writes of a batch does not count, and the fault
//! names all missing objects at once (R25).

use std::collections::{BTreeMap, BTreeSet};

use escale::limits::{CHUNK_BYTES, FILES_MAX};
use escale::model::Value;
use escale::model::schema::{Class, Schema};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use crate::engine::instance::context::Instance;
use crate::engine::instance::work::{Watched, Work};
use crate::engine::records::object::end_reference;
use crate::engine::records::opened::Opened;
use crate::engine::rights::read::Access;
use crate::engine::rights::readers::Readers;
use crate::engine::tx::write_tx::{Actor, Named, Noted, Referenced, WriteTx, named};
use crate::provider::{Edit, File, Place};
use crate::settings::Settings;

/// The changes of references that a write makes.
#[derive(Default)]
struct Found {
    /// The documents, with the objects that they do not reference yet.
    fresh: Vec<(Actor, String, File)>,
    /// The references that end.
    ended: Vec<(Actor, String)>,
    missing: BTreeSet<String>,
    has_wrong_size: bool,
}

impl<'t> Referenced<'t> {
    /// Of an operation, whose request may cause that work.
    pub(in crate::engine) fn by(instance: &Instance, work: &'t Work<'t>) -> Self {
        let work = Access::of(instance).is_decided().then_some(work);
        Referenced { work, ..Referenced::default() }
    }

    /// Notes the references that a document has after a change; without data it has none. Errors: `bad_value`.
    pub(in crate::engine) fn note(
        &mut self,
        (class, at): (&Class, Place),
        before: Option<&Opened>,
        data: Option<&BTreeMap<String, Value>>,
    ) -> Result<()> {
        if !class.has_files() {
            return Ok(());
        }
        let now = data.map(|data| class.files(data)).transpose()?.unwrap_or_default();
        let now = now.into_iter().map(named).collect();
        let actor = (SmolStr::new(at.class), SmolStr::new(at.pk));
        if let Some(noted) = self.documents.get_mut(&actor) {
            noted.now = now;
            return Ok(());
        }
        let mut was = BTreeSet::new();
        if let Some(before) = before.filter(|before| !before.document.deleted && self.work.is_some()) {
            was = class.files(&before.properties()?).unwrap_or_default().into_iter().map(named).collect();
        }
        self.documents.insert(actor, Noted { was, now });
        Ok(())
    }
}

impl WriteTx<'_> {
    /// Makes and ends references. Errors: `file_missing` if the write would leave a document with a reference to an object
    /// that is not there; `bad_value` for another size; `contention` if it takes too long.
    pub(in crate::engine) fn finish_files(&mut self) -> Result<()> {
        let documents = std::mem::take(&mut self.files.documents);
        if documents.is_empty() {
            return Ok(());
        }
        let Found { fresh, ended, missing, has_wrong_size } = self.find_files(&documents)?;
        if !missing.is_empty() {
            let what = format!("{} of the referenced files are not on the server", missing.len());
            self.files.missing = missing.into_iter().take(FILES_MAX).collect();
            return Err(Error::new(Code::FileMissing, what));
        }
        if has_wrong_size {
            return Err(Error::new(Code::BadValue, "a reference has another size than its file"));
        }
        let bytes: usize = fresh.iter().map(|((class, pk), sha, _)| class.len() + pk.len() + sha.len()).sum();
        self.notes.growth.add_at_end(bytes as i64)?;
        for ((class, pk), sha) in &ended {
            self.check_time()?;
            self.tx.edit_files().unrefer(Place { org: self.org, class, pk }, sha)?;
        }
        for ((class, pk), sha, file) in fresh {
            self.check_time()?;
            let tx = self.tx.edit_files();
            tx.refer(Place { org: self.org, class: &class, pk: &pk }, &sha)?;
            if file.until.is_some() {
                tx.put_file(self.org, &sha, &File { until: None, ..file })?;
            }
        }
        for sha in ended.into_iter().map(|(_, sha)| sha).collect::<BTreeSet<String>>() {
            self.check_time()?;
            end_reference(self.tx, self.org, &sha, self.now + self.instance.settings.file_ms())?;
        }
        Ok(())
    }

    fn find_files(&self, documents: &BTreeMap<Actor, Noted>) -> Result<Found> {
        let names: BTreeSet<&str> =
            documents.values().flat_map(|noted| &noted.now).map(|(sha, _)| sha.as_str()).collect();
        let objects = self.tx.snapshot().files().those(self.org, &names.into_iter().collect::<Vec<_>>())?;
        let watched = self.files.work.map(|work| Watched::of(self.tx.snapshot(), work));
        let mut readers = match (self.files.work, &watched) {
            (Some(work), Some(watched)) => {
                let own =
                    documents.iter().map(|((class, pk), noted)| (class.as_str(), pk.as_str(), &noted.was));
                let readers = Readers::of(self.instance, (watched, work), (self.org, self.caller), self.time);
                Some(readers.with_before(own))
            }
            _ => None,
        };
        let mut found = Found::default();
        for (actor, Noted { was, now }) in documents {
            let at = Place { org: self.org, class: &actor.0, pk: &actor.1 };
            let before: BTreeSet<String> = self.tx.snapshot().files().references(at)?.into_iter().collect();
            let kept: BTreeSet<&str> = now.iter().map(|(sha, _)| sha.as_str()).collect();
            let ended = before.iter().filter(|sha| !kept.contains(sha.as_str()));
            found.ended.extend(ended.map(|sha| (actor.clone(), sha.clone())));
            for file in now {
                self.check_time()?;
                let (sha, size) = file;
                let Some(object) = objects.get(sha).filter(|object| is_there(object, *size)) else {
                    found.missing.insert(sha.clone());
                    continue;
                };
                // To know its hash is no right. With another size, the same hash is another file.
                let is_known = before.contains(sha) && was.contains(file);
                if let Some(readers) = readers.as_mut().filter(|_| !is_known)
                    && !readers.may_name(sha, *size)?
                {
                    found.missing.insert(sha.clone());
                    continue;
                }
                found.has_wrong_size |= !is_of_size(object, *size);
                if !before.contains(sha) {
                    found.fresh.push((actor.clone(), sha.clone(), object.clone()));
                }
            }
        }
        Ok(found)
    }
}

/// Whether the object can be the file of that size: a list that was uploaded as plain bytes cannot yet.
fn is_there(file: &File, size: u64) -> bool {
    size <= CHUNK_BYTES as u64 || file.list.is_some()
}

fn is_of_size(file: &File, size: u64) -> bool {
    if size <= CHUNK_BYTES as u64 { file.size == size } else { file.list == Some(size) }
}

/// Ends all references of documents that are removed for good. `now` is the time of the transaction.
pub(in crate::engine) fn release<'p>(
    tx: &mut (impl Edit + ?Sized),
    org: &str,
    removed: impl IntoIterator<Item = (&'p str, &'p str)>,
    (settings, now): (&Settings, u64),
) -> Result<()> {
    if !tx.snapshot().files().has_files()? {
        return Ok(());
    }
    let mut ended = BTreeSet::new();
    for (class, pk) in removed {
        let at = Place { org, class, pk };
        for sha in tx.snapshot().files().references(at)? {
            tx.edit_files().unrefer(at, &sha)?;
            ended.insert(sha);
        }
    }
    ended.iter().try_for_each(|sha| end_reference(tx, org, sha, now + settings.file_ms()))
}

/// Whether documents of that class have other references under the newer schema.
pub(in crate::engine) fn references_differ(older: &Schema, newer: &Class) -> bool {
    let declared = |class: &Class| -> BTreeSet<(String, String)> {
        let files = class.properties().iter().filter(|(_, property)| property.has_files());
        files.map(|(name, property)| (name.to_string(), property.kind.clone())).collect()
    };
    // A class that was in no schema for a while may have had other properties then.
    older.class(newer.name().as_str()).map_or(true, |was| declared(was) != declared(newer))
}

/// Makes the references of a living document as its class declares them now. A reference to an object that is not there,
/// or a value that is none, stays without: the next write of the document meets it.
///
/// `asked` is the class before, if rights decide who may name an object. The writer of the value was not asked for that
/// right if the property was no file then. So such a reference stays without, too, and an object that is known as another
/// file ends.
pub(in crate::engine) fn refile(
    tx: &mut (impl Edit + ?Sized),
    (class, asked): (&Class, Option<&Class>),
    at: Place,
    map: &BTreeMap<String, Value>,
    (settings, now): (&Settings, u64),
) -> Result<()> {
    let files: BTreeSet<Named> = class.files(map).unwrap_or_default().into_iter().map(named).collect();
    let names: Vec<&str> = files.iter().map(|(sha, _)| sha.as_str()).collect();
    let found = tx.snapshot().files().those(at.org, &names)?;
    let good = |(sha, size): &&Named| found.get(sha).is_some_and(|own| is_of_size(own, *size));
    let mut wanted: BTreeSet<&str> = files.iter().filter(good).map(|(sha, _)| sha.as_str()).collect();
    let before: BTreeSet<String> = tx.snapshot().files().references(at)?.into_iter().collect();
    if let Some(asked) = asked {
        let was: BTreeSet<Named> = asked.files(map).unwrap_or_default().into_iter().map(named).collect();
        wanted.retain(|sha| before.contains(*sha));
        for (sha, _) in files.iter().filter(|file| !was.contains(file)) {
            wanted.remove(sha.as_str());
        }
    }
    for sha in before.iter().filter(|sha| !wanted.contains(sha.as_str())) {
        tx.edit_files().unrefer(at, sha)?;
    }
    for sha in &wanted {
        tx.edit_files().refer(at, sha)?;
        tx.edit_files().put_file(at.org, sha, &File { until: None, ..found[*sha].clone() })?;
    }
    let ended = before.iter().filter(|sha| !wanted.contains(sha.as_str()));
    ended.into_iter().try_for_each(|sha| end_reference(tx, at.org, sha, now + settings.file_ms()))
}
