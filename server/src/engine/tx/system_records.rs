//! Reads and writes of the records that the server keeps for itself.

use std::collections::BTreeMap;

use escale::{Code, Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::engine::instance::context::Instance;
use crate::engine::records::system::{SystemRecord, open_record, put_record, read_record};
use crate::engine::tx::write_tx::WriteTx;
use crate::provider::{FeedRow, Place};

impl WriteTx<'_> {
    /// The record under that key.
    pub fn record<R: SystemRecord>(&self, pk: &str) -> Result<Option<R>> {
        read_record(self.tx.snapshot(), &self.instance.seal, (self.org, pk))
    }

    /// Stores a record, and replaces an earlier one.
    pub fn put_record<R: SystemRecord>(&mut self, pk: &str, record: &R) -> Result<()> {
        self.notes.changed = true;
        put_record(self.tx, &self.instance.seal, (self.org, pk, self.now), record)
    }

    /// Removes a record for good.
    pub(crate) fn remove_record<R: SystemRecord>(&mut self, pk: &str) -> Result<()> {
        self.notes.changed = true;
        self.tx.remove_document(Place { org: self.org, class: R::CLASS, pk })
    }

    /// Tells every instance that a record has changed: its row of the feed names no def.
    pub(in crate::engine) fn announce<R: SystemRecord>(&mut self, pk: &str) -> Result<()> {
        self.notes.changed = true;
        let (org, class, pk) = (self.org.to_owned(), R::CLASS.to_owned(), pk.to_owned());
        self.tx.append_feed(&FeedRow { org, class, pk, v: self.now, links: BTreeMap::new() })
    }
}

/// A record of an org, as it is now.
pub fn read_system_record<R: SystemRecord>(instance: &Instance, org: &str, pk: &str) -> Result<Option<R>> {
    read_record(instance.provider.read()?.as_ref(), &instance.seal, (org, pk))
}

/// The record of an org under a key, or in its place that of another key, and whether it is the own one. `like` chooses the
/// other one. Both cases take the same steps, so the time does not tell whether the record is there.
pub fn read_system_record_or_like<R: SystemRecord>(
    instance: &Instance,
    org: &str,
    pk: &str,
    like: &str,
) -> Result<(Option<R>, bool)> {
    let (snapshot, class) = (instance.provider.read()?, R::CLASS);
    let look = |pk: &str| snapshot.document(Place { org, class, pk });
    let neighbour = |pk: &str| snapshot.neighbour(Place { org, class, pk });
    let found = own_or_like(look, neighbour, pk, like)?;
    let Some((pk, document)) = found.either else { return Ok((None, false)) };
    Ok((Some(open_record(&instance.seal, Place { org, class, pk: &pk }, document)?), found.is_own))
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

/// A secret of the site for one purpose. All instances have the same.
pub fn derive_site_secret(instance: &Instance, purpose: &str) -> Result<[u8; 32]> {
    let site = instance.provider.read()?.site()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&site.cursor_key)
        .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    mac.update(purpose.as_bytes());
    Ok(mac.finalize().into_bytes().into())
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
