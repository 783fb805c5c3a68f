//! Dated levels.

use escale::model::Value;
use escale::{Code, Error, Result};

use crate::engine::caller::NO_ENTRY;

/// Entries of one schedule.
const ENTRIES_MAX: usize = 8;

/// Dated levels, ascending: each holds from its moment until the next one's. Before the first one there is no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule(Vec<(u64, u8)>);

impl Schedule {
    /// A schedule of these entries: moments in milliseconds since 1970, each with the level from then on. Errors:
    /// `bad_value` for more than 8 entries, a level above 3, or moments that do not ascend.
    pub fn new(entries: Vec<(u64, u8)>) -> Result<Self> {
        let bad = |what: &str| Err(Error::new(Code::BadValue, format!("schedule: {what}")));
        if entries.len() > ENTRIES_MAX {
            return bad("at most 8 entries");
        }
        if entries.iter().any(|(_, level)| *level > NO_ENTRY) {
            return bad("a level is 0, 1, 2 or 3");
        }
        if !entries.is_sorted_by(|(one, _), (next, _)| one < next) {
            return bad("the moments must ascend");
        }
        Ok(Schedule(entries))
    }

    /// Reads `[[ms, level], ..]`. Errors: `bad_value`.
    pub(in crate::engine) fn of_value(value: &Value) -> Result<Self> {
        let entry = |value: &Value| match value.as_array()? {
            [ms, level] => Some((ms.as_u64()?, u8::try_from(level.as_u64()?).ok()?)),
            _ => None,
        };
        let entries = value.as_array().and_then(|items| items.iter().map(entry).collect::<Option<_>>());
        let what = "schedule: a list of [moment in ms, level] expected";
        Schedule::new(entries.ok_or_else(|| Error::new(Code::BadValue, what))?)
    }

    pub(in crate::engine) fn to_value(&self) -> Value {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let entry = |(ms, level): &(u64, u8)| Value::Array(vec![number(*ms), number(u64::from(*level))]);
        Value::Array(self.0.iter().map(entry).collect())
    }

    /// The level at that moment.
    pub fn level(&self, now_ms: u64) -> u8 {
        self.0.iter().rev().find(|(from, _)| *from <= now_ms).map_or(0, |(_, level)| *level)
    }

    /// Whether it restricts anybody at that moment or later.
    pub(in crate::engine) fn restricts_from(&self, now_ms: u64) -> bool {
        self.level(now_ms) > 0 || self.0.iter().any(|(from, level)| *from > now_ms && *level > 0)
    }
}
