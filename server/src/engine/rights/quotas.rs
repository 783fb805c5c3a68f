//! Quotas (R88): counters of documents and bytes, kept in the transaction of each write.
//!
//! A counter is stored like a document, of a class that no schema can declare. So it is sealed, copied and restored with
//! the database, and no def can name it.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::collections::BTreeMap;

use escale::codec::{Data, Fault};
use escale::model::schema::Class;
use escale::model::{Value, Version, sha_s};
use escale::{Code, Error, Result};

use crate::engine::operation::{Properties, Ran, Tx, working};
use crate::engine::rights::restrictions::NO_READS;
use crate::engine::write::Writing;
use crate::provider::{Document, Edit, Place, Shown, Snapshot};
use crate::rights::{Quota, Rights};
use crate::seal::Seal;

/// The class of the stored counters.
pub(in crate::engine) const COUNTERS: &str = "#counter";

/// The name of an org's own counter, in which all counted documents of the org count.
const OF_ORG: &str = "";

/// About the bytes of a counter's row, without its name.
const COUNTER_BYTES: usize = 160;

/// The documents of one counter, and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Living documents.
    pub documents: u64,
    /// Bytes of their `data`.
    pub bytes: u64,
    /// Bytes of the files that they reference, once for each reference.
    pub files: u64,
    /// In the counter of the org, the bytes of its results and of its journal.
    pub kept: u64,
    /// The limit of documents; none without one.
    pub documents_max: Option<u64>,
    /// The limit of all these bytes; none without one.
    pub bytes_max: Option<u64>,
}

/// The counters that a write has read, by name; whether it changed each. Then the bytes of those that are new.
#[derive(Default)]
pub(in crate::engine) struct Counters(BTreeMap<String, (Counter, bool)>, usize);

/// A document as counters see it: the value that it is counted by, its bytes, and those of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Counted {
    by: Option<String>,
    bytes: u64,
    files: u64,
}

impl Counted {
    /// A document of `data`.
    pub(in crate::engine) fn of((class, quota): (&Class, &Quota), map: &Properties, data: &[u8]) -> Self {
        // A document of an earlier schema may have values that are no references now.
        let files = class.files(map).unwrap_or_default().iter().map(|file| file.size).sum();
        Counted { by: quota.counter(map).map(str::to_owned), bytes: data.len() as u64, files }
    }

    /// A stored living document.
    pub(in crate::engine) fn stored(
        of: (&Class, &Quota),
        seal: &Seal,
        at: Place,
        document: &Document,
    ) -> Result<Self> {
        let data = seal.open(at, document.v, &document.data)?;
        let map = Data::from_bytes(&data)?.to_map()?;
        Ok(Counted::of(of, &map, &data))
    }

    /// The counters that it counts in.
    pub(in crate::engine) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(OF_ORG).chain(self.by.as_deref())
    }
}

impl Counter {
    /// Counts a document that is there.
    pub(in crate::engine) fn add(&mut self, counted: &Counted) {
        (self.documents, self.bytes) = (self.documents + 1, self.bytes + counted.bytes);
        self.files += counted.files;
    }

    /// Counts a document that is gone.
    pub(in crate::engine) fn subtract(&mut self, counted: &Counted) {
        self.documents = self.documents.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(counted.bytes);
        self.files = self.files.saturating_sub(counted.files);
    }

    /// All bytes that its limit is for.
    pub fn all_bytes(&self) -> u64 {
        self.bytes + self.files + self.kept
    }

    /// Refuses growth beyond a limit. Shrinking is allowed, also above the limit. A change of the same size grows the
    /// journal.
    fn check(&self, before: &Counter) -> Result<()> {
        let is_over =
            |now: u64, before: u64, limit: Option<u64>| now > before && limit.is_some_and(|max| now > max);
        if is_over(self.documents, before.documents, self.documents_max) {
            return Err(Error::new(Code::QuotaExceeded, "the quota of documents is used up"));
        }
        let journaled = u64::from(self.kept > 0);
        if is_over(self.all_bytes() + journaled, before.all_bytes(), self.bytes_max) {
            return Err(Error::new(Code::QuotaExceeded, "the quota of bytes is used up"));
        }
        Ok(())
    }

    fn to_map(&self, of: &str) -> Properties {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let mut map = Properties::from([
            ("of".to_owned(), Value::from(of)),
            ("documents".to_owned(), number(self.documents)),
            ("bytes".to_owned(), number(self.bytes)),
            ("files".to_owned(), number(self.files)),
        ]);
        map.extend(self.documents_max.map(|max| ("documentsMax".to_owned(), number(max))));
        map.extend(self.bytes_max.map(|max| ("bytesMax".to_owned(), number(max))));
        map
    }

    fn from_map(map: &Properties) -> (String, Self) {
        let number = |name: &str| map.get(name).and_then(Value::as_u64);
        let counter = Counter {
            documents: number("documents").unwrap_or(0),
            bytes: number("bytes").unwrap_or(0),
            files: number("files").unwrap_or(0),
            kept: 0,
            documents_max: number("documentsMax"),
            bytes_max: number("bytesMax"),
        };
        (map.get("of").and_then(Value::as_str).unwrap_or(OF_ORG).to_owned(), counter)
    }
}

/// The pk of a counter. That of the org cannot be a hash.
fn pk_of(of: &str) -> String {
    if of == OF_ORG { "org".into() } else { sha_s(of) }
}

/// A counter as it is stored.
pub(in crate::engine) fn read_counter(
    snapshot: &dyn Snapshot,
    seal: &Seal,
    (org, of): (&str, &str),
) -> Result<Counter> {
    let pk = pk_of(of);
    let at = Place { org, class: COUNTERS, pk: &pk };
    match snapshot.document(at)? {
        None => Ok(Counter::default()),
        Some(document) => Ok(stored_counter(seal, at, &document)?.1),
    }
}

/// The name and the state of a stored counter.
pub(in crate::engine) fn stored_counter(
    seal: &Seal,
    at: Place,
    document: &Document,
) -> Result<(String, Counter)> {
    let data = seal.open(at, document.v, &document.data)?;
    Ok(Counter::from_map(&Data::from_bytes(&data)?.to_map()?))
}

/// Whether the counter of an org was stored by a program that counted no files.
pub(in crate::engine) fn lacks_files(snapshot: &dyn Snapshot, seal: &Seal, org: &str) -> Result<bool> {
    let pk = pk_of(OF_ORG);
    let at = Place { org, class: COUNTERS, pk: &pk };
    let Some(document) = snapshot.document(at)? else { return Ok(false) };
    let map = Data::from_bytes(&seal.open(at, document.v, &document.data)?)?.to_map()?;
    Ok(!map.contains_key("files"))
}

/// Stores a counter.
pub(in crate::engine) fn put_counter(
    tx: &mut dyn Edit,
    seal: &Seal,
    (org, of, v): (&str, &str, Version),
    counter: &Counter,
) -> Result<()> {
    let pk = pk_of(of);
    let at = Place { org, class: COUNTERS, pk: &pk };
    let data = seal.close(at, v, Data::from_map(&counter.to_map(of))?.as_bytes())?;
    let shown = Shown::default();
    tx.put_document(at, &Document { v, deleted: false, max_life: None, ttl: None, shown, data })
}

/// Whether two schemas count the same documents by the same properties.
pub(in crate::engine) fn differ(older: &Rights, newer: &Rights) -> bool {
    let quotas = |rights: &Rights| {
        rights.quotas().map(|(class, quota)| (class.to_owned(), quota.clone())).collect::<Vec<_>>()
    };
    quotas(older) != quotas(newer)
}

impl Writing<'_> {
    /// Counts a change of a document. Errors: `quota_exceeded`.
    pub(in crate::engine) fn count(
        &mut self,
        before: Option<&Counted>,
        after: Option<&Counted>,
    ) -> Result<()> {
        let mut names: Vec<&str> = before.into_iter().chain(after).flat_map(Counted::names).collect();
        names.sort_unstable();
        names.dedup();
        let mut changed = Vec::new();
        for name in names {
            let is_in = |counted: &&Counted| counted.names().any(|of| of == name);
            let old = self.counter(name)?;
            let mut new = old.clone();
            before.filter(is_in).into_iter().for_each(|counted| new.subtract(counted));
            after.filter(is_in).into_iter().for_each(|counted| new.add(counted));
            new.check(&old)?;
            changed.push((name.to_owned(), (new, true)));
        }
        // Only now: a refused change counts nothing.
        self.counters.0.extend(changed);
        Ok(())
    }

    /// The quota of a class, and a stored document of it as counters see it.
    pub(in crate::engine) fn counted(
        &self,
        class: &Class,
        at: Place,
        document: &Document,
    ) -> Result<Option<Counted>> {
        match self.rights.quota(class.name().as_str()) {
            Some(quota) => Counted::stored((class, quota), self.seal, at, document).map(Some),
            None => Ok(None),
        }
    }

    /// A counter, as this write has left it.
    pub(in crate::engine) fn counter(&mut self, of: &str) -> Result<Counter> {
        let kept = if of == OF_ORG { self.kept_before + self.journaled } else { 0 };
        if let Some((counter, _)) = self.counters.0.get(of) {
            return Ok(Counter { kept, ..counter.clone() });
        }
        let counter = read_counter(&*self.tx, self.seal, (self.org, of))?;
        if counter == Counter::default() {
            self.counters.1 += COUNTER_BYTES + of.len();
        }
        self.counters.0.insert(of.to_owned(), (counter.clone(), false));
        Ok(Counter { kept, ..counter })
    }

    /// Stores the counters that have changed. Called once, after everything else.
    pub(in crate::engine) fn finish_counters(&mut self) -> Result<()> {
        self.growth.add_at_end(self.counters.1 as i64)?;
        for (of, (counter, _)) in self.counters.0.iter().filter(|(_, (_, is_changed))| *is_changed) {
            put_counter(self.tx, self.seal, (self.org, of, self.now), counter)?;
        }
        Ok(())
    }
}

impl Tx<'_> {
    /// The counter of that name, or the org's for an empty name.
    pub fn quota(&mut self, of: &str) -> std::result::Result<Counter, Fault> {
        self.writing.counter(of).map_err(working)
    }

    /// Sets the limits of a counter; none takes a limit away. A limit below the present count refuses further growth only.
    pub fn set_quota(
        &mut self,
        of: &str,
        documents_max: Option<u64>,
        bytes_max: Option<u64>,
    ) -> std::result::Result<(), Fault> {
        let counter = self.writing.counter(of).map_err(working)?;
        let counter = Counter { documents_max, bytes_max, ..counter };
        self.writing.counters.0.insert(of.to_owned(), (counter, true));
        Ok(())
    }
}

/// The built-in operation `quota.get { of? }`: a counter and its limits, for those who may read all that it counts of a class,
/// and for administrators. Everybody may read the org's. Others get no value: a refusal would be parked in the session.
pub(in crate::engine) fn get(tx: &mut Tx<'_>, args: &Value) -> Ran {
    let of = name_of(args, &["of"]).map_err(working)?;
    let is_open = of == OF_ORG || tx.caller.is_admin || tx.may_read_counted(of).map_err(working)?;
    if tx.level >= NO_READS || !is_open {
        return Ok(None);
    }
    let counter = tx.quota(of)?;
    // The limit is for all bytes, so one number tells how much room is left.
    let mut map = Counter { bytes: counter.all_bytes(), ..counter }.to_map(of);
    map.retain(|name, _| name != "of" && name != "files");
    Ok(Some(Value::Map(map)))
}

/// The name of a counter in arguments of these names.
fn name_of<'a>(args: &'a Value, names: &[&str]) -> Result<&'a str> {
    let bad = |what: &str| Error::new(Code::BadValue, what);
    let map = args.as_map().ok_or_else(|| bad("the arguments must be a map"))?;
    if let Some(name) = map.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(bad(&format!("there is no argument {name}")));
    }
    match map.get("of") {
        None | Some(Value::Null) => Ok(OF_ORG),
        Some(Value::String(of)) if !of.is_empty() => Ok(of),
        Some(_) => Err(bad("`of` is the value that documents are counted by")),
    }
}

/// The built-in operation `quota.set { of?, documents?, bytes? }`, for administrators.
pub(in crate::engine) fn set(tx: &mut Tx<'_>, args: &Value) -> Ran {
    let bad = |what: &str| working(Error::new(Code::BadValue, what));
    if !tx.caller.is_admin {
        return Err(working(Error::new(Code::Forbidden, "only an administrator of the org sets quotas")));
    }
    let of = name_of(args, &["of", "documents", "bytes"]).map_err(working)?;
    let map = args.as_map().ok_or_else(|| bad("the arguments must be a map"))?;
    let before = tx.quota(of)?;
    let limit = |name: &str, before: Option<u64>| match map.get(name) {
        None => Ok(before),
        Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| bad("a limit is an integer from 0, or null")),
    };
    tx.set_quota(of, limit("documents", before.documents_max)?, limit("bytes", before.bytes_max)?)?;
    Ok(None)
}
