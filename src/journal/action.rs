//! Actions: the events of each document, in the order of their numbers.

use crate::codec::{Data, names, record};
use crate::model::{Name, Pk};

/// The type of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionType {
    /// The document was created.
    Create,
    /// The document was changed.
    Update,
    /// The document's whole state after that.
    Persist,
}

names!(ActionType { Create = "create", Update = "update", Persist = "persist" });

impl ActionType {
    /// The name in a journal.
    pub fn as_str(self) -> &'static str {
        match self {
            ActionType::Create => "create",
            ActionType::Update => "update",
            ActionType::Persist => "persist",
        }
    }

    /// The type of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [ActionType::Create, ActionType::Update, ActionType::Persist]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// One action on the device. Its document is its actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Its number in the journal.
    pub rowid: i64,
    /// The document's class.
    pub class: Name,
    /// The document's pk.
    pub pk: Pk,
    /// Its type.
    pub kind: ActionType,
    /// Milliseconds since 1970 by the device's clock.
    pub at: u64,
    /// The version that the server gave, once it has accepted.
    pub commit: Option<u64>,
    /// For `persist`, the whole state; absent if the document is deleted.
    pub data: Option<Data>,
}

record!(Action { rowid, class, pk, kind, at, commit, data });

/// ISO 8601 text in UTC, with milliseconds: as text it compares like the time itself.
pub fn iso8601(ms: u64) -> String {
    let (days, in_day) = ((ms / 86_400_000) as i64, ms % 86_400_000);
    // Days to a date of the Gregorian calendar, in eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, ms) = (in_day / 1_000, in_day % 1_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_browsers_write_them() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(iso8601(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso8601(1_795_219_200_123), "2026-11-21T00:00:00.123Z");
    }
    /// Days counted one by one through 400 years, after which the calendar repeats, each at another time of day.
    #[test]
    fn a_time_is_its_date_and_its_time_of_day() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..146_097_u64 {
            let [ms, second, minute, hour] = [days % 1_000, days % 60, days / 7 % 60, days % 24];
            let written = iso8601((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms);
            let date = format!("{year:04}-{month:02}-{day:02}");
            assert_eq!(written, format!("{date}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"));
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];
            day += 1;
            if day > last {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
