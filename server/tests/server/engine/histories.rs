//! The engine on SQLite and on PostgreSQL against the reference: random requests of several sessions, accounts and orgs, with
//! purges, restarts, another schema and a site key in between.
#![allow(clippy::result_large_err)] // as in the engine
#![allow(clippy::print_stdout)] // the seed of a history that fails

use std::collections::BTreeSet;
use std::sync::Arc;

use escale::Code;
use escale::codec::{Fault, Op, OpResult, Part, Sub, SyncReply, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Def, Name, Value};
use escale_server::clock::{Clock, ManualClock};
use escale_server::engine::{Caller, Engine, Opening};
use escale_server::provider::Seen;
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::reference::{Act, Asking, If, Properties, Reference, Sent, pk};
use super::trees::tree_of;
use crate::support::base::Base;
use crate::support::chance::Chance;
use crate::support::operating::{key_args, list, map, with};
use crate::support::world::*;

const KEY: [u8; 32] = [5; 32];

/// The schema of the other tests; `more` declares a collection by `kind`.
fn schema(more: bool) -> Schema {
    let kind = r#""kind": { "key": ["kind"], "mutable": true }, "author""#;
    let text = if more { SCHEMA.replacen("\"author\"", kind, 1) } else { SCHEMA.to_owned() };
    let trees = r#"{ "Asso": { "key": ["id"] }, "Adh": { "in": "Asso", "key": ["asso", "num"] },
        "Sta": { "in": "Asso", "key": ["asso"] },"#;
    let text = text.replacen('{', trees, 1);
    Schema::from_json(&text).unwrap()
}

pub fn seal(is_sealed: bool) -> Seal {
    if is_sealed { Seal::with_key(&KEY).adopting() } else { Seal::clear() }
}

fn open(world: &World, is_sealed: bool, more: bool) -> Engine {
    let opening = Opening {
        schema: schema(more),
        settings: world.reference.settings.clone(),
        seal: seal(is_sealed),
        clock: world.clock.clone(),
    };
    let text = |args: &Value, name: &str| args.as_map().unwrap()[name].as_str().unwrap().to_owned();
    let engine = world.base.open(opening).unwrap();
    engine
        .operation("own.value", move |tx, args| {
            tx.put("Note", note(&text(args, "id"), "one"))?;
            Ok(Some(Value::from(&*text(args, "text"))))
        })
        .unwrap()
        .operation("own.fault", |tx, args| {
            tx.put("Note", note("half", "one"))?;
            Err(Fault::new(Code::parse(args.as_str().unwrap()).unwrap(), "as asked"))
        })
        .unwrap()
}

fn wanted(args: Value, wanted: Option<&If>) -> Value {
    match wanted {
        None => args,
        Some(If::At(v)) => with(args, "ifVersion", *v as i64),
        Some(If::Of(id)) => with(args, "ifVersion", [("op", Value::from(&**id))]),
    }
}

fn args_of(act: &Act) -> Value {
    match act {
        Act::Put(class, data, expected) => {
            wanted([("class", Value::from(*class)), ("data", map(data.clone()))].into(), expected.as_ref())
        }
        Act::Patch(id, set, unset, expected) => {
            let args = with(with(key_args(id), "set", map(set.clone())), "unset", list(unset));
            wanted(args, expected.as_ref())
        }
        Act::Delete(class, id, expected) => {
            let args = [("class", Value::from(*class)), ("key", list(&id.split('/').collect::<Vec<_>>()))];
            wanted(args.into(), expected.as_ref())
        }
        Act::Batch(acts) => {
            let item = |act: &Act| -> Value { [("name", act.name().into()), ("args", args_of(act))].into() };
            [("ops", Value::Array(acts.iter().map(item).collect()))].into()
        }
        Act::Own(id, text) => [("id", Value::from(&**id)), ("text", Value::from(&**text))].into(),
        Act::Fault(code) => Value::from(code.as_str()),
    }
}

/// The results without the words for developers.
fn told(results: &[OpResult]) -> Vec<OpResult> {
    let bare = |fault: Fault| Fault { phase: 0, message: String::new(), ..fault };
    results.iter().cloned().map(|result| OpResult { fault: result.fault.map(bare), ..result }).collect()
}

pub struct World {
    pub base: Base,
    pub clock: Arc<ManualClock>,
    pub engine: Option<Engine>,
    /// The position of the feed before the first write.
    pub fed_from: Option<Seen>,
    pub reference: Reference,
    pub chance: Chance,
    pub is_sealed: bool,
    has_more: bool,
    /// Operations that were sent: org, account, operation.
    sent: Vec<(String, String, Sent)>,
    cursors: Vec<(String, Sub)>,
    ids: u64,
    /// The codes met so far, and the kinds of parts.
    met: BTreeSet<String>,
}

impl World {
    fn new(seed: u64, base: Base) -> Self {
        let mut chance = Chance::of(seed);
        let settings = Settings {
            // The reference keeps all of the journal.
            journal_max: 0,
            page_bytes: chance.pick(&[1, 400, 2_000, 1 << 20]),
            skew_ms: chance.pick(&[0, 500]),
            retention_days: 1,
            results_days: 1 + chance.below(2),
            ..Settings::default()
        };
        let clock = ManualClock::at(NOON);
        let (reference, engine, fed_from) = (Reference::new(settings), None, None);
        let (sent, cursors) = (Vec::new(), Vec::new());
        let (is_sealed, has_more, ids, met) = (false, false, 0, BTreeSet::new());
        let mut world = World {
            base,
            clock,
            engine,
            fed_from,
            reference,
            chance,
            is_sealed,
            has_more,
            sent,
            cursors,
            ids,
            met,
        };
        let engine = open(&world, false, false);
        world.fed_from = Some(engine.provider().changed(None, &mut |_| Ok(())).unwrap().seen);
        world.engine = Some(engine);
        world
    }

    fn doc(&mut self) -> String {
        format!("d{}", self.chance.below(6))
    }

    fn properties(&mut self, class: &str) -> Properties {
        let id = self.doc();
        let shelves = ["one", "two", "three"];
        let mut data = note(&id, self.chance.pick(&shelves));
        if class == "Log" {
            return data;
        }
        if self.chance.is(50) {
            let tags: Vec<&str> = shelves.into_iter().filter(|_| self.chance.is(50)).collect();
            data.insert("tags".into(), list(&tags));
        }
        for (name, values, percent) in [
            ("author", ["ann", "ann", "bob"], 30),
            ("mail", ["a@b", "b@b", "c@b"], 25),
            ("isbn", ["1", "2", "3"], 15),
            ("kind", ["k", "l", "m"], 70),
            ("text", ["", "some words", "many more words than a page of a few bytes can hold"], 50),
            ("_own", ["", "", ""], 2),
        ] {
            if self.chance.is(percent) {
                data.insert(name.into(), self.chance.pick(&values).into());
            }
        }
        if self.chance.is(20) {
            let minute = self.clock.now_ms() / 60_000 + self.chance.below(1_500);
            data.insert("maxLife".into(), Value::from(minute as i64));
        }
        data
    }

    pub fn expected(&mut self, org: &str, class: &str, id: &str) -> Option<If> {
        match self.chance.below(6) {
            0 => {
                let key = (org.to_owned(), class.to_owned(), pk(id).to_string());
                let v = self.reference.tables.docs.get(&key).map_or(0, |doc| doc.v);
                Some(If::At(if self.chance.is(70) { v } else { self.chance.pick(&[0, v + 1, v.max(1) - 1]) }))
            }
            1 => {
                let place = self.chance.below(8) as usize;
                Some(If::Of(self.sent.iter().rev().nth(place)?.2.id.clone()))
            }
            _ => None,
        }
    }

    fn act(&mut self, org: &str, depth: u64) -> Act {
        if self.chance.is(35) {
            return self.tree_act(org);
        }
        match self.chance.below(16 + depth) {
            0..5 => {
                let class = if self.chance.is(85) { "Note" } else { "Log" };
                let data = self.properties(class);
                let id = data["id"].as_str().unwrap().to_owned();
                let expected = self.expected(org, "Note", &id).filter(|_| class == "Note");
                Act::Put(class, data, expected)
            }
            5..8 => {
                let id = self.doc();
                let (mut set, expected) = (self.properties("Note"), self.expected(org, "Note", &id));
                if self.chance.is(95) {
                    set.insert("id".into(), Value::from(&*id));
                }
                set.remove("_own");
                let unset = ["tags", "mail", "maxLife", "id"];
                let unset =
                    unset.into_iter().filter(|name| self.chance.is(if *name == "id" { 2 } else { 20 }));
                let unset: Vec<&str> = unset.collect();
                Act::Patch(id, set, unset, expected)
            }
            8..11 => {
                let (class, id) = (if self.chance.is(85) { "Note" } else { "Log" }, self.doc());
                let expected = self.expected(org, "Note", &id).filter(|_| class == "Note");
                Act::Delete(class, id, expected)
            }
            11..13 => {
                let text = "value".repeat(self.chance.below(60) as usize);
                Act::Own(self.doc(), text)
            }
            13 => Act::Fault(self.chance.pick(&[
                Code::NotFound,
                Code::Contention,
                Code::ServerError,
                Code::Unavailable,
                Code::OrderGap,
                Code::Forgotten,
            ])),
            _ => Act::Batch(
                (0..self.chance.below(4))
                    .map(|_| self.act(org, 0))
                    .filter(|act| act.name() != "batch")
                    .collect(),
            ),
        }
    }

    /// The operations of a request: mostly the session's next ones.
    fn ops(&mut self, asking: &Asking) -> Vec<Sent> {
        let session = (asking.org.to_owned(), asking.session.to_owned());
        let mut next = self.reference.sessions.get(&session).map_or(0, |(_, seq)| *seq) + 1;
        if self.chance.is(10) {
            next = (next + self.chance.below(3)).saturating_sub(1).max(1);
        }
        let mut ops = Vec::new();
        for _ in 0..self.chance.below(5) {
            let own = self
                .sent
                .iter()
                .rev()
                .filter(|(org, account, _)| (&**org, &**account) == (asking.org, asking.account));
            let old = own.map(|(_, _, op)| op.clone()).nth(self.chance.below(4) as usize);
            let op = if let Some(op) = old.filter(|_| self.chance.is(35)) {
                // Sent again, perhaps under another number, or as another operation.
                let act = if self.chance.is(4) { self.act(asking.org, 2) } else { op.act };
                let seq = if self.chance.is(60) { next } else { op.seq };
                Sent { seq, act, ..op }
            } else {
                self.ids += 1;
                let place = self.chance.below(6) as usize;
                let after = self.sent.iter().rev().nth(place).map(|(_, _, op)| op.id.clone());
                let after = after.filter(|_| self.chance.is(15));
                Sent { id: format!("id-{}", self.ids), seq: next, act: self.act(asking.org, 2), after }
            };
            next = op.seq + 1;
            self.sent.push((asking.org.to_owned(), asking.account.to_owned(), op.clone()));
            ops.push(op);
        }
        ops
    }

    fn def(&mut self) -> Def {
        if self.chance.is(25) {
            let (item, single) = (pk(self.chance.pick(&["p/1", "p/2", "q/1"])), pk("p"));
            let text = [format!("Adh@{item}"), format!("Sta@{single}"), "Asso".to_owned(), "Adh".to_owned()];
            return self.chance.pick(&text.each_ref().map(String::as_str)).parse().unwrap();
        }
        let note = Name::new("Note").unwrap();
        let of =
            |name: &str, value: &str| Def::collection(&note, &Name::new(name).unwrap(), &[value]).unwrap();
        let document = Def::document(&note, &pk(&self.doc()));
        self.chance.pick(&[
            Def::class_of(&note),
            Def::class_of(&note),
            document,
            of("shelf", "one"),
            of("shelf", "two"),
            of("tags", "three"),
            of("tags", "one"),
            of("author", "ann"),
            Def::class_of(&Name::new("Log").unwrap()),
            if self.has_more { of("kind", "k") } else { of("shelf", "three") },
        ])
    }

    fn subs(&mut self, org: &str) -> Vec<Sub> {
        let highest = self.reference.head(org).highest;
        let mut subs: Vec<Sub> = Vec::new();
        let mut wanted = Vec::new();
        for _ in 0..self.chance.below(4) {
            let tree = if self.chance.is(35) { self.tree_defs() } else { vec![self.def()] };
            wanted.extend(tree);
        }
        for def in wanted {
            let now = self.clock.now_ms();
            let v =
                self.chance.pick(&[0, 0, now.saturating_sub(3_000), now.saturating_sub(DAY / 2), highest, 1]);
            let place = self.chance.below(3) as usize;
            let cursor = self.cursors.iter().rev().nth(place).cloned().filter(|_| self.chance.is(60));
            let sub = match cursor {
                // Now and then of another def or version.
                Some((text, sub)) if self.chance.is(85) => Sub { cursor: Some(text), ..sub },
                Some((text, _)) => Sub { def, v, cursor: Some(text) },
                None => Sub { def, v, cursor: None },
            };
            if subs.iter().all(|other| other.def != sub.def) {
                subs.push(sub);
            }
        }
        subs
    }

    fn request(&mut self) {
        let (org, account) = (self.chance.pick(&["o", "o", "p"]), self.chance.pick(&["ann", "ann", "bob"]));
        let session = self.chance.pick(&["s", "t"]);
        let session =
            if self.chance.is(90) { format!("{session} of {account}") } else { "shared".to_owned() };
        let asking = Asking { org, account, session: &session, may_write: self.chance.is(93) };
        let (ops, subs) = (self.ops(&asking), self.subs(org));
        let wire = |op: &Sent| Op {
            id: op.id.clone(),
            seq: op.seq,
            name: op.act.name().to_owned(),
            args: args_of(&op.act),
            at: 0,
            after: op.after.clone(),
        };
        let request = SyncRequest {
            ops: ops.iter().map(wire).collect(),
            subs: subs.clone(),
            ..SyncRequest::of(session.clone())
        };
        let caller = Caller {
            account: account.to_owned(),
            may_write: asking.may_write,
            is_admin: false,
            ..Caller::default()
        };
        let reply = self.engine.as_ref().unwrap().sync(org, &caller, &request).unwrap();
        self.judge(&asking, &ops, subs, &reply);
    }

    fn judge(&mut self, asking: &Asking, ops: &[Sent], subs: Vec<Sub>, reply: &SyncReply) {
        let clock = self.clock.now_ms();
        let results = self.reference.operate(clock, asking, ops);
        assert_eq!(told(&reply.results), told(&results), "the results of {ops:?}");
        for result in &results {
            let code = result.fault.as_ref().map_or("ok", |fault| &fault.code);
            self.met.insert(code.to_owned());
        }
        let now = self.reference.tell_now(asking.org, clock);
        let session = self.reference.sessions.get(&(asking.org.to_owned(), asking.session.to_owned()));
        let seq = session.filter(|(account, _)| account == asking.account).map_or(0, |(_, seq)| *seq);
        let seq = seq.max(self.reference.passed);
        assert_eq!((reply.now, reply.seq, reply.delta), (now, seq, 2_000));
        let mut room = self.reference.settings.page_bytes;
        let mut parts: Vec<Part> = Vec::new();
        'groups: for group in
            subs.chunk_by(|one, next| tree_of(one).is_some() && tree_of(one) == tree_of(next))
        {
            let before = parts.len();
            for sub in group {
                let text = reply.parts.get(parts.len()).and_then(|part| part.next.as_ref());
                let is_first = parts.iter().all(|part| part.rows.is_empty() && part.left.is_empty());
                let part = self.reference.part(asking.org, sub, now, &mut room, is_first, text);
                let is_whole = part.as_ref().is_some_and(|part| part.next.is_none());
                parts.extend(part);
                if is_whole {
                    continue;
                }
                if group.len() > 1 && before > 0 {
                    self.met.extend((parts.len() > before).then(|| "taken-back".to_owned()));
                    parts.truncate(before);
                }
                break 'groups;
            }
        }
        for (part, sub) in parts.iter().zip(&subs) {
            self.cursors.extend(part.next.clone().map(|text| (text, Sub { cursor: None, ..sub.clone() })));
            self.met.extend(part.fault.as_ref().map(|fault| fault.code.clone()));
            self.met.extend(part.present.as_ref().map(|_| format!("present-{}", sub.v > 0)));
            self.met.extend(part.next.as_ref().map(|_| format!("more-{}", sub.cursor.is_some())));
            self.met.extend(part.floor.map(|_| format!("floor-{}", part.next.is_some())));
        }
        let bare = |part: &Part| {
            let fault = part.fault.clone().map(|fault| fault.code);
            let present = part.present.clone().map(BTreeSet::from_iter);
            (Part { fault: None, present: None, ..part.clone() }, fault, present)
        };
        assert_eq!(
            reply.parts.iter().map(bare).collect::<Vec<_>>(),
            parts.iter().map(bare).collect::<Vec<_>>(),
            "{subs:?}"
        );
    }

    fn step(&mut self) {
        let random = self.chance.below(2_500);
        self.clock.advance(self.chance.pick(&[0, 1, 500, 501, 1_000, random, random, random]));
        self.base.set_clock(self.clock.now_ms());
        match self.chance.below(40) {
            // The database's clock follows at the next step.
            0 => self.clock.advance(self.chance.below(DAY)),
            1 => self.clock.set(self.clock.now_ms() - self.chance.below(5_000)),
            2..5 => {
                let purged = self.engine.as_ref().unwrap().purge().unwrap();
                assert_eq!(purged, self.reference.purge(self.clock.now_ms()));
            }
            5 | 6 => {
                let (seals, declares) = (self.chance.is(30), self.chance.is(30));
                let (seals, declares) = (seals && !self.is_sealed, declares && !self.has_more);
                (self.is_sealed, self.has_more) = (self.is_sealed || seals, self.has_more || declares);
                self.engine = None;
                self.engine = Some(open(self, self.is_sealed, self.has_more));
                self.reference.restart();
                if declares {
                    self.reference.declare("kind");
                }
                self.check();
            }
            7 => self.check(),
            _ => self.request(),
        }
    }
}

/// A history that meets none of these proves nothing of them.
const MET: &str = "ok bad_cursor bad_value contention forbidden forgotten immutable_key internal key_mismatch \
    not_found not_unique order_gap order_held server_error session_reused unavailable unknown_def version_conflict \
    more-false more-true present-false present-true floor-false floor-true taken-back";

/// Plays as many histories, or as many as `ESCALE_CASES` says. Each has so many steps.
fn play(usual: u32, steps: usize, fresh: impl Fn() -> Base) {
    let (mut met, seeds) = (BTreeSet::new(), escale_testkit::seeds::each(usual));
    let count = seeds.end - seeds.start;
    for seed in seeds {
        println!("ESCALE_SEED={seed}");
        let mut world = World::new(seed, fresh());
        for _ in 0..steps {
            world.step();
        }
        world.check();
        met.append(&mut world.met);
    }
    let missed: Vec<&str> = MET.split(' ').filter(|one| !met.contains(*one)).collect();
    assert!(steps < 250 || count < 24 || missed.is_empty(), "no history met {missed:?}");
}

#[test]
fn r11_a_server_answers_and_stores_what_the_reference_does() {
    play(24, 250, Base::folder);
}

#[cfg(feature = "postgres")]
#[test]
fn r11_a_server_on_postgres_answers_and_stores_what_the_reference_does() {
    play(40, 60, || Base::postgres(crate::support::postgres::server(), Some(NOON)));
}
