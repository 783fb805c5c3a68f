//! Random histories of requests, replies, operations, refusals, sockets, tokens and modes. The session agrees with the
//! reference after each event. It sends the same, wants to be woken at the same time, and shows the same status.

use escale::Code;
use escale::codec::{Fault, Format, OpOk, OpResult, Part, ServerFrame, ServerParts, SyncReply, encode};
use escale::crypto::{Random, SeededRandom};
use escale::journal::make_id;
use escale::limits::SPREAD_MAX_MS;
use escale::model::{Def, Value};
use escale::sync::{Config, Effect, Event, Mode, Refusal, Write};

use super::harness::{Harness, config, def, epoch, fault, part, refusal, reply, row_in, section, whole};
use super::reference::{Reference, Shown, State};
use escale_testkit::seeds;

struct Both {
    harness: Harness,
    reference: Reference,
    random: SeededRandom,
    /// The last version, and the last cursor.
    count: u64,
    epoch: u64,
    /// The server's pages are empty, as a rule.
    leaves_out: bool,
}

fn defs() -> [Def; 4] {
    [def("Doc"), def("Note"), section("games"), section("admin")]
}

/// An effect, as the reference writes it.
fn written(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::CancelSend(number) => format!("cancel {number}"),
        Effect::OpenSocket(socket) => format!("open {socket}"),
        Effect::CloseSocket(socket) => format!("close {socket}"),
        Effect::Say { socket, request } => {
            let subs: std::collections::BTreeSet<_> = request.subs.iter().collect();
            format!("say {socket} {:?} {subs:?}", request.token)
        }
        Effect::AskToken { refused: false } => "ask a token".into(),
        Effect::AskToken { refused: true } => "ask another token".into(),
        Effect::Saved { id } => format!("saved {id}"),
        Effect::Accepted { id, result } => format!("accepted {id} {}", result.as_ref().expect("executed").0),
        Effect::Refused { id, error } => format!("refused {id} {:?}", error.code()),
        _ => return None,
    })
}

impl Both {
    fn new(seed: u64) -> Self {
        let config = || Config {
            has_live: seed % 2 == 1,
            watches_silence: seed % 8 < 6,
            has_token: seed % 3 == 2,
            poll_every_ms: if seed % 5 == 4 { 30_000 } else { config().poll_every_ms },
            ..config()
        };
        let (harness, random) = (Harness::new(config()), SeededRandom::new(seed));
        let reference = Reference::new(config(), 7, harness.now);
        let mut both = Both { harness, reference, random, count: 1_000, epoch: 1, leaves_out: seed % 7 == 6 };
        both.check();
        both
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n).expect("a number")
    }

    fn any_def(&mut self) -> Def {
        let n = self.below(4);
        defs()[n as usize].clone()
    }

    /// The reference has taken the event already.
    fn feed(&mut self, event: Event) {
        self.harness.feed(event);
        self.reference.now = self.harness.now;
        self.reference.advance();
        self.check();
    }

    fn check(&mut self) {
        let mut done: Vec<String> = self.harness.take_all().iter().filter_map(written).collect();
        for (number, request, token) in self.harness.requests.drain(..) {
            let subs: Vec<_> =
                request.subs.iter().map(|sub| (&sub.def, (sub.v, sub.cursor.clone()))).collect();
            let ops: Vec<_> = request.ops.iter().map(|op| (op.id.clone(), op.seq)).collect();
            done.push(format!("send {number} {:?} {token:?} {ops:?} {subs:?}", request.epoch));
        }
        let (sent, mut wanted): (Vec<_>, Vec<_>) =
            self.reference.effects.drain(..).partition(|effect| effect.starts_with("send "));
        wanted.extend(sent);
        assert_eq!(done, wanted);
        assert_eq!(self.harness.wake_at(), self.reference.wake_at(), "at {}", self.harness.now);
        let operations = self.harness.client.machine.operations();
        let waiting = operations.iter().filter(|(op, _)| op.is_waiting());
        let numbers: Vec<_> = waiting.map(|(op, _)| (op.state.issued.id.clone(), op.seq)).collect();
        assert_eq!(numbers, self.reference.sender.numbers());
        drop(operations);
        let status = self.harness.client.machine.status();
        let shown = Shown {
            phase: status.phase,
            updates: status.updates,
            progress: status.progress.map(|progress| (progress.received, progress.total)),
            error: status.error.map(|error| error.code()),
            pending: status.pending,
            faults: status.faults.iter().map(|(def, error)| (def.clone(), error.code())).collect(),
        };
        assert_eq!(shown, self.reference.shown(), "at {}", self.harness.now);
    }

    fn pass(&mut self) {
        let now = self.harness.now;
        let due = self.harness.wake_at();
        let to = match self.below(6) {
            0 => now + self.below(40_000),
            1 => due.map_or(now + 1, |due| now.midpoint(due)),
            2 => now + self.below(200),
            _ => due.unwrap_or(now + 60_000),
        };
        self.harness.wake(to);
        self.reference.now = to;
        self.reference.advance();
        self.check();
    }

    fn any_part(&mut self, def: &Def, since: u64, cursor: Option<&str>) -> Part {
        self.count += 1;
        let n = self.count;
        let section = if *def == super::harness::section("admin") { "admin" } else { "games" };
        let some = |count: u64| {
            let row = |i| row_in(&format!("d{n}-{i}"), since.max(n), section);
            let mut rows: Vec<_> = (0..count).map(row).collect();
            rows.sort_by(|one, other| one.pk.cmp(&other.pk));
            rows
        };
        let is_counted = !n.is_multiple_of(3);
        let page =
            |next: String, rows| Part { next: Some(next), total: is_counted.then_some(n), ..part(def, rows) };
        // Some servers leave out most rows that they examine.
        let kind = if self.leaves_out && self.below(20) > 0 { 5 } else { self.below(12) };
        match kind {
            0 => fault(def, Code::Contention),
            1 => fault(def, Code::Forbidden),
            2 => fault(def, Code::BadCursor),
            3 | 4 => page(format!("c{n}"), some(1 + n % 3)),
            5 => page(format!("c{n}"), vec![]),
            6 => page(cursor.unwrap_or("c0").to_owned(), vec![]),
            7 => page(format!("c{n}"), vec![row_in("same", since.max(900), section)]),
            8 | 9 => whole(def, some(n % 3)),
            _ => whole(def, vec![]),
        }
    }

    fn any_reply(&mut self) -> SyncReply {
        let flight = self.reference.flight.as_ref().expect("in flight");
        let asked: Vec<_> = flight.asked.iter().map(|(def, asked)| (def.clone(), asked.clone())).collect();
        self.epoch += u64::from(self.below(12) == 0);
        let is_earlier = self.below(25) == 0;
        let (skip, most) = (self.below(2), if self.below(3) == 0 { self.below(3) } else { 9 });
        let mut parts = Vec::new();
        for (def, (since, cursor)) in
            asked.into_iter().skip(if most < 9 { skip as usize } else { 0 }).take(most as usize)
        {
            parts.push(self.any_part(&def, since, cursor.as_deref()));
        }
        let (results, seq) = self.any_results();
        let now = 20_000 + self.count * 10;
        let epoch = epoch(self.epoch - u64::from(is_earlier));
        SyncReply { epoch, results, seq, ..reply(now, parts) }
    }

    /// Results in order, up to the first operation that was not executed, and the number that the server has reached.
    fn any_results(&mut self) -> (Vec<OpResult>, u64) {
        let ops = self.reference.flight.as_ref().expect("in flight").ops.clone();
        let (mut results, mut seq) = (Vec::new(), self.reference.sender.last);
        let most = if self.below(6) == 0 { self.below(3) } else { 600 };
        for (id, number) in ops.iter().take(most as usize) {
            let (mut result, codes) = (
                OpResult { id: id.clone(), ok: None, fault: None },
                [Code::Contention, Code::OrderHeld, Code::Forgotten, Code::Forbidden],
            );
            match self.below(9) {
                n @ 0..=3 => result.fault = Some(Fault::new(codes[n as usize], "by the test")),
                _ => {
                    result.ok = Some(OpOk {
                        v: self.count + self.random.below(9).expect("a number"),
                        value: None,
                        trees: Vec::new(),
                    })
                }
            }
            let is_executed = result.is_final();
            results.push(result);
            if !is_executed {
                break;
            }
            seq = *number;
        }
        // Now and then, another operation has a number of the request.
        (results, seq + u64::from(self.below(10) == 0))
    }

    fn write(&mut self) {
        let id = make_id(1_700_000_000_000, &mut self.random).expect("an id");
        let note = Value::from([("id", Value::from(id.as_str())), ("text", Value::String("x".repeat(300)))]);
        let args = Value::from([("class", Value::from("Note")), ("data", note)]);
        let bytes = encode(Format::Msgpack, &args).expect("arguments").len();
        self.reference.sender.write(&id, bytes);
        self.reference.effects.push(format!("saved {id}"));
        let write = Write { id, name: "doc.put".into(), args, touches: vec![], after: vec![] };
        self.feed(Event::Write(write));
    }

    fn any_refusal(&mut self) -> Refusal {
        let codes = [
            Code::Offline,
            Code::UnknownOrg,
            Code::UnknownOrg,
            Code::TooLarge,
            Code::TooDeep,
            Code::TooMany,
            Code::Unauthorized,
            Code::ServerRefused,
        ];
        let mut code = codes[self.below(codes.len() as u64) as usize];
        let flight = self.reference.flight.as_ref().expect("in flight");
        // An operation that is too large by itself has tests of its own.
        if flight.ops.len() == 1 && flight.subs == 0 && matches!(code, Code::TooLarge | Code::TooDeep) {
            code = Code::Timeout;
        }
        let retry_after_ms = (self.below(4) == 0).then(|| self.below(20_000));
        Refusal { retry_after_ms, ..refusal(code) }
    }

    fn answer(&mut self) {
        let Some(number) = self.reference.flight.as_ref().map(|flight| flight.number) else { return };
        if self.below(4) == 0 {
            let refusal = self.any_refusal();
            self.reference.refused(&refusal);
            self.feed(Event::Replied { number, reply: Err(refusal) });
        } else {
            let reply = self.any_reply();
            self.reference.answered(&reply);
            self.feed(Event::Replied { number, reply: Ok(reply) });
        }
    }

    fn stir_socket(&mut self) {
        // Now and then, an event of an earlier socket.
        let socket =
            self.reference.socket.number - u64::from(self.below(10) == 0).min(self.reference.socket.number);
        if self.reference.socket.state == State::Opening && self.below(4) > 0 {
            self.reference.socket_opened(socket);
            return self.feed(Event::SocketOpened { socket });
        }
        if self.below(4) == 0 {
            let codes = [
                (1006, None),
                (1012, Some(Code::Unavailable)),
                (1008, Some(Code::ServerRefused)),
                (1011, Some(Code::ServerError)),
                (1013, Some(Code::Unavailable)),
                (4401, None),
                (4429, Some(Code::TooMany)),
                (4500, Some(Code::ServerRefused)),
            ];
            let (code, error) = codes[self.below(8) as usize];
            let spread = (matches!(code, 1012 | 4429) && self.below(2) == 0).then(|| self.below(70_000));
            let reason = spread.map_or_else(|| "closing".to_owned(), |ms| format!("closing {ms}"));
            self.reference.socket_closed(socket, code, error, spread.map(|ms| ms.min(SPREAD_MAX_MS)));
            return self.feed(Event::SocketClosed { socket, code, reason });
        }
        let frame = match self.below(5) {
            0 => ServerFrame::Alive,
            1 => ServerFrame::Hints(vec![(self.any_def(), 5), (self.any_def(), 6)]),
            2 => {
                self.epoch += u64::from(self.below(3) == 0);
                let (epoch, now) = (epoch(self.epoch), 20_000 + self.count * 10);
                ServerFrame::Parts(ServerParts { epoch, now, delta: 100, seq: 0, parts: vec![] })
            }
            _ => {
                let mut live: Vec<Def> = self.reference.socket.said.iter().flatten().cloned().collect();
                let refused = if self.below(5) == 0 { live.pop() } else { None };
                let refused = refused.map(|def| (def, Fault::new(Code::Forbidden, "by the test")));
                let refused = refused.into_iter().collect();
                let highest = 19_900 + self.below(self.count * 10 + 1);
                let head = (self.below(3) > 0).then(|| (epoch(self.epoch), highest));
                let spread = self.below(2) * self.below(5_000);
                ServerFrame::Live { live, refused, head, spread }
            }
        };
        self.reference.framed(socket, &frame);
        self.feed(Event::Frame { socket, frame: Ok(frame) });
    }

    fn step(&mut self) {
        match self.below(28) {
            0..=1 => {
                let def = self.any_def();
                self.reference.subscribe(&def);
                self.feed(Event::Subscribe(def));
            }
            2 => {
                let def = self.any_def();
                self.reference.unsubscribe(&def);
                self.feed(Event::Unsubscribe(def));
            }
            3..=11 => self.answer(),
            12..=16 => self.pass(),
            17 => {
                let is_up = self.below(3) > 0;
                self.reference.set_network(is_up);
                self.feed(Event::Network(is_up));
            }
            18 => {
                self.reference.look_up();
                self.feed(Event::Visible);
            }
            19 => {
                let is_avion = self.below(3) == 0;
                self.reference.set_mode(is_avion);
                self.feed(Event::SetMode(if is_avion { Mode::Avion } else { Mode::Synced }));
            }
            20 => {
                let token = (self.below(4) > 0).then(|| format!("t{}", self.count));
                self.reference.give_token(token.clone());
                self.feed(Event::Token(token));
            }
            24..=26 => self.write(),
            27 if !self.reference.sender.refused.is_empty() => {
                let id = self.reference.sender.refused.remove(0);
                self.feed(Event::Discard(id));
            }
            // The reply to another request.
            21 => self.feed(Event::Replied { number: 0, reply: Ok(reply(50_000, vec![])) }),
            _ if self.reference.config.has_live => self.stir_socket(),
            _ => self.pass(),
        }
    }
}

#[test]
fn r5_a_session_asks_waits_and_shows_as_the_reference_does() {
    for seed in seeds::each(500) {
        eprintln!("ESCALE_SEED={seed}");
        let mut both = Both::new(seed);
        for _ in 0..120 {
            both.step();
        }
    }
}
