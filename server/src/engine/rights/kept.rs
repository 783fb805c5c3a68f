//! Records that the server keeps for itself, such as accounts. Each is stored like a document, of a class that no schema
//! can declare: its name begins with `#`.
//!
//! So every database stores them already. They are sealed, copied and restored with the documents, and no def can name
//! them. A counter of quotas is such a record, too.

use escale::codec::Data;
use escale::model::Version;
use escale::{Code, Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::engine::begin::write_as;
use crate::engine::operation::{Properties, Tx};
use crate::engine::write::Writing;
use crate::engine::{Caller, Engine};
use crate::provider::{Document, FeedRow, Place, Shown, Snapshot};
use crate::seal::Seal;

/// A write of an org's records. Nothing of it is stored if it fails.
pub struct KeptWrite<'w, 't> {
    tx: &'w mut Tx<'t>,
}

impl<'w, 't> KeptWrite<'w, 't> {
    /// The records, as a write in progress reads and writes them.
    pub(in crate::engine) fn of(tx: &'w mut Tx<'t>) -> Self {
        KeptWrite { tx }
    }

    /// The write of documents in the same transaction.
    pub(in crate::engine) fn writing(&mut self) -> &mut Writing<'t> {
        &mut self.tx.writing
    }

    /// The transaction, for functions of the application.
    pub(in crate::engine) fn tx(&mut self) -> &mut Tx<'t> {
        self.tx
    }

    /// The version of the write.
    pub(in crate::engine) fn now(&self) -> Version {
        self.tx.writing.time()
    }

    /// The record of that class and key.
    pub fn get(&self, class: &str, pk: &str) -> Result<Option<Properties>> {
        let writing = &self.tx.writing;
        read(&*writing.tx, writing.seal, Place { org: writing.org, class, pk })
    }

    /// Stores a record, and replaces an earlier one.
    pub fn put(&mut self, class: &str, pk: &str, record: &Properties) -> Result<()> {
        let writing = &mut self.tx.writing;
        let (at, v) = (Place { org: writing.org, class, pk }, writing.now);
        let data = writing.seal.close(at, v, Data::from_map(record)?.as_bytes())?;
        let shown = Shown::default();
        writing.changed = true;
        writing.tx.put_document(at, &Document { v, deleted: false, max_life: None, ttl: None, shown, data })
    }

    /// Removes a record for good.
    pub fn remove(&mut self, class: &str, pk: &str) -> Result<()> {
        let writing = &mut self.tx.writing;
        writing.changed = true;
        writing.tx.remove_document(Place { org: writing.org, class, pk })
    }

    /// Tells every instance that a record has changed: its row of the feed names no def.
    pub fn announce(&mut self, class: &str, pk: &str) -> Result<()> {
        let writing = &mut self.tx.writing;
        writing.changed = true;
        let links = std::collections::BTreeMap::new();
        let (org, class, pk) = (writing.org.to_owned(), class.to_owned(), pk.to_owned());
        writing.tx.append_feed(&FeedRow { org, class, pk, v: writing.now, links })
    }

    /// The schedules of the org have changed: this instance reads them again after the commit.
    pub(in crate::engine) fn has_restricted(&mut self) {
        self.tx.writing.restricts = true;
    }
}

/// A record of an org, as it is now.
pub fn read_kept(engine: &Engine, org: &str, class: &str, pk: &str) -> Result<Option<Properties>> {
    read(engine.provider.read()?.as_ref(), &engine.seal, Place { org, class, pk })
}

/// The record of an org under a key, or in its place that of another key, and whether it is the own one. `like` chooses the
/// other one. Both cases take the same steps, so the time does not tell whether the record is there.
pub fn read_kept_or_like(
    engine: &Engine,
    (org, class): (&str, &str),
    pk: &str,
    like: &str,
) -> Result<(Option<Properties>, bool)> {
    let (snapshot, seal) = (engine.provider.read()?, &engine.seal);
    let look = |pk: &str| snapshot.document(Place { org, class, pk });
    let neighbour = |pk: &str| snapshot.neighbour(Place { org, class, pk });
    let found = own_or_like(look, neighbour, pk, like)?;
    let Some((pk, document)) = found.either else { return Ok((None, false)) };
    let data = seal.open(Place { org, class, pk: &pk }, document.v, &document.data)?;
    Ok((Some(Data::from_bytes(&data)?.to_map()?), found.is_own))
}

struct Either<D> {
    either: Option<(String, D)>,
    is_own: bool,
}

/// In each case one look for a neighbour, two looks that find something, and one that does not.
fn own_or_like<D>(
    look: impl Fn(&str) -> Result<Option<D>>,
    neighbour: impl Fn(&str) -> Result<Option<String>>,
    pk: &str,
    like: &str,
) -> Result<Either<D>> {
    let find = |pk: &str| Ok::<_, Error>(look(pk)?.map(|document| (pk.to_owned(), document)));
    let own = find(pk)?;
    let other = neighbour(like)?;
    let other = other.as_deref().unwrap_or(like);
    let spare = find(other)?;
    let is_own = own.is_some();
    drop(find(if is_own { like } else { other })?);
    Ok(Either { either: own.or(spare), is_own })
}

/// Writes records of an org in one transaction, and commits it if `write` has changed any. It may run again from its start.
/// Errors: those of `write`, after which nothing is stored; `contention`.
pub fn write_kept<T>(
    engine: &Engine,
    org: &str,
    mut write: impl FnMut(&mut KeptWrite<'_, '_>) -> Result<T>,
) -> Result<T> {
    let caller = Caller { may_write: true, ..Caller::default() };
    let written = write_as(engine, (org, &caller), |tx| write(&mut KeptWrite::of(tx)));
    written.map(|written| written.value)
}

/// A secret of the site for one purpose. All instances have the same.
pub fn site_secret(engine: &Engine, purpose: &str) -> Result<[u8; 32]> {
    let site = engine.provider.read()?.site()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&site.cursor_key)
        .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    mac.update(purpose.as_bytes());
    Ok(mac.finalize().into_bytes().into())
}

fn read<S: Snapshot + ?Sized>(snapshot: &S, seal: &Seal, at: Place) -> Result<Option<Properties>> {
    let Some(document) = snapshot.document(at)? else { return Ok(None) };
    Data::from_bytes(&seal.open(at, document.v, &document.data)?)?.to_map().map(Some)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// The time tells nothing where the steps are the same, and so are the records that they meet.
    #[test]
    fn a_record_that_is_there_takes_the_steps_of_one_that_is_not() {
        let records: BTreeMap<String, u64> = (0..9).map(|n| (format!("k{n}"), n)).collect();
        let steps = |pk: &str, like: &str| {
            let steps = RefCell::new(Vec::new());
            let look = |pk: &str| {
                let found = records.get(pk).copied();
                steps.borrow_mut().push(if found.is_some() { "hit" } else { "miss" });
                Ok(found)
            };
            let neighbour = |pk: &str| {
                steps.borrow_mut().push("neighbour");
                let next = records.range(pk.to_owned()..).next().or(records.iter().next());
                Ok(next.map(|(pk, _)| pk.clone()))
            };
            let found = own_or_like(look, neighbour, pk, like).unwrap();
            let mut steps = steps.into_inner();
            steps.sort_unstable();
            (found.either.map(|(pk, _)| pk), found.is_own, steps)
        };
        let each = vec!["hit", "hit", "miss", "neighbour"];
        for n in 0..9 {
            let own = format!("k{n}");
            assert_eq!(steps(&own, "k4x"), (Some(own.clone()), true, each.clone()));
        }
        for (like, other) in [("a", "k0"), ("k4x", "k5"), ("z", "k0")] {
            assert_eq!(steps("none", like), (Some(other.to_owned()), false, each.clone()));
        }
    }
}
