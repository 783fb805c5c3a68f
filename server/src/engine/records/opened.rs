//! Stored documents, opened. Nothing of a stored document is used before: neither whether it is deleted, nor its memberships.
//! Somebody with the database, and without the site key, could have altered them.

use escale::Result;
use escale::codec::Data;

use crate::engine::records::record::Properties;
use crate::provider::{Document, DocumentReads, Place};
use crate::seal::Seal;

/// A document or tombstone as the server stored it, and its data.
pub(in crate::engine) struct Opened {
    /// Its columns.
    pub(in crate::engine) document: Document,
    /// Its data in clear. A tombstone has only the key properties.
    pub(in crate::engine) data: Vec<u8>,
}

impl Opened {
    /// Opens a stored document. Errors: `storage_failed`.
    pub(in crate::engine) fn of(seal: &Seal, at: Place, document: Document) -> Result<Self> {
        let data = seal.open_document(at, &document)?;
        Ok(Opened { document, data })
    }

    /// Its properties; the key of a tombstone.
    pub(in crate::engine) fn properties(&self) -> Result<Properties> {
        Data::from_bytes(&self.data)?.to_map()
    }
}

/// The document or tombstone at that place.
pub(in crate::engine) fn read_document(
    documents: &dyn DocumentReads,
    seal: &Seal,
    at: Place,
) -> Result<Option<Opened>> {
    documents.document(at)?.map(|document| Opened::of(seal, at, document)).transpose()
}
