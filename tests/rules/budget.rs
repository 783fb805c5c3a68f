//! The costs of a session that do not depend on a machine's speed: batches, records and bytes on a device in
//! memory, for the cases of the benchmark (docs/performance.md, which has these figures). A figure may fall.
//! An increase is a decision.

use escale::codec::{Data, Part, Row, SyncReply};
use escale::crypto::StoreKeys;
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Name, Pk, Value};
use escale::store::{Batch, MemoryDevice, RecordKey, Table};
use escale::sync::{Clock, Effect, Event, Machine};
use escale_testkit::client::{Call, Client, Fate, Hooks, Opening};

const SCHEMA: &str = r#"{"Doc":{"key":["id"],"collections":{"section":{"key":["section"],"mutable":true}}}}"#;
const DOCUMENTS: u64 = 10_000;
pub(super) const NOW: u64 = 1_700_000_000_000;
const WORDS: [&str; 24] = [
    "harbour", "the", "river", "of", "engine", "and", "window", "to", "history", "in", "bridge", "language",
    "for", "winter", "with", "market", "that", "science", "on", "journey", "by", "station", "measure",
    "village",
];

/// The document with that number, about 1 KB of words; `edition` makes another version of it.
pub(super) fn document(number: u64, edition: u64) -> Data {
    let mut state = number * 7_919 + edition * 104_729 + 1;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut words = |count: usize| {
        let words: Vec<&str> = (0..count).map(|_| WORDS[next(24) as usize]).collect();
        Value::from(words.join(" ").as_str())
    };
    let map = [
        ("id", Value::from(id(number).as_str())),
        ("section", Value::from(format!("s{}", number % 100).as_str())),
        ("title", words(6)),
        ("body", words(150)),
    ];
    Data::from_map(&map.map(|(name, value)| (name.to_owned(), value)).into()).expect("small")
}

fn id(number: u64) -> String {
    format!("d{number:07}")
}

pub(super) fn row(number: u64, edition: u64, v: u64) -> Row {
    let pk = Pk::from_key(&[&id(number)]).expect("a pk");
    Row { pk, v, deleted: false, max_life: None, data: Some(document(number, edition)) }
}

pub(super) fn whole() -> Def {
    "Doc".parse().expect("a def")
}

fn section(number: u64) -> Def {
    let [class, name] = ["Doc", "section"].map(|text| Name::new(text).expect("a name"));
    Def::collection(&class, &name, &[&format!("s{number}")]).expect("a def")
}

/// The traffic to and from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    batches: usize,
    /// Records written and deleted.
    puts: usize,
    deletes: usize,
    /// Bytes written: of state records, of pages, and of all.
    state: usize,
    pages: usize,
    bytes: usize,
    /// Pages read, and their bytes.
    reads: usize,
    read_bytes: usize,
}

impl Cost {
    fn count(&mut self, batch: &Batch) {
        let of = |table: Table| {
            batch.puts.iter().filter(move |put| put.0 == table).map(|put| put.2.len()).sum::<usize>()
        };
        // A high-water mark written alone, a second later, goes to the backup database.
        self.batches += usize::from(!batch.is_empty());
        self.puts += batch.puts.len();
        self.deletes += batch.deletes.len();
        self.state += of(Table::State);
        self.pages += of(Table::Pages);
        self.bytes +=
            Table::ALL.into_iter().map(of).sum::<usize>() + batch.mark.as_ref().map_or(0, |mark| mark.len());
    }
}

/// Counts the calls to the device, which all succeed.
#[derive(Default)]
pub(super) struct Counting {
    cost: Cost,
    answered: usize,
    /// Every record written to the device, in order, even if it was deleted later.
    pub(super) written: Vec<(Table, RecordKey, Vec<u8>)>,
}

impl Hooks for Counting {
    fn call(&mut self, call: &Call) -> Fate {
        match call {
            Call::Commit(batch) => {
                self.cost.count(batch);
                let puts = batch.puts.iter();
                self.written.extend(puts.map(|(table, key, sealed)| (*table, *key, sealed.to_vec())));
            }
            Call::Pages { keys, .. } => self.cost.reads += keys.len(),
            _ => {}
        }
        Fate::Done
    }

    fn answer(&mut self, event: &Event) {
        if let Event::PagesRead { pages, .. } = event {
            self.cost.read_bytes += pages.iter().flatten().flatten().map(Vec::len).sum::<usize>();
        }
    }

    fn tell(&mut self, effect: Effect, _machine: &Machine) {
        if let Effect::Answer { rows, .. } = effect {
            self.answered += rows.expect("read").len();
        }
    }
}

pub(super) struct Session {
    pub(super) client: Client<Counting>,
    pub(super) keys: StoreKeys,
}

impl Session {
    fn open(device: &MemoryDevice) -> Self {
        Session::open_as(device, "o", "a", 1)
    }

    /// All random values, K among them, come from `seed`.
    pub(super) fn open_as(device: &MemoryDevice, org: &str, account: &str, seed: u64) -> Self {
        let schema = Schema::from_json(SCHEMA).expect("a schema");
        let opening = Opening { seed, session_seed: seed + 1, ..Opening::of(org, account, schema) };
        let opened = opening.open(device).expect("opened");
        assert!(!opened.damage.any());
        let keys = StoreKeys::derive(&opened.key, opened.header.store_id());
        let clock = Clock { wall_ms: NOW, mono_ms: 1_000 };
        let mut session = Session { client: Client::of(opened, clock, Counting::default()), keys };
        session.feed(Event::Started);
        session
    }

    pub(super) fn feed(&mut self, event: Event) {
        self.client.feed(event);
    }

    /// Answers the request in flight with that part, and marks the sections as loaded. If no request is in
    /// flight, five minutes pass, and everything is pulled.
    pub(super) fn reply(&mut self, part: Part) {
        if self.client.sent.is_none() {
            self.client.clock.mono_ms += 300_000;
            self.feed(Event::Woke);
        }
        let (number, request) = self.client.sent.take().expect("a request in flight");
        let mut parts = vec![part];
        for sub in request.subs.iter().filter(|sub| sub.def != whole()) {
            let number = if sub.def == section(3) { 3 } else { 7 };
            let rows = if sub.v > 0 { 0..0 } else { 0..100 };
            let rows = rows.map(|n| row(n * 100 + number, 0, NOW - 1_000_000 + (n * 100 + number) / 500));
            parts.push(self::part(sub.def.clone(), rows.collect()));
        }
        let epoch = Epoch::new(1, "e").expect("an epoch");
        let now = NOW + self.client.clock.mono_ms;
        let reply = SyncReply::of(epoch, now, 10, parts);
        self.feed(Event::Replied { number, reply: Ok(reply) });
    }

    fn taken(&mut self) -> Cost {
        std::mem::take(&mut self.client.hooks.cost)
    }
}

pub(super) fn part(def: Def, rows: Vec<Row>) -> Part {
    Part { rows, ..Part::empty(def) }
}

/// The upper bound of each line of the table in docs/performance.md: one percent above its figures.
const BUDGET: [(&str, Cost); 4] = [
    ("arrival", writing(20, 182, 210_000, 3_430_000, 3_640_000)),
    ("updates", writing(10, 30, 22_300, 346_200, 369_100)),
    ("first collection", reading(13, 165_500)),
    ("all documents", reading(180, 3_742_000)),
];

/// The state that an opening then reads.
const STATE_BYTES_MAX: usize = 232_600;

const fn writing(batches: usize, puts: usize, state: usize, pages: usize, bytes: usize) -> Cost {
    Cost { batches, puts, deletes: 0, state, pages, bytes, reads: 0, read_bytes: 0 }
}

const fn reading(reads: usize, read_bytes: usize) -> Cost {
    Cost { reads, read_bytes, ..writing(0, 0, 0, 0, 0) }
}

impl Cost {
    fn figures(&self) -> [usize; 8] {
        let Cost { batches, puts, deletes, state, pages, bytes, reads, read_bytes } = *self;
        [batches, puts, deletes, state, pages, bytes, reads, read_bytes]
    }
}

#[test]
fn what_a_session_asks_of_its_device_stays_within_its_budget() {
    let device = MemoryDevice::new();
    let mut session = Session::open(&device);
    for def in [whole(), section(3), section(7)] {
        session.feed(Event::Subscribe(def));
    }
    session.taken();
    for page in 0..DOCUMENTS / 500 {
        let rows: Vec<Row> =
            (page * 500..(page + 1) * 500).map(|n| row(n, 0, NOW - 1_000_000 + page)).collect();
        let is_last = (page + 1) * 500 == DOCUMENTS;
        let next = (!is_last).then(|| page.to_string());
        session.reply(Part { next, ..part(whole(), rows) });
    }
    let arrival = session.taken();
    for batch in 0..10 {
        // Spread over all documents, none of them twice.
        let rows: Vec<Row> =
            (0..100).map(|n| row((batch * 100 + n) * 7_919 % DOCUMENTS, 1, NOW + batch)).collect();
        session.reply(part(whole(), rows));
    }
    let updates = session.taken();
    drop(session);

    let state: usize = {
        let mut bytes = 0;
        let name = escale::crypto::store_name("o", "a");
        device.tamper(&name, |records| {
            let of_state = records.iter().filter(|((table, _), _)| *table == Table::State);
            bytes = of_state.map(|(_, record)| record.len()).sum();
        });
        bytes
    };
    let mut session = Session::open(&device);
    session.taken();
    let (ids, ..) = session.client.machine.list(&section(7)).expect("subscribed");
    assert_eq!(ids.len(), 100);
    session.feed(Event::Read { ticket: 2, ids });
    let first = session.taken();
    let (ids, ..) = session.client.machine.list(&whole()).expect("subscribed");
    for ids in ids.chunks(1_000) {
        session.feed(Event::Read { ticket: 4, ids: ids.to_vec() });
    }
    let all = session.taken();
    assert_eq!(session.client.hooks.answered, 100 + DOCUMENTS as usize);

    for ((name, most), cost) in BUDGET.into_iter().zip([arrival, updates, first, all]) {
        let figures = cost.figures();
        eprintln!("| {name} | {} |", figures.map(|figure| figure.to_string()).join(" | "));
        let is_within = figures.iter().zip(most.figures()).all(|(figure, most)| *figure <= most);
        assert!(is_within, "{name}: {cost:?}, {most:?} at most");
    }
    eprintln!("{state} bytes of state");
    assert!(state <= STATE_BYTES_MAX, "{state} bytes of state, {STATE_BYTES_MAX} at most");
}
