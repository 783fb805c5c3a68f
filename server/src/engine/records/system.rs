//! Records that the server keeps for itself, such as accounts. Each is stored like a document, of a class that no schema
//! can declare: its name begins with `#`.
//!
//! So every database stores them already. They are sealed, copied and restored with the documents, and no def can name
//! them. Their fields have names here alone: all other code has types.

use escale::Result;
use escale::codec::Data;
use escale::model::Version;

use crate::engine::records::opened::{Opened, read_document};
use crate::engine::records::record::Properties;
use crate::provider::{Document, DocumentReads, Edit, Place, Shown};
use crate::seal::Seal;

/// A record that the server keeps for itself.
pub trait SystemRecord: Sized {
    /// Its class.
    const CLASS: &'static str;

    /// The properties to store.
    fn encode(&self) -> Properties;

    /// The record of stored properties. Earlier programs may have stored fewer. Errors: `storage_failed`, or that of a field.
    fn decode(stored: &Properties) -> Result<Self>;
}

/// The record under that key; none if there is none.
pub(in crate::engine) fn read_record<R: SystemRecord>(
    documents: &dyn DocumentReads,
    seal: &Seal,
    (org, pk): (&str, &str),
) -> Result<Option<R>> {
    let at = Place { org, class: R::CLASS, pk };
    read_document(documents, seal, at)?.map(|opened| R::decode(&opened.properties()?)).transpose()
}

/// The record of a stored document.
pub(in crate::engine) fn open_record<R: SystemRecord>(
    seal: &Seal,
    at: Place,
    document: Document,
) -> Result<R> {
    R::decode(&Opened::of(seal, at, document)?.properties()?)
}

/// Stores a record, and replaces an earlier one.
pub(in crate::engine) fn put_record<R: SystemRecord>(
    tx: &mut dyn Edit,
    seal: &Seal,
    (org, pk, v): (&str, &str, Version),
    record: &R,
) -> Result<()> {
    let at = Place { org, class: R::CLASS, pk };
    let (shown, data) = (Shown::default(), Vec::new());
    let document = Document { v, deleted: false, max_life: None, ttl: None, shown, data };
    tx.put_document(at, &seal.close_document(at, document, Data::from_map(&record.encode())?.as_bytes())?)
}

#[cfg(test)]
mod tests;
