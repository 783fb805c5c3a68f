//! Mistakes of a server that a session can detect. Each is reported once in an opening, as the status's
//! error. The session continues, since none of its own state depends on them. For authors of servers.

use super::machine::Machine;
use super::pull::InFlight;
use crate::codec::{Part, Row, SyncReply};
use crate::error::{Code, Error};
use crate::model::SortedSet;

/// A detected mistake. First, the section of docs/protocol.md that the server contradicts, which also
/// identifies the mistake. Then the position in the reply, and the fault there.
pub(super) type Mistake = (&'static str, String);

/// If a server's time is less than this fraction of its epoch's, it is not in milliseconds.
const NOT_MILLISECONDS: u64 = 100;

impl Machine {
    /// Inspects a reply before any of it is applied.
    pub(super) fn mistakes_of(&self, request: &InFlight, reply: &SyncReply) -> Vec<Mistake> {
        let mut found: Vec<Mistake> = Vec::new();
        if reply.now < reply.epoch.ms() / NOT_MILLISECONDS {
            found.push(("Pull", "now: it is in milliseconds, as the epoch is".to_owned()));
        }
        // The operation was sent once only, so it must have been executed under this number.
        let is_uncounted = |(place, result): &(usize, &crate::codec::OpResult)| {
            let sent = request.ops.iter().find(|(id, _)| *id == result.id);
            let is_certain = self.writes.get(&result.id).is_some_and(|op| !op.has_other_numbers);
            let is_it = is_certain && result.ok.is_some() && sent.is_some_and(|(_, seq)| *seq > reply.seq);
            is_it.then_some(*place).is_some()
        };
        if let Some((place, _)) = reply.results.iter().enumerate().find(is_uncounted) {
            found.push(("Operations", format!("seq: it is below the number of results[{place}]")));
        }
        let mut seen = SortedSet::new();
        for (place, part) in reply.parts.iter().enumerate() {
            let is_known = request.has_asked(&part.def) && seen.insert(&part.def);
            if !is_known {
                found.push((
                    "Names",
                    format!("parts[{place}].def: nobody asked for it, or it is there twice"),
                ));
                continue;
            }
            let asked = request.asked.get(&part.def);
            let is_asked_whole = asked.map_or(request.repairs.contains(&part.def), |asked| asked.since == 0);
            let is_last = part.fault.is_none() && part.next.is_none();
            if is_asked_whole && is_last && part.present.is_none() {
                found.push(("The horizon", format!("parts[{place}].present: a pull from 0 ends with it")));
            }
            found.extend(self.mistake_of_part(place, part));
        }
        found
    }

    fn mistake_of_part(&self, place: usize, part: &Part) -> Option<Mistake> {
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
        let words = self.mistake_of_key(part, &part.rows[at])?;
        Some(("Names", format!("parts[{place}].rows[{at}].{words}")))
    }

    fn mistake_of_key(&self, part: &Part, row: &Row) -> Option<&'static str> {
        let class = self.ctx.memory.schema().class(part.def.class().as_str()).ok()?;
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

    /// Reports the mistakes that were not reported before.
    pub(super) fn tell_mistakes(&mut self, found: Vec<Mistake>) {
        for (section, words) in found {
            if self.mistakes.insert(section) {
                self.ctx.errors.report(bad_reply(section, &words));
            }
        }
    }
}

/// The error for a reply that contradicts the protocol.
pub(super) fn bad_reply(section: &str, words: &str) -> Error {
    Error::new(Code::BadReply, format!("{words} (docs/protocol.md, {section})"))
}
