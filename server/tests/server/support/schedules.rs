//! The arguments of the operations that restrict accounts and orgs (R89).

use std::collections::BTreeMap;

use escale::model::Value;

/// The dated levels of a schedule.
pub fn entries(entries: &[(u64, u8)]) -> Value {
    let entry =
        |(ms, level): &(u64, u8)| Value::Array(vec![Value::from(*ms as i64), Value::from(i64::from(*level))]);
    Value::Array(entries.iter().map(entry).collect())
}

/// Of `account.set`: those that are left out stay as they are.
pub fn set(account: &str, role: Option<&str>, schedule: Option<&[(u64, u8)]>) -> Value {
    let mut args = BTreeMap::from([("account".to_owned(), Value::from(account))]);
    args.extend(role.map(|role| ("role".to_owned(), Value::from(role))));
    args.extend(schedule.map(|schedule| ("schedule".to_owned(), entries(schedule))));
    Value::Map(args)
}

/// Of `account.set`, for a schedule alone.
pub fn of_account(account: &str, schedule: &[(u64, u8)]) -> Value {
    set(account, None, Some(schedule))
}

/// Of `org.set`.
pub fn of_org(schedule: &[(u64, u8)]) -> Value {
    Value::from([("schedule", entries(schedule))])
}
