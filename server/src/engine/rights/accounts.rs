//! The records of accounts, as far as rights need them: who administers the org, and the documents that show accounts.

use escale::model::{Value, sha_s};
use escale::{Code, Error, Result};

use super::KeptWrite;
use crate::engine::operation::Properties;
use crate::engine::rights::restrictions::{note_role, schedule_shown};
use crate::rights::ACCOUNTS_CLASS;

/// The class of the stored accounts, by the hash of the login.
pub const ACCOUNTS: &str = "#account";

/// The class of the ids that are taken for ever (R72).
pub const ACCOUNT_IDS: &str = "#account-id";

/// The roles of accounts.
pub const ROLES: [&str; 3] = ["read", "write", "admin"];

/// The record of an open account.
pub(in crate::engine) fn account_of(kept: &KeptWrite<'_, '_>, id: &str) -> Result<Option<Properties>> {
    let Some(taken) = kept.get(ACCOUNT_IDS, id)? else { return Ok(None) };
    let Some(login) = taken.get("login").and_then(Value::as_str) else { return Ok(None) };
    Ok(kept.get(ACCOUNTS, &sha_s(login))?.filter(|account| !is_closed(account)))
}

/// Whether an account has this login: it is no id then.
pub(in crate::engine) fn is_login(kept: &KeptWrite<'_, '_>, text: &str) -> Result<bool> {
    Ok(kept.get(ACCOUNTS, &sha_s(text))?.is_some())
}

fn is_closed(account: &Properties) -> bool {
    account.get("closed") == Some(&Value::Bool(true))
}

/// Stores the record of an account, and tells every instance. Its document of [`ACCOUNTS_CLASS`] follows, if the schema has
/// the class. Returns whether another account administers the org.
pub fn put_account(kept: &mut KeptWrite<'_, '_>, account: &Properties) -> Result<bool> {
    let text = |name: &str| {
        let found = account.get(name).and_then(Value::as_str);
        found.ok_or_else(|| Error::new(Code::StorageFailed, "a stored account is damaged"))
    };
    let (id, login, role) = (text("id")?, text("login")?, text("role")?);
    let pk = sha_s(login);
    kept.put(ACCOUNTS, &pk, account)?;
    kept.announce(ACCOUNTS, &pk)?;
    let has_other_admin = note_role(kept, id, role == "admin" && !is_closed(account))?;
    show(kept, id, account)?;
    Ok(has_other_admin)
}

/// Writes the document that shows the account.
fn show(kept: &mut KeptWrite<'_, '_>, id: &str, account: &Properties) -> Result<()> {
    let writing = kept.writing();
    let Ok(class) = writing.schema().class(ACCOUNTS_CLASS) else { return Ok(()) };
    let pk = class.pk_of(&[id])?;
    if is_closed(account) {
        let key = Properties::from([("id".to_owned(), Value::from(id))]);
        return match writing.get(ACCOUNTS_CLASS, pk.as_str())? {
            Some(_) => writing.delete(ACCOUNTS_CLASS, &key),
            None => Ok(()),
        };
    }
    let shown = ["id", "login", "pub", "role"].into_iter();
    let mut document: Properties =
        shown.filter_map(|name| Some((name.to_owned(), account.get(name)?.clone()))).collect();
    document.extend(schedule_shown(kept, id)?.map(|schedule| ("schedule".to_owned(), schedule)));
    kept.writing().put(ACCOUNTS_CLASS, document).map(drop)
}
