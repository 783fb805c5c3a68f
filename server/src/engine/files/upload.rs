//! Uploads. A line in `purges` is there before the bytes, and goes in the transaction that brings the object's row. So
//! bytes in the store have a row or a line at every moment.

use std::collections::{BTreeSet, HashMap, HashSet};

use escale::codec::{FilesReply, FilesRequest};
use escale::limits::FILES_MAX;
use escale::{Code, Error, Result};

use crate::engine::caller::Caller;
use crate::engine::files::filing::Filing;
use crate::engine::files::objects::{Object, check_sha, fresh_object_name};
use crate::engine::instance::refusals::{blocked, level_of};
use crate::engine::instance::work::{Watched, Work};
use crate::engine::rights::readers::{CHUNK, Readers};
use crate::engine::tx::lock::OrgLock;
use crate::provider::{File, Purge, Uploads};

/// How often an upload starts again because a sweep has claimed its name meanwhile: that takes a day.
const STARTS_MAX: usize = 3;

/// Milliseconds from the start of an upload for which its line stays. A call to the store may come so late.
const IN_PROGRESS_MS: u64 = 86_400_000;

/// The outcome of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is there, and kept until that time in milliseconds since 1970.
    Kept(u64),
    /// The object lists chunks that are not there: these, or the first of them. Nothing was stored.
    Missing(Vec<String>),
}

/// Uploads of an account that may end between two looks at its room, and their mebibytes: it has fewer transfers at once.
const AT_ONCE: u64 = 64;

/// The facts that are read before the lock, because others, or the account itself, may have made that long.
#[derive(Default)]
struct Before {
    /// The chunks that the upload may list; none if it may list any. To name a chunk shows no right to read it.
    readable: Option<HashSet<String>>,
    /// The account's uploads; none if there are so many that they must be counted again under the lock.
    open: Option<Uploads>,
}

/// An upload in one transaction of its org.
struct Uploading<'u, 'p> {
    filing: Filing<'u>,
    lock: OrgLock<'p>,
    org: &'u str,
    caller: &'u Caller,
    now: u64,
    before: &'u Before,
    /// Whether there is anything to commit.
    is_changed: bool,
}

impl Filing<'_> {
    /// Tells the objects that are there, and keeps them for some days. If rights are declared, these are the objects that
    /// the caller has uploaded. Errors: `not_supported`, `forbidden`, and those of the database.
    pub fn have(&self, org: &str, caller: &Caller, request: &FilesRequest) -> Result<FilesReply> {
        self.store()?;
        self.check_may_write(org, caller)?;
        let before = Before::default();
        let mut up = self.uploading((org, caller), &before)?;
        let until = up.until();
        let names: BTreeSet<&str> = request.have.iter().map(String::as_str).collect();
        let found = up.lock.tx.snapshot().files().those(org, &names.into_iter().collect::<Vec<_>>())?;
        let mut there = Vec::new();
        for sha in &request.have {
            let Some(file) = found.get(sha) else { continue };
            if self.decides_reads()
                && !up.lock.tx.snapshot().files().has_uploaded(org, &caller.account, sha)?
            {
                continue;
            }
            up.keep(sha, file)?;
            there.push(sha.clone());
        }
        let epoch = up.lock.head.epoch.clone();
        if up.is_changed {
            self.commit(up.lock)?;
        }
        Ok(FilesReply { epoch, there, until })
    }

    /// Stores an object, unless it is there. Errors: `not_supported`, `forbidden`, `quota_exceeded`; `bad_value` for a list
    /// whose chunks have other lengths; those of the database and of the store.
    pub fn put_object(&self, org: &str, caller: &Caller, object: &Object) -> Result<Put> {
        let store = self.store()?;
        self.check_may_write(org, caller)?;
        check_sha(&object.sha)?;
        let before = self.look_before(org, caller, object)?;
        for _ in 0..STARTS_MAX {
            let name = fresh_object_name(&object.sha)?;
            let mut up = self.uploading((org, caller), &before)?;
            if let Some(put) = up.confirm(object)? {
                return up.end(put);
            }
            if let Err(missing) = up.check_list(object)? {
                return Ok(Put::Missing(missing));
            }
            up.check_room(object.uploads())?;
            let purge = Purge { at: up.now + IN_PROGRESS_MS, is_claimed: false };
            up.lock.tx.edit_files().put_purge(org, &name, &purge)?;
            self.commit(up.lock)?;

            store.put(org, &name, &self.seal_object(org, &object.sha, &object.bytes)?)?;

            let mut up = self.uploading((org, caller), &before)?;
            if up.lock.tx.snapshot().files().purge(org, &name)?.is_none_or(|purge| purge.is_claimed) {
                // The sweep may remove the bytes at any moment, or has looked for them before they were there.
                let purge = Purge { at: up.now, is_claimed: false };
                up.lock.tx.edit_files().put_purge(org, &name, &purge)?;
                self.commit(up.lock)?;
                continue;
            }
            let put = match up.confirm(object)? {
                Some(put) => Some(put),
                None => up.add(object, &name)?,
            };
            if let Some(put) = put {
                // Another upload has stored the object, or it cannot be stored: these bytes are of no use. Their line
                // stays for its day, because the store may do the call again after its answer, and bring them back.
                return up.end(put);
            }
            up.lock.tx.edit_files().remove_purge(org, &name)?;
            up.is_changed = true;
            let until = up.until();
            return up.end(Put::Kept(until));
        }
        Err(Error::new(Code::Contention, "an upload took longer than a day, three times"))
    }

    fn look_before(&self, org: &str, caller: &Caller, object: &Object) -> Result<Before> {
        let snapshot = self.provider.read()?;
        let open = snapshot.files().open_uploads(org, &caller.account)?;
        let is_near = open.objects + AT_ONCE > self.settings.uploads_max
            || open.bytes + (AT_ONCE << 20) > self.settings.upload_bytes_max;
        // A list counts with its file, which can be large.
        let open = Some(open).filter(|_| !is_near && object.list.is_none());
        if object.list.is_none() || !self.decides_reads_of(org, caller) {
            return Ok(Before { readable: None, open });
        }
        let work = Work::of(self.settings.request_rows);
        let watched = Watched::of(snapshot.as_ref(), &work);
        let mut readers = Readers::of(self, (&watched, &work), (org, caller), self.clock.now_ms());
        let mut readable = HashSet::new();
        for name in object.chunks().into_iter().collect::<BTreeSet<String>>() {
            if readers.may_read(&name)? {
                readable.insert(name);
            }
        }
        Ok(Before { readable: Some(readable), open })
    }

    fn uploading<'u>(
        &'u self,
        (org, caller): (&'u str, &'u Caller),
        before: &'u Before,
    ) -> Result<Uploading<'u, 'u>> {
        let lock = self.hold(org, self.settings.write_wait)?;
        let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
        Ok(Uploading { filing: Filing(self.0), lock, org, caller, now, before, is_changed: false })
    }
}

impl Uploading<'_, '_> {
    fn until(&self) -> u64 {
        self.now + self.filing.settings.upload_ms()
    }

    /// Ends with an outcome.
    fn end(self, put: Put) -> Result<Put> {
        if self.is_changed {
            self.filing.commit(self.lock)?;
        }
        Ok(put)
    }

    /// Keeps an object longer, if nothing references it.
    fn keep(&mut self, sha: &str, file: &File) -> Result<()> {
        let until = file.until.map(|until| until.max(self.until()));
        if until == file.until {
            return Ok(());
        }
        self.is_changed = true;
        self.lock.tx.edit_files().put_file(self.org, sha, &File { until, ..file.clone() })
    }

    /// The outcome if the object is there, which then counts as uploaded by the caller, too. An object that was stored as
    /// plain bytes becomes a list if it is uploaded as one.
    fn confirm(&mut self, object: &Object) -> Result<Option<Put>> {
        let Object { sha, list, .. } = object;
        let Some(mut file) = self.lock.tx.snapshot().files().file(self.org, sha)? else { return Ok(None) };
        let is_new_list = list.is_some() && file.list.is_none();
        if is_new_list || (list.is_some() && self.filing.decides_reads()) {
            let chunks = match self.check_list(object)? {
                Err(missing) => return Ok(Some(Put::Missing(missing))),
                Ok(chunks) => chunks,
            };
            if is_new_list {
                self.connect(object, &chunks)?;
                file.list = *list;
                self.is_changed = true;
                self.lock.tx.edit_files().put_file(self.org, sha, &file)?;
            }
        }
        self.keep(sha, &file)?;
        let account = &self.caller.account;
        if !self.lock.tx.snapshot().files().has_uploaded(self.org, account, sha)? {
            self.is_changed = true;
            self.lock.tx.edit_files().put_upload(self.org, account, sha)?;
            self.check_room(Uploads::default())?;
        }
        Ok(Some(Put::Kept(self.until())))
    }

    /// Adds the row of an object whose bytes are in the store. Returns the outcome if it cannot be added.
    fn add(&mut self, object: &Object, name: &str) -> Result<Option<Put>> {
        let Object { sha, bytes, list } = object;
        let chunks = match self.check_list(object)? {
            Ok(chunks) => chunks,
            Err(missing) => return Ok(Some(Put::Missing(missing))),
        };
        let (size, until) = (bytes.len() as u64, Some(self.until()));
        let tx = self.lock.tx.edit_files();
        tx.put_file(self.org, sha, &File { name: name.to_owned(), size, list: *list, until })?;
        tx.put_upload(self.org, &self.caller.account, sha)?;
        self.connect(object, &chunks)?;
        self.check_room(Uploads::default())?;
        Ok(None)
    }

    /// Records that the object references its chunks.
    fn connect(&mut self, object: &Object, chunks: &HashMap<String, File>) -> Result<()> {
        let names = object.chunks();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tx = self.lock.tx.edit_files();
        if !names.is_empty() {
            tx.put_chunks(self.org, &object.sha, &names)?;
        }
        for (chunk, file) in chunks.iter().filter(|(_, file)| file.until.is_some()) {
            tx.put_file(self.org, chunk, &File { until: None, ..file.clone() })?;
        }
        Ok(())
    }

    /// The chunks that the object lists, or those that are not there. Errors: `bad_value` for chunks of other lengths.
    fn check_list(&self, object: &Object) -> Result<std::result::Result<HashMap<String, File>, Vec<String>>> {
        let Some(size) = object.list else { return Ok(Ok(HashMap::new())) };
        let names = object.chunks();
        let distinct: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let distinct: Vec<&str> = distinct.into_iter().collect();
        let found = self.lock.tx.snapshot().files().those(self.org, &distinct)?;
        let mut missing = Vec::new();
        for name in distinct {
            let may_read = self.before.readable.as_ref().is_none_or(|readable| readable.contains(name));
            if !found.contains_key(name) || !may_read {
                missing.push(name.to_owned());
            }
        }
        if !missing.is_empty() {
            missing.truncate(FILES_MAX);
            return Ok(Err(missing));
        }
        for (place, name) in names.iter().enumerate() {
            let expected = (size - place as u64 * CHUNK).min(CHUNK);
            if found[name].size != expected {
                let what = format!("chunk {place} of the list has not {expected} bytes");
                return Err(Error::new(Code::BadValue, what));
            }
        }
        Ok(Ok(found))
    }

    /// Refuses an upload if its account has too many with it that nothing references. Errors: `quota_exceeded`.
    fn check_room(&self, more: Uploads) -> Result<()> {
        let open = match self.before.open {
            Some(open) => open,
            None => self.lock.tx.snapshot().files().open_uploads(self.org, &self.caller.account)?,
        };
        let settings = &self.filing.settings;
        let (objects, bytes) = (open.objects + more.objects, open.bytes + more.bytes);
        if objects <= settings.uploads_max && bytes <= settings.upload_bytes_max {
            return Ok(());
        }
        let what = "the account has too many uploads that no document references: write the documents first";
        Err(Error::new(Code::QuotaExceeded, what))
    }
}

impl Filing<'_> {
    /// Refuses a caller that may not write. An object belongs to no class, so no class can exempt it (R89).
    fn check_may_write(&self, org: &str, caller: &Caller) -> Result<()> {
        if !caller.may_write {
            return Err(Error::new(Code::Forbidden, "the token's role does not allow uploads"));
        }
        match level_of(self.0, org, caller) {
            0 => Ok(()),
            level => Err(blocked(level)),
        }
    }
}
