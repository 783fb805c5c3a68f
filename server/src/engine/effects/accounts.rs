//! The records of accounts, as far as rights need them: who administers the org, and the documents that show accounts.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::Fault;
use escale::model::{Value, sha_s};
use escale::{Code, Error, Result};

use crate::engine::records::account::{Account, AccountId};
use crate::engine::records::fields::entries_of;
use crate::engine::records::org::OrgRecord;
use crate::engine::records::schedule::Schedule;
use crate::engine::tx::hooks::NewAccount;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::write_tx::WriteTx;
use crate::rights::ACCOUNTS_CLASS;

/// The roles of accounts.
pub const ROLES: [&str; 3] = ["read", "write", "admin"];

/// The record of an open account.
pub(in crate::engine) fn account_of(write: &WriteTx<'_>, id: &str) -> Result<Option<Account>> {
    let Some(AccountId { login }) = write.record(id)? else { return Ok(None) };
    Ok(write.record(&sha_s(&login))?.filter(|account: &Account| !account.is_closed))
}

/// Whether an account has this login: it is no id then.
pub(in crate::engine) fn is_login(write: &WriteTx<'_>, text: &str) -> Result<bool> {
    Ok(write.record::<Account>(&sha_s(text))?.is_some())
}

impl Account {
    /// Stores it, and tells every instance. Its document of [`ACCOUNTS_CLASS`] follows, if the schema has the class. Returns
    /// whether another account administers the org.
    pub(crate) fn store(&self, write: &mut WriteTx<'_>) -> Result<bool> {
        let pk = sha_s(&self.login);
        write.put_record(&pk, self)?;
        write.announce::<Account>(&pk)?;
        let has_other_admin = OrgRecord::note_role(write, &self.id, self.role == "admin" && !self.is_closed)?;
        self.show(write)?;
        Ok(has_other_admin)
    }

    /// Writes the document that shows it.
    fn show(&self, write: &mut WriteTx<'_>) -> Result<()> {
        let Ok(class) = write.schema().class(ACCOUNTS_CLASS) else { return Ok(()) };
        let pk = class.pk_of(&[&self.id])?;
        let mut document = entries_of([("id", Value::from(self.id.as_str()))]);
        if self.is_closed {
            return match write.get(ACCOUNTS_CLASS, pk.as_str())? {
                Some(_) => write.delete(ACCOUNTS_CLASS, &document),
                None => Ok(()),
            };
        }
        document.extend(entries_of([
            ("login", Value::from(self.login.as_str())),
            ("pub", Value::Bytes(self.public.to_vec())),
            ("role", Value::from(self.role.as_str())),
        ]));
        let schedule = OrgRecord::read(write)?.of(&self.id).map(Schedule::to_value);
        document.extend(schedule.map(|schedule| ("schedule".to_owned(), schedule)));
        write.put(ACCOUNTS_CLASS, document).map(drop)
    }
}

impl OperationTx<'_> {
    /// Asks the application about a sign-up. Errors: the application's refusal.
    pub(crate) fn signs_up(&mut self, account: &NewAccount<'_>) -> Result<()> {
        let hook = self.hooks.sign_up.as_ref();
        hook.map_or(Ok(None), |hook| hook(self, account)).map(drop).map_err(refused)
    }

    /// Asks the application about the end of an account. Errors: the application's refusal.
    pub(crate) fn closes(&mut self, account: &str) -> Result<()> {
        let hook = self.hooks.close.as_ref();
        hook.map_or(Ok(None), |hook| hook(self, account)).map(drop).map_err(refused)
    }
}

/// The answer to a request of an account that the application refuses.
fn refused(fault: Fault) -> Error {
    Error::new(Code::parse(&fault.code).unwrap_or(Code::Forbidden), fault.message)
}
