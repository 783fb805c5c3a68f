//! The view of the database that functions of the application have.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::Fault;
use escale::model::Version;
use escale::model::schema::Class;

use crate::engine::records::record::Properties;
use crate::engine::tx::hooks::Hooks;
use crate::engine::tx::outcome::working;
use crate::engine::tx::write_tx::WriteTx;

/// The reads and writes of an operation: the documents of one org, in one transaction. Keys are lists of texts, and errors
/// are faults.
pub struct OperationTx<'t> {
    /// The write itself, for the server's own code.
    pub(crate) write: WriteTx<'t>,
    pub(in crate::engine) hooks: &'t Hooks,
}

impl<'t> OperationTx<'t> {
    /// The version of the documents that this operation writes: the time of the transaction's start. Documents of the
    /// clock `sequence` get the number of their tree.
    pub fn now(&self) -> Version {
        self.write.now()
    }

    /// The org.
    pub fn org(&self) -> &str {
        self.write.org()
    }

    /// The account of the caller; empty if the server requires no tokens.
    pub fn account(&self) -> &str {
        &self.write.caller.account
    }

    /// Whether the caller administers the org.
    pub fn is_admin(&self) -> bool {
        self.write.caller.is_admin
    }

    /// The living document with these key properties.
    pub fn get(&mut self, class: &str, key: &[&str]) -> std::result::Result<Option<Properties>, Fault> {
        Ok(self.get_with_version(class, key)?.map(|(_, map)| map))
    }

    /// Like [`OperationTx::get`], with the document's version.
    pub fn get_with_version(
        &mut self,
        class: &str,
        key: &[&str],
    ) -> std::result::Result<Option<(Version, Properties)>, Fault> {
        let pk = self.class(class)?.pk_of(key).map_err(working)?;
        self.write.get(class, pk.as_str()).map_err(working)
    }

    pub(in crate::engine) fn class(&self, name: &str) -> std::result::Result<&'t Class, Fault> {
        self.write.schema().class(name).map_err(working)
    }
}
