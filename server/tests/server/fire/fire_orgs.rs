//! Under fire: three orgs whose sessions ask for everything, in their own org and in the others. Every
//! property of a document contains its org's mark. No answer may contain anything of another org: no mark, no
//! pk, no version, no session's number, no working cursor.
//!
//! `ESCALE_REQUESTS=100000 cargo test --release -p escale-server --test server fire_orgs` is the long form.

#![allow(clippy::result_large_err)] // as in the engine

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use escale::codec::{Format, Op, Sub, SyncReply, SyncRequest, encode};
use escale::model::{Def, Name, Pk, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::chance::Chance;
use crate::support::operating::*;
use crate::support::proof::{shown, times};
use crate::support::world::*;

pub const ORGS: [&str; 3] = ["red", "green", "blue"];
const DOCUMENTS: u64 = 24;
const SHELVES: u64 = 4;

pub fn mark(org: &str) -> String {
    format!("~{org}~")
}

/// The id of a document. The first ids are the same in each org, and so are their pks.
fn id(org: &str, n: u64) -> String {
    if n < 4 { format!("common-{n}") } else { format!("{}{n}", mark(org)) }
}

fn pk(org: &str, n: u64) -> Pk {
    Pk::from_key(&[&*id(org, n)]).unwrap()
}

/// A document of an org, with its mark in every property.
pub fn marked(org: &str, n: u64, salt: u64) -> Value {
    let text = |what: &str, n: u64| Value::from(&*format!("{}{what}{n}", mark(org)));
    let tags = Value::Array(vec![text("tag", salt % 3), text("tag", 3 + salt % 2)]);
    [
        ("id", Value::from(&*id(org, n))),
        ("shelf", text("shelf", salt % SHELVES)),
        ("tags", tags),
        ("author", text("author", n)),
        ("mail", text("mail", n)),
        ("isbn", text("isbn", n)),
        ("text", text("text", salt)),
        ("size", Value::from(salt as i64 % 1_000)),
    ]
    .into()
}

pub fn marked_shelf(org: &str, n: u64) -> Def {
    let name = |text: &str| Name::new(text).unwrap();
    Def::collection(&name("Note"), &name("shelf"), &[&*format!("{}shelf{n}", mark(org))]).unwrap()
}

/// The contents of each org, and the values that must not appear elsewhere.
pub struct Town {
    pub engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    pub pks: HashMap<Pk, &'static str>,
    pub versions: HashMap<u64, &'static str>,
    seqs: HashMap<(&'static str, String, String), u64>,
    cursors: Vec<(Def, u64, String)>,
    ids: Vec<String>,
}

impl Town {
    pub fn new(folder: &std::path::Path) -> Self {
        let clock = ManualClock::at(NOON);
        // Small pages, so that there are cursors to try elsewhere.
        let settings = Settings { page_bytes: 3_000, ..Settings::default() };
        let engine = open_with(folder, &clock, settings, Seal::clear())
            .operation("mark", |tx, _| Ok(Some(Value::from(&*format!("{}{}", mark(tx.org()), tx.account())))))
            .unwrap();
        let mut town = Town {
            engine: Arc::new(engine),
            clock,
            pks: HashMap::new(),
            versions: HashMap::new(),
            seqs: HashMap::new(),
            cursors: Vec::new(),
            ids: Vec::new(),
        };
        for org in ORGS {
            for n in 0..DOCUMENTS {
                town.write(org, n, n);
                if n >= 4 {
                    town.pks.insert(pk(org, n), org);
                }
            }
        }
        town
    }

    /// Lets more time pass than a request has operations. So no two orgs give one version, though each has
    /// its own.
    fn pass(&self) {
        self.clock.advance(4);
    }

    /// Writes a document of an org, outside of its sessions.
    pub fn write(&mut self, org: &'static str, n: u64, salt: u64) -> Option<u64> {
        self.pass();
        let map = marked(org, n, salt).as_map().unwrap().clone();
        let written = self.engine.write(org, |w| w.put("Note", map.clone())).unwrap();
        written.v.inspect(|v| assert_eq!(self.versions.insert(*v, org), None, "a version is of one write"))
    }

    fn def(chance: &mut Chance, org: &str) -> Def {
        let name = |text: &str| Name::new(text).unwrap();
        match chance.below(6) {
            0 => def("Note"),
            1 => Def::document(&name("Note"), &pk(org, chance.below(DOCUMENTS))),
            2 | 3 => marked_shelf(org, chance.below(SHELVES)),
            4 => {
                let tag = format!("{}tag{}", mark(org), chance.below(5));
                Def::collection(&name("Note"), &name("tags"), &[&*tag]).unwrap()
            }
            _ => def(chance.pick(&["Counter", "Log", "Nope", "Note/nope@xh_YvT52_nfgO4EKRC2C8g"])),
        }
    }

    fn sub(&self, chance: &mut Chance, org: &str) -> Sub {
        if chance.is(15) && !self.cursors.is_empty() {
            let (def, v, cursor) = chance.pick(&self.cursors);
            return Sub { def, v, cursor: Some(cursor) };
        }
        let org = if chance.is(50) { org } else { chance.pick(&ORGS) };
        let v = if chance.is(60) { 0 } else { NOON.saturating_sub(500) + chance.below(2_000) };
        sub(&Town::def(chance, org), v)
    }

    /// An operation of a session of `org`: on its own documents, or on documents that only other orgs have.
    fn op(&mut self, chance: &mut Chance, org: &str, seq: u64) -> Op {
        if self.ids.is_empty() || chance.is(60) {
            self.ids.push(format!("op-{}", self.ids.len()));
        }
        let id_of_op = if chance.is(60) { self.ids.last().unwrap().clone() } else { chance.pick(&self.ids) };
        let (n, salt) = (chance.below(DOCUMENTS), chance.next() >> 12);
        let note = |map: Value| with(map, "class", "Note");
        let other = chance.pick(&ORGS);
        let (name, args) = match chance.below(6) {
            2 => {
                let set: Value = [("text", Value::from(&*format!("{}{salt}", mark(org))))].into();
                ("doc.patch", with(note([("key", list(&[&*id(other, n)]))].into()), "set", set))
            }
            3 => ("take", Value::from(&*id(other, n))),
            4 => ("mark", Value::Null),
            _ => ("doc.put", note([("data", marked(org, n, salt))].into())),
        };
        let args = match chance.below(4) {
            0 if name.starts_with("doc") => {
                let earlier: Value = [("op", Value::from(&*chance.pick(&self.ids)))].into();
                with(args, "ifVersion", earlier)
            }
            1 if name.starts_with("doc") => with(args, "ifVersion", Value::from(NOON as i64)),
            _ => args,
        };
        let after = chance.is(10).then(|| chance.pick(&self.ids));
        Op { after, ..op(&id_of_op, seq, name, args) }
    }

    /// A request of a random session of an org.
    pub fn request(&mut self, chance: &mut Chance, org: &'static str, account: &str) -> SyncRequest {
        self.pass();
        // Mostly the account's own sessions; some have names that all accounts use.
        let own = if chance.is(85) { account } else { "any" };
        let session = format!("session-{own}-{}", chance.below(4));
        let known = self.seqs.get(&(org, session.clone(), account.to_owned())).copied().unwrap_or(0);
        let n = if chance.is(35) { 1 + chance.below(3) } else { 0 };
        let seq = if chance.is(80) { known + 1 } else { 1 + chance.below(known + 3) };
        let ops = (0..n).map(|at| self.op(chance, org, seq + at)).collect();
        let subs = (0..chance.below(4)).map(|_| self.sub(chance, org)).collect();
        SyncRequest { ops, subs, ..SyncRequest::of(session) }
    }

    /// Checks that a reply to that request contains only this org. Returns the reason if not.
    pub fn check(
        &mut self,
        org: &'static str,
        account: &str,
        request: &SyncRequest,
        reply: &SyncReply,
    ) -> Result<(), String> {
        for result in &reply.results {
            if let Some(ok) = result.ok.as_ref().filter(|ok| ok.v > 0) {
                let of = *self.versions.entry(ok.v).or_insert(org);
                if of != org {
                    return Err(format!("a result of {of}: {result:?}"));
                }
            }
        }
        for format in [Format::Msgpack, Format::Json] {
            foreign_mark(org, &encode(format, reply).unwrap())?;
        }
        let doc = reply.results.iter().filter_map(|result| result.fault.as_ref()?.doc.as_ref());
        let rows = reply.parts.iter().flat_map(|part| &part.rows).chain(doc);
        let seen = rows.map(|row| (&row.pk, Some(row.v)));
        let left = reply.parts.iter().flat_map(|part| &part.left).map(|(pk, v)| (pk, Some(*v)));
        let present = reply.parts.iter().flat_map(|part| part.present.iter().flatten()).map(|pk| (pk, None));
        for (pk, v) in seen.chain(left).chain(present) {
            let asked = |sub: &Sub| sub.def.to_string().ends_with(pk.as_str());
            if self.pks.get(pk).is_some_and(|of| *of != org)
                && v != Some(0)
                && !request.subs.iter().any(asked)
            {
                return Err(format!("a pk of {}: {pk}", self.pks[pk]));
            }
            if let Some(of) = v.and_then(|v| self.versions.get(&v)).filter(|of| **of != org) {
                return Err(format!("a version of {of}: {pk} {v:?}"));
            }
        }
        // The session's progress is known only from its own requests.
        let known = self.seqs.entry((org, request.session.clone(), account.to_owned())).or_default();
        if reply.seq < *known || reply.seq > *known + request.ops.len() as u64 {
            return Err(format!("seq {} where {known} was known", reply.seq));
        }
        *known = reply.seq;
        for (part, sub) in reply.parts.iter().zip(&request.subs) {
            if let Some(next) = &part.next {
                let at = (*known as usize * 7 + self.cursors.len()) % 50;
                let cursor = (part.def.clone(), sub.v, next.clone());
                match self.cursors.get_mut(at) {
                    Some(held) => *held = cursor,
                    None => self.cursors.push(cursor),
                }
            }
        }
        Ok(())
    }
}

/// Whether bytes contain the mark of another org.
pub fn foreign_mark(org: &str, bytes: &[u8]) -> Result<(), String> {
    let others: Vec<String> = ORGS.iter().filter(|other| **other != org).map(|other| mark(other)).collect();
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'~') {
        rest = &rest[at..];
        if let Some(other) = others.iter().find(|other| rest.starts_with(other.as_bytes())) {
            return Err(format!("{org} sees {other}"));
        }
        rest = &rest[1..];
    }
    Ok(())
}

#[test]
fn no_answer_of_the_engine_bears_anything_of_another_org() {
    let since = Instant::now();
    let folder = quick_folder();
    let mut town = Town::new(folder.path());
    let mut chance = Chance::new();
    let requests = times("ESCALE_REQUESTS", 8_000);
    let (mut own, mut rows, mut executed, mut codes) = (0_u64, 0_u64, 0_u64, HashSet::new());
    for _ in 0..requests {
        let org = chance.pick(&ORGS);
        let account = chance.pick(&["", "ann", "bob"]);
        let caller = Caller {
            account: account.into(),
            may_write: !chance.is(20),
            is_admin: false,
            ..Caller::default()
        };
        let request = town.request(&mut chance, org, account);
        town.clock.advance(chance.below(3));
        if chance.is(1) {
            let request = SyncRequest { ops: Vec::new(), ..request.clone() };
            let nowhere = town.engine.sync("nowhere", &caller, &request).unwrap();
            assert!(nowhere.seq == 0 && nowhere.parts.iter().all(|part| part.rows.is_empty()));
            foreign_mark("", format!("{nowhere:?}").as_bytes()).unwrap();
        }
        let reply = town.engine.sync(org, &caller, &request).unwrap();
        town.check(org, account, &request, &reply)
            .unwrap_or_else(|why| panic!("{why}\n{request:?}\n{reply:?}"));
        own += u64::from(reply.parts.iter().any(|part| part.rows.iter().any(|row| row.data.is_some())));
        rows += reply.parts.iter().map(|part| part.rows.len() as u64).sum::<u64>();
        executed += reply.results.iter().filter(|result| result.ok.is_some()).count() as u64;
        let faults = reply.parts.iter().filter_map(|part| part.fault.as_ref());
        let faults = faults.chain(reply.results.iter().filter_map(|result| result.fault.as_ref()));
        codes.extend(faults.map(|fault| fault.code.clone()));
    }
    // The requests must have reached something worth protecting.
    assert!(own > requests / 5 && executed > requests / 20, "{own} {executed}");
    for code in
        ["bad_cursor", "unknown_def", "not_found", "forbidden", "order_held", "order_gap", "version_conflict"]
    {
        assert!(codes.contains(code), "{code} of {codes:?}");
    }
    eprintln!("{rows} rows, {executed} operations executed, faults {codes:?}");
    shown("server-orgs", "no byte of one org reaches another, engine", requests, "requests", since);
}

/// The search itself is tested: replies are checked against another org than theirs.
#[test]
fn an_answer_of_another_org_would_be_seen() {
    let request = |subs| SyncRequest { subs, ..SyncRequest::of("s") };
    for (what, subs) in [
        ("green sees ~red~", vec![sub(&def("Note"), 0)]),
        ("a pk of red", vec![sub(&marked_shelf("red", 1), 0)]),
        ("a version of red", vec![sub(&def("Note"), 0)]),
    ] {
        let folder = quick_folder();
        let mut town = Town::new(folder.path());
        let request = request(subs);
        let mut reply = town.engine.sync("red", &caller(), &request).unwrap();
        town.check("red", "", &request, &reply).unwrap();
        if !what.starts_with("green") {
            // Without the data, which contains the mark.
            reply.parts.iter_mut().flat_map(|part| &mut part.rows).for_each(|row| row.data = None);
        }
        match what {
            "a pk of red" => town.versions.clear(),
            "a version of red" => town.pks.clear(),
            _ => {}
        }
        let why = town.check("green", "", &request, &reply).unwrap_err();
        assert!(why.starts_with(what), "{why}");
    }
}
