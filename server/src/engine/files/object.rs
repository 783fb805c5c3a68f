//! Reads of objects. If an application declares rights, to know a hash is none (R86).

use escale::{Code, Error, Result};

use crate::engine::caller::Caller;
use crate::engine::files::filing::Filing;
use crate::engine::files::objects::check_sha;
use crate::engine::instance::work::{Watched, Work};
use crate::engine::rights::readers::Readers;

impl Filing<'_> {
    /// The bytes of an object. Errors: `not_supported`; `not_found` if there is none, or none for this caller; those of the
    /// database and of the store.
    pub fn object(&self, org: &str, caller: &Caller, sha: &str) -> Result<Vec<u8>> {
        let store = self.store()?;
        check_sha(sha)?;
        // Between the two reads an object may get another name, but not two.
        for _ in 0..2 {
            let snapshot = self.provider.read()?;
            let absent = || Error::new(Code::NotFound, "no such object, or none for this account");
            let file = snapshot.files().file(org, sha)?.ok_or_else(absent)?;
            let work = Work::of(self.settings.request_rows);
            let watched = Watched::of(snapshot.as_ref(), &work);
            let asking = (org, caller);
            if !Readers::of(self, (&watched, &work), asking, self.clock.now_ms()).may_read(sha)? {
                return Err(absent());
            }
            drop(snapshot);
            if let Some(stored) = store.get(org, &file.name)? {
                return self.open_object(org, sha, &stored);
            }
        }
        Err(Error::new(
            Code::StorageFailed,
            "the store has lost an object: see `escale-server files --audit`",
        ))
    }
}
