//! The sweeper's planner: which actions a retention rule removes. Pure, so that a dry run tells exactly
//! what the real run does, on the device and on a server's journal alike.
//!
//! Where the seed's queries would remove something that was not accepted yet, the journal's keeper wins: see
//! [`Protect`].

use std::collections::{BTreeMap, BTreeSet};

use super::action::ActionType;
use crate::error::{Code, Result, fail};

/// What the planner needs of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionMeta {
    /// Its number: later actions have higher ones.
    pub rowid: i64,
    /// The actor: the document that it is about.
    pub goblin: String,
    /// Its type; another than the three counts as one that is not `persist`.
    pub kind: Option<ActionType>,
    /// Whether the server has accepted it (`commitId` is not null).
    pub accepted: bool,
    /// ISO 8601 text, compared as text.
    pub timestamp: String,
}

/// A retention rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Keep the newest `n` persists of each actor, and all that lies between and after them.
    Count(u32),
    /// Of each actor's persists older than the moment, keep the newest and what follows it; the rest goes. An actor
    /// with fewer than two of them keeps everything.
    Before(String),
    /// By count, then by date on what is left.
    Days {
        /// For the count.
        max: u32,
        /// For the date.
        before: String,
    },
}

/// What is never removed, whatever the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protect {
    /// On the device: every action that the server has not accepted, whatever its type.
    Unaccepted,
    /// On a server's journal with synchronisation: every persist that is not accepted.
    UnacceptedPersists,
    /// On a journal without synchronisation: nothing; every persist counts as accepted.
    Nothing,
}

impl Retention {
    /// Refuses a count outside 1 to 100 and a date that is none, before anything is looked at.
    pub fn check(&self) -> Result<()> {
        let (count, before) = match self {
            Retention::Count(count) => (Some(*count), None),
            Retention::Before(before) => (None, Some(before)),
            Retention::Days { max, before } => (Some(*max), Some(before)),
        };
        if count.is_some_and(|count| !(1..=100).contains(&count)) {
            return fail(Code::BadOption, "a count must be 1 to 100");
        }
        if before.is_some_and(|text| !is_iso8601(text)) {
            return fail(Code::BadOption, "a date must be ISO 8601 text, such as 2026-01-31T00:00:00.000Z");
        }
        Ok(())
    }
}

/// The rows that the rule removes, ascending, each once. Errors: `bad_option`.
pub fn plan(rows: &[ActionMeta], retention: &Retention, protect: Protect) -> Result<Vec<i64>> {
    retention.check()?;
    let mut actors: BTreeMap<&str, Vec<&ActionMeta>> = BTreeMap::new();
    for row in rows {
        actors.entry(&row.goblin).or_default().push(row);
    }
    let mut removed = BTreeSet::new();
    for actor in actors.values_mut() {
        actor.sort_unstable_by_key(|row| row.rowid);
        match retention {
            Retention::Count(count) => by_count(actor, *count, protect, &mut removed),
            Retention::Before(before) => by_date(actor, before, protect, &mut removed),
            Retention::Days { max, before } => {
                by_count(actor, *max, protect, &mut removed);
                actor.retain(|row| !removed.contains(&row.rowid));
                by_date(actor, before, protect, &mut removed);
            }
        }
    }
    Ok(removed.into_iter().collect())
}

/// Whether an action is a persist that counts.
fn counts(row: &ActionMeta, protect: Protect) -> bool {
    row.kind == Some(ActionType::Persist) && (row.accepted || protect == Protect::Nothing)
}

fn is_protected(row: &ActionMeta, protect: Protect) -> bool {
    match protect {
        Protect::Unaccepted => !row.accepted,
        Protect::UnacceptedPersists => !row.accepted && row.kind == Some(ActionType::Persist),
        Protect::Nothing => false,
    }
}

/// Removes what stands before the n-th newest persist that counts; nothing where there are fewer.
fn by_count(actor: &[&ActionMeta], count: u32, protect: Protect, removed: &mut BTreeSet<i64>) {
    let persists = actor.iter().rev().filter(|row| counts(row, protect));
    if let Some(bound) = persists.map(|row| row.rowid).nth(count as usize - 1) {
        let before = actor.iter().take_while(|row| row.rowid < bound);
        removed.extend(before.filter(|row| !is_protected(row, protect)).map(|row| row.rowid));
    }
}

/// Removes up to and including the second newest of the persists older than the moment.
fn by_date(actor: &[&ActionMeta], before: &str, protect: Protect, removed: &mut BTreeSet<i64>) {
    let older = actor.iter().rev().filter(|row| counts(row, protect) && row.timestamp.as_str() < before);
    if let Some(bound) = older.map(|row| row.rowid).nth(1) {
        let upto = actor.iter().take_while(|row| row.rowid <= bound);
        removed.extend(upto.filter(|row| !is_protected(row, protect)).map(|row| row.rowid));
    }
}

/// `YYYY-MM-DD`, perhaps with `THH:MM`, `:SS`, `.sss` and `Z`: what compares rightly as text.
fn is_iso8601(text: &str) -> bool {
    let number = |from: usize, to: usize, least: u32, most: u32| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).is_some_and(|n: u32| (least..=most).contains(&n))
    };
    let bytes = text.as_bytes();
    let dashes = bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-');
    if !(dashes && number(0, 4, 0, 9999) && number(5, 7, 1, 12) && number(8, 10, 1, 31)) {
        return false;
    }
    let Some(time) = text.get(10..).filter(|time| !time.is_empty()) else { return true };
    if !(time.starts_with('T')
        && bytes.get(13) == Some(&b':')
        && number(11, 13, 0, 23)
        && number(14, 16, 0, 59))
    {
        return false;
    }
    let rest = &text[16..];
    let rest = match rest.strip_prefix(':') {
        Some(seconds) if number(17, 19, 0, 60) => &seconds[2..],
        Some(_) => return false,
        None => rest,
    };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        None => rest,
    };
    rest.is_empty() || rest == "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rowid: i64, kind: ActionType, accepted: bool) -> ActionMeta {
        let timestamp = format!("2026-01-{rowid:02}T00:00:00.000Z");
        ActionMeta { rowid, goblin: "a".into(), kind: Some(kind), accepted, timestamp }
    }

    fn history() -> Vec<ActionMeta> {
        use ActionType::{Create, Persist, Update};
        let kinds = [Create, Update, Persist, Update, Persist, Update, Persist];
        kinds.iter().enumerate().map(|(i, kind)| row(i as i64 + 1, *kind, true)).collect()
    }

    #[test]
    fn by_count_keeps_the_newest_and_all_between() {
        let of = |count| plan(&history(), &Retention::Count(count), Protect::Unaccepted).unwrap();
        assert_eq!(of(1), [1, 2, 3, 4, 5, 6]);
        assert_eq!(of(2), [1, 2, 3, 4]);
        assert_eq!(of(3), [1, 2]);
        assert_eq!(of(4), [] as [i64; 0]);
    }

    #[test]
    fn by_date_keeps_one_older() {
        let of = |day: &str| {
            plan(&history(), &Retention::Before(format!("2026-01-{day}")), Protect::Unaccepted).unwrap()
        };
        assert_eq!(of("31"), [1, 2, 3, 4, 5]);
        assert_eq!(of("06"), [1, 2, 3]);
        assert_eq!(of("05"), [] as [i64; 0]);
    }

    #[test]
    fn what_is_not_accepted_stays_by_the_journals_own_rule() {
        let mut rows = history();
        rows[1].accepted = false;
        rows[2].accepted = false;
        let of = |protect| plan(&rows, &Retention::Count(1), protect).unwrap();
        assert_eq!(of(Protect::Unaccepted), [1, 4, 5, 6]);
        assert_eq!(of(Protect::UnacceptedPersists), [1, 2, 4, 5, 6]);
        assert_eq!(of(Protect::Nothing), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn counts_and_dates_that_are_none_are_refused() {
        for retention in [
            Retention::Count(0),
            Retention::Count(101),
            Retention::Before("yesterday".into()),
            Retention::Before("2026-13-01".into()),
            Retention::Before("2026-01-01T25:00Z".into()),
            Retention::Before("2026-01-01 00:00:00".into()),
            Retention::Days { max: 10, before: String::new() },
        ] {
            assert_eq!(
                plan(&[], &retention, Protect::Nothing).unwrap_err().code(),
                Code::BadOption,
                "{retention:?}"
            );
        }
        for date in ["2026-01-31", "2026-01-31T10:20Z", "2026-01-31T10:20:30.123Z", "2026-01-31T10:20:30"] {
            assert!(Retention::Before(date.into()).check().is_ok(), "{date}");
        }
    }
}
