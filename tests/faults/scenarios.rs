//! The actions of sessions: a table of beginnings and one of continuations. Each pair is a scenario.

use escale::model::{Def, Value};
use escale::storage::Limits;
use escale::store::Table;
use escale::sync::Event;

use crate::client::{Client, NOW};
use crate::device::{FaultyDevice, Plan};
use escale_testkit::backend::Backend;
use escale_testkit::schema::{by_key, data, def, key, name};
use escale_testkit::server::{Habits, ModelServer, Write as ServerWrite};

/// One step of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Open,
    Close,
    Die,
    /// Subscribes to the def with that number in the universe; 0 is every `Doc`.
    Subscribe(usize),
    Unsubscribe(usize),
    /// Continues until nothing is left to do.
    Settle,
    Offline(bool),
    /// Another client's write, with that edition.
    ServerPut(usize, u64),
    ServerDelete(usize),
    /// An operation with an optimistic part.
    Add(usize),
    Patch(usize),
    Put(usize, u64),
    Delete(usize),
    /// An operation that expects a wrong version: it is refused.
    Conflict(usize),
    /// The refused operations are issued again, or discarded.
    Amend,
    Discard,
    Read(usize),
    Query,
    Sweep,
    History(usize),
    ChangeSecret,
    NewEpoch,
    /// A page, or a state record, is altered on the device.
    DamagePage,
    DamageState,
}

use Step::*;

/// How sessions begin.
const BEGINNINGS: [(&str, bool, &[Step]); 5] = [
    ("new", false, &[Open]),
    ("loaded", false, &[Open, Subscribe(0), Settle]),
    ("reopened", false, &[Open, Subscribe(0), Subscribe(1), Settle, Close, Open, Settle]),
    ("waiting", false, &[Open, Subscribe(0), Settle, Offline(true), Add(1), Patch(2), Settle, Die, Open]),
    ("busy", true, &[Open, Subscribe(0), Settle, Add(0), Add(1), ServerPut(2, 50), Settle]),
];

/// How sessions continue.
const DEEDS: [(&str, &[Step]); 16] = [
    ("idle", &[Settle]),
    ("subscribe", &[Subscribe(2), Settle, Read(2)]),
    ("unsubscribe", &[Subscribe(3), Settle, Unsubscribe(3), Settle]),
    ("update", &[ServerPut(1, 9), ServerPut(5, 3), ServerDelete(3), Subscribe(0), Settle, Read(0)]),
    ("write", &[Subscribe(0), Add(1), Settle, Patch(1), Settle]),
    ("offline", &[Subscribe(0), Settle, Offline(true), Add(1), Patch(4), Put(2, 77), Delete(5), Settle]),
    ("refuse", &[Subscribe(0), Settle, Conflict(1), Add(1), Add(2), Settle]),
    ("amend", &[Subscribe(0), Settle, Conflict(1), Patch(1), Settle, Amend, Settle]),
    ("discard", &[Subscribe(0), Settle, Conflict(2), Add(2), Settle, Discard, Settle]),
    (
        "sweep",
        &[Subscribe(0), Settle, Add(1), Settle, Add(1), Settle, Add(1), Settle, Sweep, History(1), Settle],
    ),
    ("secret", &[Settle, ChangeSecret, Settle, Close, Open, Settle]),
    ("epoch", &[Subscribe(0), Settle, Add(1), Settle, NewEpoch, ServerPut(1, 33), Settle, Read(0)]),
    ("page", &[Subscribe(0), Settle, DamagePage, Read(0), Settle, Read(0)]),
    ("state", &[Subscribe(0), Settle, Close, DamageState, Open, Settle, Read(0)]),
    ("reads", &[Subscribe(0), Settle, Read(0), Query, Read(0), Add(1), Settle]),
    ("dies", &[Subscribe(0), Settle, Add(1), Add(2), Die, Open, Settle, Add(1), Settle]),
];

/// A beginning and a continuation.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub beginning: usize,
    pub deed: usize,
}

pub fn all() -> Vec<Scenario> {
    let deeds = |beginning| (0..DEEDS.len()).map(move |deed| Scenario { beginning, deed });
    (0..BEGINNINGS.len()).flat_map(deeds).collect()
}

impl Scenario {
    pub fn name(&self) -> String {
        format!("{} {}", BEGINNINGS[self.beginning].0, DEEDS[self.deed].0)
    }

    pub fn steps(&self) -> Vec<Step> {
        [BEGINNINGS[self.beginning].2, DEEDS[self.deed].1].concat()
    }

    /// Whether its steps damage the device on purpose.
    pub fn damages(&self) -> bool {
        self.steps().iter().any(|step| matches!(step, DamagePage | DamageState))
    }

    /// A client before the first step.
    pub fn client(&self, plan: Plan) -> Client {
        let mut server = ModelServer::new(Habits::of(2 * 16), 1, NOW);
        for number in 0..6 {
            let v = server.db.highest.max(NOW) + 1;
            server.db.write(v, &[put(number, number as u64)]);
        }
        // With these limits, even short runs reach checkpoints and rewritten pages.
        let limits = if BEGINNINGS[self.beginning].1 {
            Limits { log_bytes_min: 300, changes_min: 2, sparse_pages: 2 }
        } else {
            Limits::default()
        };
        Client::new(FaultyDevice::new(plan), server, limits)
    }
}

fn put(number: usize, edition: u64) -> ServerWrite {
    ServerWrite::Put { key: key(number), data: data(number, Some(number), 3, edition), max_life: None }
}

fn doc(number: usize) -> Value {
    Value::Array(vec![Value::String(format!("id{number}"))])
}

impl Client {
    pub fn take(&mut self, step: Step) {
        match step {
            Open => self.open(),
            Close => self.close(),
            Die => self.die(),
            Subscribe(number) => {
                self.open();
                self.feed(Event::Subscribe(def(number)));
            }
            Unsubscribe(number) => {
                self.open();
                self.feed(Event::Unsubscribe(def(number)));
            }
            Settle => self.settle(),
            Offline(is_offline) => self.is_offline = is_offline,
            ServerPut(number, edition) => self.server_writes(put(number, edition)),
            ServerDelete(number) => self.server_writes(ServerWrite::Delete(key(number))),
            Add(number) => {
                let args = [
                    ("class", "Doc".into()),
                    ("key", doc(number)),
                    ("property", "n".into()),
                    ("by", Value::from(1)),
                ];
                self.write("add", Value::from(args));
            }
            Patch(number) => {
                let set = Value::from([("size", Value::from(self.now as i64 % 1_000))]);
                let args = [("class", "Doc".into()), ("key", doc(number)), ("set", set)];
                self.write("doc.patch", Value::from(args));
            }
            Put(number, edition) => {
                let map = data(number, Some(number), 1, edition);
                self.write("doc.put", Value::from([("class", "Doc".into()), ("data", Value::Map(map))]));
            }
            Delete(number) => {
                self.write("doc.delete", Value::from([("class", "Doc".into()), ("key", doc(number))]));
            }
            Conflict(number) => {
                let set = Value::from([("size", Value::from(1))]);
                let args = [
                    ("class", "Doc".into()),
                    ("key", doc(number)),
                    ("set", set),
                    ("ifVersion", Value::from(5)),
                ];
                self.write("doc.patch", Value::from(args));
            }
            Amend => {
                for id in self.parked() {
                    let new =
                        escale::journal::make_id(self.now, &mut escale::crypto::SeededRandom::new(self.now))
                            .expect("an id");
                    let set = Value::from([("size", Value::from(3))]);
                    let args = Value::from([("class", "Doc".into()), ("key", doc(1)), ("set", set)]);
                    self.issued.insert(new.clone(), false);
                    self.left.push(id.clone());
                    self.feed(Event::Amend { id, new, args: Some(args) });
                }
            }
            Discard => {
                for id in self.parked() {
                    self.left.push(id.clone());
                    self.feed(Event::Discard(id));
                }
            }
            Read(number) => self.read(&def(number)),
            Query => {
                self.open();
                let class = name("Doc");
                self.feed(Event::Query { ticket: 8, class, query: by_key() });
            }
            Sweep => self.sweep(),
            History(number) => self.history(number),
            ChangeSecret => self.change_secret(),
            NewEpoch => self.server.renew(self.now),
            DamagePage => self.damage(Table::Pages),
            DamageState => self.damage(Table::State),
        }
    }

    fn server_writes(&mut self, write: ServerWrite) {
        let v = self.server.db.highest.max(self.now) + 1;
        self.server.db.write(v, &[write]);
        // The next pull of everything brings it.
        self.now += 300_000;
        if self.is_open() {
            self.feed(Event::Woke);
        }
    }

    /// The operations that wait for the application's decision.
    pub fn parked(&mut self) -> Vec<String> {
        self.open();
        let operations = self.machine().operations();
        let parked = operations.into_iter().filter(|(op, _)| op.state.refused.is_some());
        parked.map(|(op, _)| op.state.issued.id.clone()).collect()
    }

    fn damage(&mut self, table: Table) {
        self.device.inner.tamper(&Client::store_name(), |records| {
            if let Some((_, bytes)) = records.iter_mut().find(|((of, _), _)| *of == table) {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
        });
    }
}

pub fn whole() -> Def {
    def(0)
}
