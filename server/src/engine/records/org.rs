//! The record of an org: its schedule, those of its accounts, and who administers it. So an instance keeps one record of
//! an org in memory, and no request reads more for a restriction.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::{Value, Version};
use escale::{Code, Error, Result};

use crate::engine::caller::{Caller, Restriction};
use crate::engine::records::fields::{entries_of, items};
use crate::engine::records::record::Properties;
use crate::engine::records::schedule::Schedule;
use crate::engine::records::system::SystemRecord;

/// The pk of the only one of an org.
pub(in crate::engine) const ORG: &str = "org";

/// Accounts of one org that have a schedule.
const ACCOUNTS_MAX: usize = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct OrgRecord {
    pub schedule: Schedule,
    pub accounts: BTreeMap<String, Schedule>,
    pub admins: BTreeSet<String>,
}

impl SystemRecord for OrgRecord {
    const CLASS: &'static str = "#org";

    fn encode(&self) -> Properties {
        let accounts = self.accounts.iter().map(|(account, schedule)| (account.clone(), schedule.to_value()));
        let admins = self.admins.iter().map(|account| Value::from(account.as_str()));
        entries_of([
            ("schedule", self.schedule.to_value()),
            ("accounts", Value::Map(accounts.collect())),
            ("admins", Value::Array(admins.collect())),
        ])
    }

    fn decode(stored: &Properties) -> Result<Self> {
        let accounts = stored.get("accounts").and_then(Value::as_map).into_iter().flatten();
        Ok(OrgRecord {
            schedule: stored.get("schedule").map_or(Ok(Schedule::default()), Schedule::of_value)?,
            accounts: accounts
                .map(|(account, value)| Ok((account.clone(), Schedule::of_value(value)?)))
                .collect::<Result<_>>()?,
            admins: items(stored, "admins").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }
}

impl OrgRecord {
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
