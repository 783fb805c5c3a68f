//! Mistakes of a server that a session can detect. Each is reported once in an opening, as the status's
//! error. The session continues, since none of its own state depends on them. For authors of servers.

use super::in_flight::InFlight;
use crate::codec::{OpResult, Part, Row, SyncReply};
use crate::error::{Code, Error};
use crate::journal::OpId;
use crate::model::SortedSet;
use crate::sync::context::Ctx;

/// A detected mistake. First, the section of docs/protocol.md that the server contradicts, which also
/// identifies the mistake. Then the position in the reply, and the fault there.
pub type Mistake = (&'static str, String);

/// If a server's time is less than this fraction of its epoch's, it is not in milliseconds.
const NOT_MILLISECONDS: u64 = 100;

/// Inspects a reply before any of it is applied. `is_certain` tells whether an operation was sent under one
/// number only.
pub fn mistakes_of(
    ctx: &Ctx,
    request: &InFlight,
    reply: &SyncReply,
    is_certain: impl Fn(&OpId) -> bool,
) -> Vec<Mistake> {
    let mut found: Vec<Mistake> = Vec::new();
    if reply.now < reply.epoch.ms() / NOT_MILLISECONDS {
        found.push(("Pull", "now: it is in milliseconds, as the epoch is".to_owned()));
    }
    // The operation was sent once only, so it must have been executed under this number.
    let is_uncounted = |(_, result): &(usize, &OpResult)| {
        let sent = request.ops.iter().find(|(id, _)| *id == result.id);
        let is_late = result.ok.is_some() && sent.is_some_and(|(_, seq)| *seq > reply.seq);
        is_late && is_certain(&result.id)
    };
    if let Some((place, _)) = reply.results.iter().enumerate().find(is_uncounted) {
        found.push(("Operations", format!("seq: it is below the number of results[{place}]")));
    }
    let mut seen = SortedSet::new();
    for (place, part) in reply.parts.iter().enumerate() {
        let is_known = request.has_asked(&part.def) && seen.insert(&part.def);
        if !is_known {
            found.push(("Names", format!("parts[{place}].def: nobody asked for it, or it is there twice")));
            continue;
        }
        let asked = request.asked.get(&part.def);
        let is_asked_whole = asked.map_or(request.repairs.contains(&part.def), |asked| asked.since == 0);
        let is_last = part.fault.is_none() && part.next.is_none();
        if is_asked_whole && is_last && part.present.is_none() {
            found.push(("The horizon", format!("parts[{place}].present: a pull from 0 ends with it")));
        }
        found.extend(mistake_of_part(ctx, place, part));
    }
    found
}

fn mistake_of_part(ctx: &Ctx, place: usize, part: &Part) -> Option<Mistake> {
    let falls = |versions: &[u64]| versions.windows(2).position(|pair| pair[0] > pair[1]);
    let rows: Vec<u64> = part.rows.iter().map(|row| row.v).collect();
    let left: Vec<u64> = part.left.iter().map(|(_, v)| *v).collect();
    for (name, versions) in [("rows", rows), ("left", left)] {
        if let Some(at) = falls(&versions) {
            let at = at + 1;
            let words = format!("parts[{place}].{name}[{at}].v: it is below that of the one before");
            return Some(("Rows and departures", words));
        }
    }
    // A server that makes keys wrongly does so for all rows: the first living row is enough, and checking
    // it costs nothing.
    let at = part.rows.iter().position(|row| !row.deleted)?;
    let words = mistake_of_key(ctx, part, &part.rows[at])?;
    Some(("Names", format!("parts[{place}].rows[{at}].{words}")))
}

fn mistake_of_key(ctx: &Ctx, part: &Part, row: &Row) -> Option<&'static str> {
    let class = ctx.memory.schema().class(part.def.class().as_str()).ok()?;
    let names: Vec<_> = class.key().iter().collect();
    // Data that cannot be read is reported as another error.
    let data = row.data.as_ref()?.pick(&names).ok()?;
    let parts: Option<Vec<&str>> = names.iter().map(|name| data.get(name.as_str())?.as_str()).collect();
    match parts.map(|parts| class.pk_of(&parts)) {
        None => Some("data: a key property is missing, or is no string"),
        Some(Ok(pk)) if pk == row.pk => None,
        Some(_) => Some("pk: it is not the one that the key properties make"),
    }
}

/// The mistakes that were reported already, by the section of the protocol.
#[derive(Debug, Default)]
pub struct Mistakes {
    reported: SortedSet<&'static str>,
}

impl Mistakes {
    /// Reports the mistakes that were not reported before.
    pub fn tell(&mut self, ctx: &mut Ctx, found: Vec<Mistake>) {
        for (section, words) in found {
            if self.reported.insert(section) {
                ctx.errors.report(bad_reply(section, &words));
            }
        }
    }
}

/// The error for a reply that contradicts the protocol.
pub fn bad_reply(section: &str, words: &str) -> Error {
    Error::new(Code::BadReply, format!("{words} (docs/protocol.md, {section})"))
}
