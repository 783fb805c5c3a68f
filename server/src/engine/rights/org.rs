//! The record of an org in a write.

use escale::Result;

use crate::engine::records::org::{ORG, OrgRecord};
use crate::engine::tx::write_tx::WriteTx;

impl OrgRecord {
    pub fn read(write: &WriteTx<'_>) -> Result<Self> {
        Ok(write.record(ORG)?.unwrap_or_default())
    }

    /// Stores it, and tells every instance.
    pub fn store(&self, write: &mut WriteTx<'_>) -> Result<()> {
        write.put_record(ORG, self)?;
        write.announce::<OrgRecord>(ORG)?;
        write.notes.restricts = true;
        Ok(())
    }

    /// Notes whether an account administers its org. Returns whether another one does.
    pub fn note_role(write: &mut WriteTx<'_>, account: &str, is_admin: bool) -> Result<bool> {
        let mut record = OrgRecord::read(write)?;
        if record.is_admin(account) != is_admin {
            if is_admin {
                record.admins.insert(account.to_owned());
            } else {
                record.admins.remove(account);
            }
            record.store(write)?;
        }
        Ok(record.has_admin_except(account, write.time))
    }
}
