//! The operations of administrators: `account.set` and `org.set`.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::Fault;
use escale::model::Value;
use escale::{Code, Error, Result};

use crate::engine::effects::accounts::{ROLES, account_of, is_login};
use crate::engine::instance::refusals::blocked;
use crate::engine::records::org::OrgRecord;
use crate::engine::records::record::Properties;
use crate::engine::records::schedule::Schedule;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{Ran, working};
use crate::engine::tx::write_tx::WriteTx;

/// `org.set { schedule }`.
pub(in crate::engine) fn set_org(tx: &mut OperationTx<'_>, args: &Value) -> Ran {
    check_admin(&tx.write).map_err(working)?;
    let map = map_of(args, &["schedule"]).map_err(working)?;
    let schedule = map.get("schedule").ok_or_else(|| working(bad("`schedule` is missing")))?;
    tx.set_schedule(None, Schedule::of_value(schedule).map_err(working)?)?;
    Ok(None)
}

/// `account.set { account, role?, schedule? }`.
pub(in crate::engine) fn set_account(tx: &mut OperationTx<'_>, args: &Value) -> Ran {
    check_admin(&tx.write).map_err(working)?;
    change(&mut tx.write, args).map_err(working)?;
    Ok(None)
}

impl OperationTx<'_> {
    /// Gives an account another schedule, or the org if no account is named. Registered operations are trusted: they may
    /// restrict the last administrator.
    pub fn set_schedule(
        &mut self,
        account: Option<&str>,
        schedule: Schedule,
    ) -> std::result::Result<(), Fault> {
        schedule_of(&mut self.write, account, schedule).map_err(working)
    }
}

fn schedule_of(write: &mut WriteTx<'_>, account: Option<&str>, schedule: Schedule) -> Result<()> {
    let mut record = OrgRecord::read(write)?;
    match account {
        None => record.schedule = schedule,
        Some(account) => record.set(account, schedule, write.time)?,
    }
    record.store(write)?;
    match account.map(|account| account_of(write, account)).transpose()?.flatten() {
        // Its document shows the schedule.
        Some(found) => found.store(write).map(drop),
        None => Ok(()),
    }
}

/// Refuses a caller that does not administer the org any more, or is restricted itself. The org's schedule does not count.
fn check_admin(write: &WriteTx<'_>) -> Result<()> {
    let caller = write.caller;
    if !caller.is_admin {
        return Err(Error::new(Code::Forbidden, "only an administrator of the org does that"));
    }
    let record = OrgRecord::read(write)?;
    let level = record.restriction(caller, write.time).account;
    if level > 0 {
        return Err(blocked(level));
    }
    // The instance may not know yet that the role has ended.
    if account_of(write, &caller.account)?.is_some() && !record.is_admin(&caller.account) {
        return Err(Error::new(Code::Forbidden, "the account administers the org no more"));
    }
    Ok(())
}

fn change(write: &mut WriteTx<'_>, args: &Value) -> Result<()> {
    let map = map_of(args, &["account", "role", "schedule"])?;
    let Some(Value::String(account)) = map.get("account") else {
        return Err(bad("`account` is an account's id"));
    };
    let role = match map.get("role") {
        None => None,
        Some(Value::String(role)) if ROLES.contains(&role.as_str()) => Some(role.as_str()),
        Some(_) => return Err(bad("`role` is read, write or admin")),
    };
    let schedule = map.get("schedule").map(Schedule::of_value).transpose()?;
    let (caller, now) = (write.caller, write.time);
    let found = account_of(write, account)?;
    if found.is_none() && (role.is_some() || is_login(write, account)?) {
        return Err(Error::new(Code::NotFound, "no open account of the org has this id"));
    }
    // All others stay as they are, and the caller itself administers the org.
    let is_given_up = *account == caller.account
        && (role.is_some_and(|role| role != "admin")
            || schedule.as_ref().is_some_and(|schedule| schedule.restricts_from(now)));
    if is_given_up && !OrgRecord::read(write)?.has_admin_except(account, now) {
        return Err(Error::new(Code::LastAdmin, "the org would have no administrator"));
    }
    if let (Some(mut found), Some(role)) = (found, role) {
        role.clone_into(&mut found.role);
        found.store(write)?;
    }
    match schedule {
        Some(schedule) => schedule_of(write, Some(account), schedule),
        None => Ok(()),
    }
}

fn map_of<'a>(args: &'a Value, names: &[&str]) -> Result<&'a Properties> {
    let map = args.as_map().ok_or_else(|| bad("the arguments must be a map"))?;
    match map.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(bad(&format!("there is no argument {name}"))),
        None => Ok(map),
    }
}

fn bad(what: &str) -> Error {
    Error::new(Code::BadValue, what)
}
