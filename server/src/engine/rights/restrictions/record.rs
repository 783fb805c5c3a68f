//! The record of an org: its schedule, those of its accounts, and who administers it.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::{Value, Version};
use escale::{Code, Error, Result};

use super::{Restriction, Schedule};
use crate::engine::Caller;
use crate::engine::operation::Properties;
use crate::engine::rights::KeptWrite;

/// The class of the records.
pub(super) const ORGS: &str = "#org";

/// The pk of the only one of an org.
pub(super) const ORG: &str = "org";

/// Accounts of one org that have a schedule.
const ACCOUNTS_MAX: usize = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OrgRecord {
    pub schedule: Schedule,
    accounts: BTreeMap<String, Schedule>,
    admins: BTreeSet<String>,
}

impl OrgRecord {
    pub fn of_map(map: Option<&Properties>) -> Result<Self> {
        let Some(map) = map else { return Ok(OrgRecord::default()) };
        let schedule = |value: Option<&Value>| value.map_or(Ok(Schedule::default()), Schedule::of_value);
        let accounts = map.get("accounts").and_then(Value::as_map).into_iter().flatten();
        let admins = map.get("admins").and_then(Value::as_array).unwrap_or_default();
        Ok(OrgRecord {
            schedule: schedule(map.get("schedule"))?,
            accounts: accounts
                .map(|(account, value)| Ok((account.clone(), Schedule::of_value(value)?)))
                .collect::<Result<_>>()?,
            admins: admins.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    pub fn read(kept: &KeptWrite<'_, '_>) -> Result<Self> {
        OrgRecord::of_map(kept.get(ORGS, ORG)?.as_ref())
    }

    /// Stores it, and tells every instance.
    pub fn store(&self, kept: &mut KeptWrite<'_, '_>) -> Result<()> {
        let accounts = self.accounts.iter().map(|(account, schedule)| (account.clone(), schedule.to_value()));
        let admins = self.admins.iter().map(|account| Value::from(account.as_str()));
        let map = Properties::from([
            ("schedule".to_owned(), self.schedule.to_value()),
            ("accounts".to_owned(), Value::Map(accounts.collect())),
            ("admins".to_owned(), Value::Array(admins.collect())),
        ]);
        kept.put(ORGS, ORG, &map)?;
        kept.announce(ORGS, ORG)?;
        kept.has_restricted();
        Ok(())
    }

    /// The schedule of an account.
    pub fn of(&self, account: &str) -> Option<&Schedule> {
        self.accounts.get(account)
    }

    /// Gives an account a schedule. Those that are over go. Errors: `too_large`.
    pub fn set(&mut self, account: &str, schedule: Schedule, now: Version) -> Result<()> {
        self.accounts.insert(account.to_owned(), schedule);
        self.accounts.retain(|_, schedule| schedule.restricts_from(now));
        if self.accounts.len() <= ACCOUNTS_MAX {
            return Ok(());
        }
        Err(Error::new(
            Code::TooLarge,
            format!("{ACCOUNTS_MAX} accounts of the org have a schedule, the most possible"),
        ))
    }

    pub fn restriction(&self, caller: &Caller, now_ms: u64) -> Restriction {
        let of_account = self.accounts.get(&caller.account).filter(|_| !caller.account.is_empty());
        Restriction {
            org: self.schedule.level(now_ms),
            account: of_account.map_or(0, |schedule| schedule.level(now_ms)),
        }
    }

    /// Whether the account administers the org. Accounts of a file of tokens are not known here.
    pub fn is_admin(&self, account: &str) -> bool {
        self.admins.contains(account)
    }

    /// Whether an account other than this one administers the org, and may enter and write now.
    pub fn has_admin_except(&self, account: &str, now_ms: u64) -> bool {
        let is_free = |admin: &String| self.of(admin).is_none_or(|schedule| schedule.level(now_ms) == 0);
        self.admins.iter().any(|admin| admin != account && is_free(admin))
    }
}

/// The schedule of an account, as its document shows it.
pub(in crate::engine) fn schedule_shown(kept: &KeptWrite<'_, '_>, account: &str) -> Result<Option<Value>> {
    Ok(OrgRecord::read(kept)?.of(account).map(Schedule::to_value))
}

/// Notes whether an account administers its org. Returns whether another one does.
pub(in crate::engine) fn note_role(
    kept: &mut KeptWrite<'_, '_>,
    account: &str,
    is_admin: bool,
) -> Result<bool> {
    let mut record = OrgRecord::read(kept)?;
    if record.is_admin(account) != is_admin {
        if is_admin {
            record.admins.insert(account.to_owned());
        } else {
            record.admins.remove(account);
        }
        record.store(kept)?;
    }
    Ok(record.has_admin_except(account, kept.now()))
}
