//! The bound of memberships of an account (R86).

use escale::limits::VERSION_MAX;
use escale::model::Def;
use escale::model::schema::Class;
use escale::{Code, Error, Result};

use crate::engine::rights::read::MEMBERSHIPS_MAX;
use crate::engine::tx::write_tx::WriteTx;
use crate::provider::Shown;

impl WriteTx<'_> {
    /// Refuses a new membership if its account has as many as a request reads. Errors: `too_large`.
    pub(in crate::engine) fn check_memberships(&mut self, class: &Class, shown: &Shown) -> Result<()> {
        let Some(collection) = self.instance.rights.memberships_of(class.name().as_str()) else {
            return Ok(());
        };
        let Some(account) = shown.links.get(collection.as_str()).and_then(|hashes| hashes.first()) else {
            return Ok(());
        };
        let def = Def::collection_hashed(class.name(), collection, account);
        if self.tx.snapshot().count(self.org, &def, 0, VERSION_MAX + 1, 0)?.found < MEMBERSHIPS_MAX as u64 {
            return Ok(());
        }
        let what = format!(
            "an account has {MEMBERSHIPS_MAX} documents of class {}, the most possible",
            class.name()
        );
        Err(Error::new(Code::TooLarge, what))
    }
}
