//! Counters of quotas (R88). A counter is stored like a document, of a class that no schema can declare. So it is sealed,
//! copied and restored with the database, and no def can name it.

use escale::model::schema::Class;
use escale::model::{Value, Version, sha_s};
use escale::{Code, Error, Result};

use crate::engine::records::fields::{entries_of, natural, text};
use crate::engine::records::opened::Opened;
use crate::engine::records::record::Properties;
use crate::engine::records::system::{SystemRecord, put_record, read_record};
use crate::provider::{DocumentReads, Edit};
use crate::rights::{Quota, Rights};
use crate::seal::Seal;

/// The name of an org's own counter, in which all counted documents of the org count.
pub(in crate::engine) const OF_ORG: &str = "";

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
    pub(in crate::engine) fn stored(of: (&Class, &Quota), document: &Opened) -> Result<Self> {
        Ok(Counted::of(of, &document.properties()?, &document.data))
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
    pub(in crate::engine) fn check(&self, before: &Counter) -> Result<()> {
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

    /// As `quota.get` shows it.
    pub(in crate::engine) fn shown(&self) -> Properties {
        let mut map = entries_of([("documents", count_of(self.documents)), ("bytes", count_of(self.bytes))]);
        map.extend(self.documents_max.map(|max| ("documentsMax".to_owned(), count_of(max))));
        map.extend(self.bytes_max.map(|max| ("bytesMax".to_owned(), count_of(max))));
        map
    }
}

/// A counter as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct NamedCounter {
    pub(in crate::engine) of: String,
    pub(in crate::engine) counter: Counter,
    /// Whether the program that stored it counted files.
    pub(in crate::engine) counts_files: bool,
}

impl SystemRecord for NamedCounter {
    const CLASS: &'static str = "#counter";

    fn encode(&self) -> Properties {
        let mut map = self.counter.shown();
        map.insert("of".to_owned(), Value::from(self.of.as_str()));
        map.insert("files".to_owned(), count_of(self.counter.files));
        map
    }

    fn decode(stored: &Properties) -> Result<Self> {
        let counter = Counter {
            documents: natural(stored, "documents").unwrap_or(0),
            bytes: natural(stored, "bytes").unwrap_or(0),
            files: natural(stored, "files").unwrap_or(0),
            kept: 0,
            documents_max: natural(stored, "documentsMax"),
            bytes_max: natural(stored, "bytesMax"),
        };
        let of = text(stored, "of").unwrap_or_else(|| OF_ORG.to_owned());
        Ok(NamedCounter { of, counter, counts_files: stored.contains_key("files") })
    }
}

fn count_of(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The pk of a counter. That of the org cannot be a hash.
fn pk_of(of: &str) -> String {
    if of == OF_ORG { "org".into() } else { sha_s(of) }
}

/// A counter; without a record, it has counted nothing.
pub(in crate::engine) fn read_counter(
    documents: &dyn DocumentReads,
    seal: &Seal,
    (org, of): (&str, &str),
) -> Result<Counter> {
    let found = read_record::<NamedCounter>(documents, seal, (org, &pk_of(of)))?;
    Ok(found.map(|found| found.counter).unwrap_or_default())
}

/// Whether the counter of an org was stored by a program that counted no files.
pub(in crate::engine) fn lacks_files(documents: &dyn DocumentReads, seal: &Seal, org: &str) -> Result<bool> {
    let found = read_record::<NamedCounter>(documents, seal, (org, &pk_of(OF_ORG)))?;
    Ok(found.is_some_and(|found| !found.counts_files))
}

/// Stores a counter.
pub(in crate::engine) fn put_counter(
    tx: &mut dyn Edit,
    seal: &Seal,
    (org, of, v): (&str, &str, Version),
    counter: &Counter,
) -> Result<()> {
    let record = NamedCounter { of: of.to_owned(), counter: counter.clone(), counts_files: true };
    put_record(tx, seal, (org, &pk_of(of), v), &record)
}

/// Whether two schemas count the same documents by the same properties.
pub(in crate::engine) fn quotas_differ(older: &Rights, newer: &Rights) -> bool {
    let quotas = |rights: &Rights| {
        rights.quotas().map(|(class, quota)| (class.to_owned(), quota.clone())).collect::<Vec<_>>()
    };
    quotas(older) != quotas(newer)
}
