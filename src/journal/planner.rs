//! The sweeper's planner: computes the actions that a retention rule removes. It is pure: a dry run reports
//! exactly the actions that the real run removes, on the device and on a server's journal alike.
//!
//! If the seed's queries would remove an action that was not accepted yet, the journal's own rule wins: see
//! [`Protect`].

use super::action::ActionType;
use crate::codec::{
    Decode, Encode, Fields, Format, Node, NodeError, Presence, Writer, content_of, unknown_variant,
};
use crate::error::{Code, Result, fail};
use crate::model::{SortedMap, SortedSet, order};

/// The facts about an action that the planner needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionMeta {
    /// Its number: later actions have higher ones.
    pub rowid: i64,
    /// The actor: the document of the action.
    pub actor: String,
    /// Its type; any other than the three counts as one that is not `persist`.
    pub kind: Option<ActionType>,
    /// Whether the server has accepted it (`commitId` is not null).
    pub accepted: bool,
    /// ISO 8601 text, compared as text.
    pub timestamp: String,
}

/// A retention rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Keeps the newest `n` persists of each actor, and every action between and after them.
    Count(u32),
    /// Of each actor's persists before the date, keeps the newest one and everything after it; the rest is
    /// removed. An actor with fewer than two of them keeps everything.
    Before(String),
    /// By count, then by date on the remaining actions.
    Days {
        /// For the count.
        max: u32,
        /// For the date.
        before: String,
    },
}

impl Encode for Retention {
    fn encode(&self, out: &mut Writer) {
        match self {
            Retention::Count(count) => out.variant("Count", count),
            Retention::Before(time) => out.variant("Before", time),
            Retention::Days { max, before } => {
                out.variant_record(
                    "Days",
                    &[("max", Presence::Required, max), ("before", Presence::Required, before)],
                );
            }
        }
    }
}

impl Decode for Retention {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        let (name, content) = content_of(node)?;
        match name.as_ref() {
            "Count" => Decode::decode(content, format).map(Retention::Count),
            "Before" => Decode::decode(content, format).map(Retention::Before),
            "Days" => {
                let mut fields = Fields::new(content, &["max", "before"], format)?;
                Ok(Retention::Days { max: fields.required()?, before: fields.required()? })
            }
            _ => Err(unknown_variant()),
        }
    }
}

/// The actions that are never removed, regardless of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protect {
    /// On the device: every action that the server has not accepted, regardless of its type.
    Unaccepted,
    /// On a server's journal with synchronisation: every persist that is not accepted.
    UnacceptedPersists,
    /// On a journal without synchronisation: none; every persist counts as accepted.
    Nothing,
}

impl Retention {
    /// Rejects a count outside 1 to 100 and an invalid date, before any row is read.
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
    let mut actors: SortedMap<&str, Vec<&ActionMeta>> = SortedMap::new();
    for row in rows {
        actors.entry(&row.actor).or_default().push(row);
    }
    let mut removed = SortedSet::new();
    for actor in actors.values_mut() {
        order::sort_by_key(actor, |row| std::cmp::Reverse(row.rowid));
        let mut sweeping = ActorSweep::new(retention, protect);
        removed.extend(actor.iter().filter(|row| sweeping.goes(row)).map(|row| row.rowid));
    }
    Ok(removed.into_iter().collect())
}

/// Applies a rule to one actor, row by row from the newest to the oldest. So a journal of any length needs no
/// more than two counters. The first row that is removed is the cut: every unprotected row from there on is
/// removed too. A sweep that deletes from the oldest row on can stop anywhere, since the cut stays the same.
#[derive(Clone, Debug)]
pub struct ActorSweep<'r> {
    /// How many of the newest persists that count are kept.
    count: Option<u32>,
    /// Persists that count and are before this date are removed, except the newest of them.
    before: Option<&'r str>,
    protect: Protect,
    seen: u32,
    older: u32,
    is_cut: bool,
}

impl<'r> ActorSweep<'r> {
    /// An actor without any rows yet. The rule must have passed [`Retention::check`].
    pub fn new(retention: &'r Retention, protect: Protect) -> Self {
        let (count, before) = match retention {
            Retention::Count(count) => (Some(*count), None),
            Retention::Before(before) => (None, Some(before.as_str())),
            Retention::Days { max, before } => (Some(*max), Some(before.as_str())),
        };
        // Without its `Z`, a bound without seconds or fractions compares as the beginning of its day, minute
        // or second.
        let before = before.map(|before| before.strip_suffix('Z').unwrap_or(before));
        ActorSweep { count, before, protect, seen: 0, older: 0, is_cut: false }
    }

    /// Whether the actor's next older row is removed.
    pub fn goes(&mut self, row: &ActionMeta) -> bool {
        if self.is_cut {
            return !is_protected(row, self.protect);
        }
        if !counts(row, self.protect) {
            return false;
        }
        self.seen += 1;
        self.older += u32::from(self.before.is_some_and(|before| row.timestamp.as_str() < before));
        // The second persist before the date is removed with everything before it; the last one of the count
        // is kept.
        let is_second_older = self.older == 2;
        self.is_cut = is_second_older || self.count == Some(self.seen);
        is_second_older
    }
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

/// Accepts `YYYY-MM-DD`, if that day exists, optionally with `THH:MM`, `:SS`, `.sss` and `Z`. Such texts
/// compare like their times, apart from the `Z`. A second 60 is rejected: no time in a journal has one.
fn is_iso8601(text: &str) -> bool {
    let number = |from: usize, to: usize| -> Option<u32> {
        text.get(from..to).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
    };
    let bytes = text.as_bytes();
    let is_at = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let is_day = (1..=days_of(year, month)).contains(&day);
    if !(is_at(4, b'-') && is_at(7, b'-') && is_day) {
        return false;
    }
    let Some(time) = text.get(10..).filter(|time| !time.is_empty()) else { return true };
    let is_minute = number(11, 13).is_some_and(|n| n < 24) && number(14, 16).is_some_and(|n| n < 60);
    if !(time.starts_with('T') && is_at(13, b':') && is_minute) {
        return false;
    }
    let rest = &text[16..];
    let rest = match rest.strip_prefix(':') {
        Some(seconds) if number(17, 19).is_some_and(|n| n < 60) => &seconds[2..],
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

/// The number of days in a month; 0 if there is no such month.
fn days_of(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{pack_named, unpack};
    use crate::crypto::{Random, SeededRandom};
    use crate::journal::action::iso8601;

    fn row(rowid: i64, kind: ActionType, accepted: bool) -> ActionMeta {
        let timestamp = format!("2026-01-{rowid:02}T00:00:00.000Z");
        ActionMeta { rowid, actor: "a".into(), kind: Some(kind), accepted, timestamp }
    }

    fn history() -> Vec<ActionMeta> {
        use ActionType::{Create, Persist, Update};
        let kinds = [Create, Update, Persist, Update, Persist, Update, Persist];
        kinds.iter().enumerate().map(|(i, kind)| row(i as i64 + 1, *kind, true)).collect()
    }

    #[test]
    fn a_date_without_seconds_is_the_beginning_of_its_minute() {
        let times = ["10:20:00.000Z", "10:20:45.000Z", "10:20:59.999Z"];
        let rows: Vec<ActionMeta> = (1..)
            .zip(times)
            .map(|(rowid, time)| ActionMeta {
                timestamp: format!("2026-01-31T{time}"),
                ..row(rowid, ActionType::Persist, true)
            })
            .collect();
        let of = |before: &str| plan(&rows, &Retention::Before(before.into()), Protect::Unaccepted).unwrap();
        for before in
            ["2026-01-31T10:20", "2026-01-31T10:20Z", "2026-01-31T10:20:00Z", "2026-01-31T10:20:00.0Z"]
        {
            assert_eq!(of(before), [] as [i64; 0], "{before}: none is older");
        }
        for before in ["2026-01-31T10:21", "2026-01-31T10:21Z", "2026-02-01"] {
            assert_eq!(of(before), [1, 2], "{before}: all are, and the newest stays");
        }
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

    /// All days of 400 years, after which the calendar repeats: exactly the days that occur in written times
    /// are accepted.
    #[test]
    fn a_date_is_a_day_that_there_is() {
        let is_date = |text: &str| Retention::Before(text.to_owned()).check().is_ok();
        let days = 146_097;
        for day in 0..days {
            let time = iso8601(day * 86_400_000 + day * 2_477 % 86_400_000);
            assert!(is_date(&time) && is_date(&time[..10]), "{time}");
        }
        let texts = (1970..2370).flat_map(|year| {
            (0..=13).flat_map(move |month| (0..=32).map(move |day| format!("{year}-{month:02}-{day:02}")))
        });
        assert_eq!(texts.filter(|text| is_date(text)).count() as u64, days, "and no other");
        for text in ["2026-02-30", "2025-02-29", "2100-02-29", "2026-04-31", "2026-00-10", "2026-01-00"] {
            assert!(!is_date(text), "{text}");
        }
    }

    #[test]
    fn a_time_is_one_of_a_day() {
        let is_date = |time: &str| Retention::Before(format!("2026-01-31T{time}")).check().is_ok();
        let parts = |hour: u32, minute: u32, second: u32| format!("{hour:02}:{minute:02}:{second:02}");
        for n in 0..100 {
            let taken = [parts(n, 0, 0), parts(0, n, 0), parts(0, 0, n)].map(|time| is_date(&time));
            assert_eq!(taken, [n < 24, n < 60, n < 60], "{n}");
        }
        for odd in
            ["", "1:00", "10", "10:", "10:0", "10:20:", "10:20.", "10:20+01:00", "10:20:30.1z", "10:20 "]
        {
            assert!(!is_date(odd), "{odd:?}");
        }
    }
    /// The rule in words, for one actor. Persists that count are looked at from the newest on. The row after the last one
    /// of the count, or the second one before the date, begins the past. Of the past, all that is not protected goes.
    fn removed_by_hand(
        rows: &[ActionMeta],
        count: Option<u32>,
        before: Option<&str>,
        protect: Protect,
    ) -> Vec<i64> {
        let mut newest_first: Vec<&ActionMeta> = rows.iter().collect();
        newest_first.sort_by_key(|row| -row.rowid);
        let is_persist = |row: &ActionMeta| row.kind == Some(ActionType::Persist);
        let counting: Vec<&&ActionMeta> = newest_first
            .iter()
            .filter(|row| is_persist(row) && (row.accepted || protect == Protect::Nothing))
            .collect();
        let by_count = count.and_then(|count| counting.get(count as usize - 1)).map(|row| row.rowid - 1);
        let older =
            counting.iter().filter(|row| before.is_some_and(|before| row.timestamp.as_str() < before));
        let by_date = older.skip(1).map(|row| row.rowid).next();
        let is_kept = |row: &ActionMeta| match protect {
            Protect::Unaccepted => !row.accepted,
            Protect::UnacceptedPersists => !row.accepted && is_persist(row),
            Protect::Nothing => false,
        };
        let Some(last) = by_count.max(by_date) else { return Vec::new() };
        rows.iter().filter(|row| row.rowid <= last && !is_kept(row)).map(|row| row.rowid).collect()
    }

    /// Random journals of several actors, whose rows come in any order.
    #[test]
    fn a_plan_removes_the_past_of_each_actor() {
        let mut some = 0;
        for seed in 0..600 {
            let random = &mut SeededRandom::new(seed);
            let mut below = |bound: u64| random.below(bound).unwrap();
            let mut actors = [const { Vec::new() }; 3];
            let mut rows = Vec::new();
            for rowid in 1..=below(30) as i64 {
                let kinds =
                    [ActionType::Persist, ActionType::Persist, ActionType::Create, ActionType::Update];
                let actor = below(3) as usize;
                let mut row = row(rowid, kinds[below(4) as usize], below(4) > 0);
                row.kind = row.kind.filter(|_| below(9) > 0);
                row.actor = actor.to_string();
                row.timestamp.truncate(if below(2) == 0 { 23 } else { 24 });
                actors[actor].push(row.clone());
                rows.insert(below(rows.len() as u64 + 1) as usize, row);
            }
            let time = ["", "T00:00:00.000"][below(2) as usize];
            let (max, date) = (1 + below(6) as u32, format!("2026-01-{:02}{time}", 1 + below(31)));
            let protects = [Protect::Unaccepted, Protect::UnacceptedPersists, Protect::Nothing];
            let protect = protects[below(3) as usize];
            let (retention, count, before) = match below(3) {
                0 => (Retention::Count(max), Some(max), None),
                1 => (Retention::Before(date.clone()), None, Some(date.as_str())),
                _ => (Retention::Days { max, before: date.clone() }, Some(max), Some(date.as_str())),
            };
            let of = |rows: &Vec<ActionMeta>| removed_by_hand(rows, count, before, protect);
            let mut wanted: Vec<i64> = actors.iter().flat_map(of).collect();
            wanted.sort_unstable();
            some += usize::from(!wanted.is_empty());
            assert_eq!(
                plan(&rows, &retention, protect).unwrap(),
                wanted,
                "ESCALE_SEED={seed}: {retention:?}"
            );
        }
        assert!(some > 100, "{some} of these remove anything");
    }

    #[test]
    fn a_count_is_1_to_100() {
        for count in 0..=200 {
            let is_fine = |rule: Retention| rule.check().is_ok();
            let before = "2026-01-01".to_owned();
            assert_eq!(is_fine(Retention::Count(count)), (1..=100).contains(&count), "{count}");
            assert_eq!(
                is_fine(Retention::Days { max: count, before }),
                (1..=100).contains(&count),
                "{count}"
            );
        }
    }

    /// A text with `0` for each digit, and for all digits of a fraction together.
    fn shape_of(text: &str) -> String {
        let shape = text.replace(|digit: char| digit.is_ascii_digit(), "0");
        match shape.split_once(".0") {
            Some((time, rest)) => format!("{time}.0{}", rest.trim_start_matches('0')),
            None => shape,
        }
    }

    /// Every text that is one character longer or has another character than a date.
    #[test]
    fn a_date_has_one_of_nine_shapes() {
        let times = [":00.0Z", ":00.0", ":00Z", ":00", ".0Z", ".0", "Z", ""];
        let shapes = times.map(|rest| format!("0000-00-00T00:00{rest}"));
        for shape in shapes.iter().map(String::as_str).chain(["0000-00-00"]) {
            let text = shape.replace(".0", ".000").replace('0', "1");
            for (place, _) in text.char_indices() {
                for other in ['1', '-', ':', 'T', '.', 'Z', ' ', '+', 'x', '\u{e9}'] {
                    for rest in [&text[place..], &text[place + 1..]] {
                        let date = format!("{}{other}{rest}", &text[..place]);
                        let is_one = shape_of(&date) == "0000-00-00" || shapes.contains(&shape_of(&date));
                        assert_eq!(Retention::Before(date.clone()).check().is_ok(), is_one, "{date}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_rule_is_written_and_read() {
        let before = "2026-01-01".to_owned();
        for rule in
            [Retention::Count(3), Retention::Before(before.clone()), Retention::Days { max: 7, before }]
        {
            assert_eq!(unpack(&pack_named(&rule).unwrap()), Some(rule));
        }
    }
}
