//! Mistakes of a server that a session can detect. Each is reported once in an opening, as the status's
//! error. The session continues, since none of its own state depends on them. For authors of servers.

use std::ops::Range;

use super::in_flight::InFlight;
use crate::codec::{OpResult, Part, Row, SyncReply};
use crate::error::{Code, Error};
use crate::journal::OpId;
use crate::model::{Pk, SortedSet, Version, order};
use crate::sync::context::Ctx;

/// A detected mistake.
pub struct Mistake {
    /// The section of docs/protocol.md that the server contradicts.
    section: &'static str,
    /// The position in the reply.
    at: String,
    /// The fault there, which identifies the mistake.
    words: &'static str,
}

/// The times of the years 2001 to 2286 in seconds. In milliseconds they are days of 1970.
const SECONDS: Range<u64> = 1_000_000_000..10_000_000_000;
/// So many living rows of a part are compared with their keys. Each takes a hash, so a large page is not
/// compared whole.
const KEYS_CHECKED: usize = 16;

/// Inspects a reply before any of it is applied. `is_certain` tells whether an operation was sent under one
/// number only.
pub fn mistakes_of(
    ctx: &Ctx,
    request: &InFlight,
    reply: &SyncReply,
    is_certain: impl Fn(&OpId) -> bool,
) -> Vec<Mistake> {
    let mut found = Vec::new();
    let mut add = |section, at: String, words| found.push(Mistake { section, at, words });
    if SECONDS.contains(&reply.now) {
        add("Pull", "now".to_owned(), "it is in seconds, and not in milliseconds");
    }
    // The operation was sent once only, so it must have been executed under this number.
    let is_uncounted = |result: &OpResult| {
        let sent = request.ops.iter().find(|(id, _)| *id == result.id);
        let is_late = result.ok.is_some() && sent.is_some_and(|(_, seq)| *seq > reply.seq);
        is_late && is_certain(&result.id)
    };
    if reply.results.iter().any(is_uncounted) {
        add("Operations", "seq".to_owned(), "it is below the number of an operation that has a result");
    }
    let mut seen = SortedSet::new();
    for (place, part) in reply.parts.iter().enumerate() {
        if !request.has_asked(&part.def) {
            add("Pull", format!("parts[{place}].def"), "nobody asked for it");
            continue;
        }
        if !seen.insert(&part.def) {
            add("Pull", format!("parts[{place}].def"), "it is there twice");
            continue;
        }
        let since = match request.asked.get(&part.def) {
            Some(asked) => Some(asked.since),
            None => request.repairs.contains(&part.def).then_some(0),
        };
        let is_last = part.fault.is_none() && part.next.is_none();
        if since == Some(0) && is_last && part.present.is_none() {
            add("The horizon", format!("parts[{place}].present"), "a pull from 0 ends with it");
        }
        let since = since.unwrap_or(0);
        let rows = part.rows.iter().map(|row| (row.v, &row.pk));
        let left = part.left.iter().map(|(pk, v)| (*v, pk));
        let lists = [("rows", rows.collect::<Vec<_>>()), ("left", left.collect())];
        for (list, changes) in &lists {
            for (row, field, words) in mistakes_of_order(changes, since) {
                add("Rows and departures", format!("parts[{place}].{list}[{row}].{field}"), words);
            }
        }
        let left: SortedSet<Pk> = order::set_of(part.left.iter().map(|(pk, _)| pk.clone()));
        if let Some(row) = part.rows.iter().position(|row| left.contains(&row.pk)) {
            add("Rows and departures", format!("parts[{place}].rows[{row}].pk"), "it is in `left` too");
        }
        let mut living = part.rows.iter().enumerate().filter(|(_, row)| !row.deleted).take(KEYS_CHECKED);
        let wrong = living.find_map(|(place, row)| Some((place, mistake_of_key(ctx, part, row)?)));
        if let Some((row, (field, words))) = wrong {
            add("Names", format!("parts[{place}].rows[{row}].{field}"), words);
        }
    }
    found
}

/// In rows or departures, the first entry with each mistake: its position, the field and the fault.
fn mistakes_of_order(
    changes: &[(Version, &Pk)],
    since: Version,
) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let second_of =
        |is_wrong: fn(&[(Version, &Pk)]) -> bool| Some(changes.windows(2).position(is_wrong)? + 1);
    let falls = second_of(|pair| pair[0].0 > pair[1].0);
    let ties = second_of(|pair| pair[0].0 == pair[1].0 && pair[0].1 >= pair[1].1);
    let early = changes.iter().position(|(v, _)| *v < since);
    let found = [
        falls.map(|row| (row, "v", "it is below that of the one before")),
        ties.map(|row| (row, "pk", "it does not come after the one before, at the same `v`")),
        early.map(|row| (row, "v", "it is below the `v` that was asked")),
    ];
    found.into_iter().flatten()
}

fn mistake_of_key(ctx: &Ctx, part: &Part, row: &Row) -> Option<(&'static str, &'static str)> {
    let class = ctx.memory.schema().class(part.def.class().as_str()).ok()?;
    let names: Vec<_> = class.key().iter().collect();
    // Data that cannot be read is reported as another error.
    let data = row.data.as_ref()?.pick(&names).ok()?;
    let parts: Option<Vec<&str>> = names.iter().map(|name| data.get(name.as_str())?.as_str()).collect();
    match parts.map(|parts| class.pk_of(&parts)) {
        None => Some(("data", "a key property is missing, or is no string")),
        Some(Ok(pk)) if pk == row.pk => None,
        Some(_) => Some(("pk", "it is not the one that the key properties make")),
    }
}

/// The mistakes that were reported already, by their words.
#[derive(Debug, Default)]
pub struct Mistakes {
    reported: SortedSet<&'static str>,
}

impl Mistakes {
    /// Reports the mistakes that were not reported before.
    pub fn tell(&mut self, ctx: &mut Ctx, found: Vec<Mistake>) {
        for Mistake { section, at, words } in found {
            if self.reported.insert(words) {
                ctx.errors.report(bad_reply(section, &format!("{at}: {words}")));
            }
        }
    }
}

/// The error for a reply that contradicts the protocol.
pub fn bad_reply(section: &str, words: &str) -> Error {
    Error::new(Code::BadReply, format!("{words} (docs/protocol.md, {section})"))
}
