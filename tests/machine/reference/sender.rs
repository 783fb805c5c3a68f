//! The operations of the reference. Each concerns a note of its own, so that none waits for another.

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::SyncReply;
use escale::crypto::SeededRandom;
use escale::limits::OPS_BYTES_MAX;
use escale::model::Def;

use super::parts::{Failures, Flight, Known};
use super::pulls::Reference;

/// An operation that waits for its result.
pub struct Waiting {
    id: String,
    /// The number under which it was sent last.
    seq: Option<u64>,
    /// The bytes of its arguments.
    bytes: usize,
    /// The defs whose pull must show its effect.
    awaits: BTreeSet<Def>,
}

pub struct Sender {
    pub waiting: Vec<Waiting>,
    pub refused: Vec<String>,
    failures: Failures,
    pub not_before: u64,
    bytes_max: usize,
    /// The bytes that the line carries in time.
    pub piece: usize,
    pub is_alone: bool,
    /// The session's last executed operation.
    pub last: u64,
}

impl Default for Sender {
    fn default() -> Self {
        let (waiting, refused, failures) = (Vec::new(), Vec::new(), Failures::default());
        let bytes_max = OPS_BYTES_MAX;
        let (not_before, piece, is_alone, last) = (0, 64 << 10, false, 0);
        Sender { waiting, refused, failures, not_before, bytes_max, piece, is_alone, last }
    }
}

impl Sender {
    pub fn write(&mut self, id: &str, bytes: usize) {
        self.waiting.push(Waiting { id: id.to_owned(), seq: None, bytes, awaits: BTreeSet::new() });
    }

    pub fn try_at_once(&mut self, retry_after: u64) {
        self.failures = Failures::default();
        self.not_before = retry_after;
        (self.bytes_max, self.is_alone) = (OPS_BYTES_MAX, false);
    }

    pub fn delay(&mut self, now: u64, random: &mut SeededRandom) {
        self.not_before = now + self.failures.next(random);
    }

    /// The ids and the numbers of the operations that wait.
    pub fn numbers(&self) -> Vec<(String, Option<u64>)> {
        self.waiting.iter().map(|op| (op.id.clone(), op.seq)).collect()
    }

    pub fn has_ops(&self, now: u64) -> bool {
        now >= self.not_before && !self.waiting.is_empty()
    }

    /// First those that have a number, then the others, as many as fit. They are numbered from the last executed one.
    pub fn take_ops(&mut self, known: &BTreeMap<Def, Known>) -> Vec<(String, u64)> {
        let mut places: Vec<usize> = (0..self.waiting.len()).collect();
        places.sort_by_key(|place| (self.waiting[*place].seq.unwrap_or(u64::MAX), *place));
        let mut bytes = 0;
        let fits = |(count, place): &(usize, usize)| {
            bytes += self.waiting[*place].bytes;
            *count == 0 || (!self.is_alone && bytes <= self.bytes_max.min(self.piece))
        };
        let sent: Vec<_> = places.into_iter().enumerate().take_while(fits).map(|(_, place)| place).collect();
        let mut ops = Vec::new();
        for place in &sent {
            let op = &mut self.waiting[*place];
            op.awaits = known.keys().filter(|def| def.class().as_str() == "Note").cloned().collect();
            ops.push((op.id.clone(), self.last + 1 + ops.len() as u64));
        }
        let last = self.last + ops.len() as u64;
        for op in &mut self.waiting {
            let own = ops.iter().find(|(id, _)| *id == op.id).map(|(_, seq)| *seq);
            op.seq = own.or(op.seq.filter(|seq| *seq > last));
        }
        ops
    }

    /// A request is over: a late failure halves the next one, and a quick answer lets it grow four times.
    pub fn took(&mut self, flight: &Flight, now: u64, failed: bool) {
        let (sent, bytes) = flight.sent;
        let is_quick = now - sent < 2_500;
        if failed && !is_quick && bytes > 4 << 10 {
            self.piece = self.piece.min(bytes / 2);
        } else if !failed && is_quick {
            self.piece = self.piece.max((4 * bytes).min(OPS_BYTES_MAX));
        }
    }

    /// The bytes of these operations.
    pub fn bytes_of(&self, ops: &[(String, u64)]) -> usize {
        let sent = |op: &&Waiting| ops.iter().any(|(id, _)| *id == op.id);
        self.waiting.iter().filter(sent).map(|op| op.bytes).sum()
    }

    /// A request with operations was too large.
    pub fn found_too_large(&mut self, flight: &Flight) {
        if flight.ops.len() == 1 {
            self.is_alone = true;
        } else {
            self.bytes_max = self.bytes_of(&flight.ops) / 2;
        }
    }

    /// The operations with that number, and those after it, are numbered again.
    fn release(&mut self, from: u64) {
        for op in &mut self.waiting {
            op.seq = op.seq.filter(|seq| *seq < from);
        }
    }
}

impl Reference {
    pub fn take_results(&mut self, flight: &Flight, reply: &SyncReply, is_later: bool) {
        let mut reached = reply.seq;
        if let Some((_, first)) = flight.ops.first().filter(|_| !is_later && reply.results.is_empty())
            && reply.seq >= *first
        {
            reached = first - 1;
            self.error = Some(Code::BadReply);
        }
        for (id, seq) in &flight.ops {
            if let Some(op) = self.sender.waiting.iter_mut().find(|op| op.id == *id) {
                op.seq = Some(*seq);
            }
        }
        let (mut has_ended, mut stopped) = (false, None);
        for (result, (id, seq)) in reply.results.iter().zip(&flight.ops) {
            let code = result.fault.as_ref().and_then(|fault| Code::parse(&fault.code));
            if !result.is_final() {
                stopped = Some(*seq);
                if code == Some(Code::OrderHeld) {
                    self.sender.release(*seq);
                } else {
                    self.error = code;
                }
                continue;
            }
            has_ended = true;
            let place = self.sender.waiting.iter().position(|op| op.id == *id).expect("waiting");
            let op = self.sender.waiting.remove(place);
            if let Some(code) = code.filter(|code| *code != Code::Forgotten) {
                self.effects.push(format!("refused {id} {code:?}"));
                self.sender.refused.push(op.id);
                continue;
            }
            let v = result.ok.as_ref().map_or(0, |ok| ok.v);
            self.effects.push(format!("accepted {id} {v}"));
            for (def, _) in flight.asked.iter().filter(|(_, (_, cursor))| cursor.is_some()) {
                let known = self.known.get_mut(def).expect("asked");
                known.is_behind |=
                    op.awaits.contains(def) && known.reached.is_none_or(|reached| v <= reached);
            }
        }
        let is_further = reached > std::mem::replace(&mut self.sender.last, reached);
        if flight.ops.is_empty() {
            return;
        }
        self.sender.is_alone = false;
        if has_ended || is_later || is_further {
            self.sender.failures = Failures::default();
        } else {
            self.sender.delay(self.now, &mut self.random);
        }
        if let Some(seq) = stopped.filter(|seq| *seq <= reached) {
            self.sender.release(seq);
        }
    }
}
