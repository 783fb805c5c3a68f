//! Records that the server keeps for itself, such as accounts. Each is stored like a document, of a class that no schema
//! can declare: its name begins with `#`.
//!
//! So every database stores them already. They are sealed, copied and restored with the documents, and no def can name
//! them. A counter of quotas is such a record, too.

use escale::codec::Data;
use escale::model::Version;
use escale::{Code, Error, Result};

use crate::engine::Engine;
use crate::engine::operation::Properties;
use crate::provider::{Document, FeedRow, Place, Shown, Snapshot, Transaction};
use crate::seal::Seal;

/// A write of an org's records. Nothing of it is stored if it fails.
pub struct KeptWrite<'a> {
    tx: &'a mut dyn Transaction,
    seal: &'a Seal,
    org: &'a str,
    v: Version,
    is_dirty: bool,
}

impl KeptWrite<'_> {
    /// The record of that class and key.
    pub fn get(&self, class: &str, pk: &str) -> Result<Option<Properties>> {
        read(self.tx, self.seal, Place { org: self.org, class, pk })
    }

    /// Stores a record, and replaces an earlier one.
    pub fn put(&mut self, class: &str, pk: &str, record: &Properties) -> Result<()> {
        let at = Place { org: self.org, class, pk };
        let data = self.seal.close(at, self.v, Data::from_map(record)?.as_bytes())?;
        let shown = Shown::default();
        self.is_dirty = true;
        self.tx.put_document(at, &Document { v: self.v, deleted: false, max_life: None, ttl: None, shown, data })
    }

    /// Removes a record for good.
    pub fn remove(&mut self, class: &str, pk: &str) -> Result<()> {
        self.is_dirty = true;
        self.tx.remove_document(Place { org: self.org, class, pk })
    }

    /// Tells every instance that a record has changed: its row of the feed names no def.
    pub fn announce(&mut self, class: &str, pk: &str) -> Result<()> {
        self.is_dirty = true;
        let links = std::collections::BTreeMap::new();
        let (org, class, pk) = (self.org.to_owned(), class.to_owned(), pk.to_owned());
        self.tx.append_feed(&FeedRow { org, class, pk, v: self.v, links })
    }
}

impl Engine {
    /// A record of an org, as it is now.
    pub fn kept(&self, org: &str, class: &str, pk: &str) -> Result<Option<Properties>> {
        read(self.provider.read()?.as_ref(), &self.seal, Place { org, class, pk })
    }

    /// Writes records of an org in one transaction, and commits it if `write` has changed any. Errors: those of `write`,
    /// after which nothing is stored; `contention`.
    pub fn keep<T>(&self, org: &str, write: impl FnOnce(&mut KeptWrite<'_>) -> Result<T>) -> Result<T> {
        let mut begun = self.hold(org, self.settings.write_wait)?;
        let v = self.stamp((&begun.head, begun.time), 0)?;
        let mut kept =
            KeptWrite { tx: begun.tx.as_mut(), seal: &self.seal, org, v, is_dirty: false };
        let done = write(&mut kept)?;
        if kept.is_dirty {
            begun.head.highest = begun.head.highest.max(v);
            self.commit(begun)?;
            self.after_commit();
        }
        Ok(done)
    }

    /// A secret of the site for one purpose. All instances have the same.
    pub fn secret(&self, purpose: &str) -> Result<[u8; 32]> {
        use hmac::{Hmac, KeyInit, Mac};
        let site = self.provider.read()?.site()?;
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&site.cursor_key)
            .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        mac.update(purpose.as_bytes());
        Ok(mac.finalize().into_bytes().into())
    }
}

fn read<S: Snapshot + ?Sized>(snapshot: &S, seal: &Seal, at: Place) -> Result<Option<Properties>> {
    let Some(document) = snapshot.document(at)? else { return Ok(None) };
    Data::from_bytes(&seal.open(at, document.v, &document.data)?)?.to_map().map(Some)
}
