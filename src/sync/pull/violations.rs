//! Violations of a server that a session can detect. Each is reported once in an opening, as the status's
//! error, for authors of servers. The session continues.

use std::fmt::{self, Write};
use std::ops::Range;

use super::in_flight::InFlight;
use crate::codec::{OpResult, Part, Row, SyncReply};
use crate::error::{Code, Error};
use crate::journal::OpId;
use crate::model::{SortedSet, Version, order};
use crate::sync::context::Ctx;

/// A detected mistake.
pub struct Violation {
    /// The section of docs/protocol.md that the server contradicts.
    section: &'static str,
    position: Position,
    /// The fault there, which identifies the mistake.
    words: &'static str,
}

/// A position in a reply.
#[derive(Default)]
struct Position {
    part: Option<usize>,
    /// The list in the part, and the entry.
    entry: Option<(&'static str, usize)>,
    field: &'static str,
}

impl Position {
    fn of(field: &'static str) -> Self {
        Position { field, ..Position::default() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = self.part {
            write!(f, "parts[{part}].")?;
        }
        if let Some((list, at)) = self.entry {
            write!(f, "{list}[{at}].")?;
        }
        f.write_str(self.field)
    }
}

/// The times of the years 2001 to 2286 in seconds. In milliseconds they are days of 1970.
const SECONDS: Range<u64> = 1_000_000_000..10_000_000_000;
/// So many living rows of a part are compared with their keys. Each takes a hash, so a large page is not
/// compared whole.
const KEYS_CHECKED: usize = 16;

/// Inspects a reply before any of it is applied. `is_certain` tells whether an operation was sent under one
/// number only.
pub fn violations_of(
    ctx: &Ctx,
    request: &InFlight,
    reply: &SyncReply,
    is_certain: impl Fn(&OpId) -> bool,
) -> Vec<Violation> {
    let mut found = Found::default();
    if SECONDS.contains(&reply.now) {
        found.add("Pull", Position::of("now"), "it is in seconds, and not in milliseconds");
    }
    // The operation was sent once only, so it must have been executed under this number.
    let is_uncounted = |result: &OpResult| {
        let sent = request.ops.iter().find(|(id, _)| *id == result.id);
        let is_late = result.ok.is_some() && sent.is_some_and(|(_, seq)| *seq > reply.seq);
        is_late && is_certain(&result.id)
    };
    if reply.results.iter().any(is_uncounted) {
        found.add(
            "Operations",
            Position::of("seq"),
            "it is below the number of an operation that has a result",
        );
    }
    let mut answered = SortedSet::new();
    if let Some(at) = reply.results.iter().position(|result| !answered.insert(&result.id)) {
        let position = Position { entry: Some(("results", at)), ..Position::of("id") };
        found.add("Operations", position, "it has a result already");
    }
    let mut listed = SortedSet::new();
    for (index, part) in reply.parts.iter().enumerate() {
        let of_part = |field| Position { part: Some(index), ..Position::of(field) };
        if !request.has_asked(&part.def) {
            found.add("Pull", of_part("def"), "nobody asked for it");
            continue;
        }
        if !listed.insert(&part.def) {
            found.add("Pull", of_part("def"), "it is there twice");
            continue;
        }
        let since = match request.asked.get(&part.def) {
            Some(asked) => Some(asked.since),
            None => request.repairs.contains(&part.def).then_some(0),
        };
        let is_last = part.fault.is_none() && part.next.is_none();
        if since == Some(0) && is_last && part.present.is_none() {
            found.add("The horizon", of_part("present"), "a pull from 0 ends with it");
        }
        found.inspect(ctx, (index, part), since.unwrap_or(0));
    }
    found.0
}

/// The mistakes of a reply, the first of each kind.
#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, section: &'static str, position: Position, words: &'static str) {
        if !self.0.iter().any(|mistake| mistake.words == words) {
            self.0.push(Violation { section, position, words });
        }
    }

    /// Inspects the rows and departures of a part, which was asked from the version `since`.
    fn inspect(&mut self, ctx: &Ctx, (index, part): (usize, &Part), since: Version) {
        let of_entry =
            |list, at, field| Position { part: Some(index), entry: Some((list, at)), ..Position::of(field) };
        let rows = part.rows.iter().map(|row| (row.v, &row.pk)).collect::<Vec<_>>();
        let left = part.left.iter().map(|(pk, v)| (*v, pk)).collect::<Vec<_>>();
        let mut add = |list, at, field, words| {
            self.add("Rows and departures", of_entry(list, at, field), words);
        };
        for (list, entries) in [("rows", &rows), ("left", &left)] {
            let mut last = None;
            for (at, (v, pk)) in entries.iter().enumerate() {
                if *v < since {
                    add(list, at, "v", "it is below the `v` that was asked");
                }
                match last.replace((v, pk)) {
                    Some((before, _)) if before > v => {
                        add(list, at, "v", "it is below that of the one before");
                    }
                    Some(before) if before >= (v, pk) => {
                        add(list, at, "pk", "it does not come after the one before, at the same `v`");
                    }
                    _ => {}
                }
            }
        }
        let left = order::set_of(left.iter().map(|(_, pk)| *pk));
        if let Some(at) = rows.iter().position(|(_, pk)| left.contains(pk)) {
            add("rows", at, "pk", "it is in `left` too");
        }
        let mut living = part.rows.iter().enumerate().filter(|(_, row)| !row.deleted).take(KEYS_CHECKED);
        let wrong = living.find_map(|(at, row)| Some((at, mistake_of_key(ctx, part, row)?)));
        if let Some((at, (field, words))) = wrong {
            self.add("Names", of_entry("rows", at, field), words);
        }
    }
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
pub struct Violations {
    reported: SortedSet<&'static str>,
}

impl Violations {
    /// Reports the mistakes that were not reported before, as one error.
    pub fn report(&mut self, ctx: &mut Ctx, found: Vec<Violation>) {
        let mut detail = String::new();
        for Violation { section, position, words } in found {
            if self.reported.insert(words) {
                let separator = if detail.is_empty() { "" } else { "; " };
                let _ = write!(detail, "{separator}{position}: {words} (docs/protocol.md, {section})");
            }
        }
        if !detail.is_empty() {
            ctx.errors.report(Error::new(Code::BadReply, detail));
        }
    }
}

/// The error for a reply that contradicts the protocol.
pub fn bad_reply(section: &str, words: &str) -> Error {
    Error::new(Code::BadReply, format!("{words} (docs/protocol.md, {section})"))
}
