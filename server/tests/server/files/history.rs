//! R25 and R26 on random histories: uploads, references, collections and sweeps that meet between any two steps, or end
//! there. Nothing referenced or promised is ever lost, and in the end nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use escale::codec::{FilesRequest, Op, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Pk, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{
    Audit, Engine, Filing, Object, Opening, Put, Side, first_site, sha_of, with_files,
};
use escale_server::files::Files;
use escale_server::mark::Mark;
use escale_server::provider::{MemoryDatabase, MemoryProvider, Place};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use escale_testkit::seeds;

use super::between::{Between, Moment};
use crate::support::base::Base;
use crate::support::chance::Chance;
#[cfg(feature = "postgres")]
use crate::support::postgres::server;
use crate::support::world::{DAY, NOON, caller};

const SCHEMA: &str = r#"{
    "Note": { "key": ["id"], "properties": { "files": "file[]" } },
    "Case": { "key": ["id"] },
    "Scan": { "in": "Case", "key": ["case", "n"], "properties": { "files": "file[]" } }
}"#;
const MIB: u64 = 1 << 20;

/// The objects of every history: four chunks and two lists, with the chunks of each and the size of its file.
struct Stock {
    objects: Vec<Object>,
    chunks: Vec<Vec<usize>>,
    sizes: Vec<u64>,
}

impl Stock {
    fn new() -> Self {
        let bytes = [vec![], b"a".to_vec(), b"b".repeat(1_000), vec![0; MIB as usize]];
        let mut stock = Stock { objects: vec![], chunks: vec![], sizes: vec![] };
        for bytes in bytes {
            stock.sizes.push(bytes.len() as u64);
            stock.chunks.push(vec![]);
            stock.objects.push(Object::new(&sha_of(&bytes), None, bytes, MIB).unwrap());
        }
        for chunks in [vec![3, 1], vec![3, 3, 2]] {
            let list: Vec<u8> = chunks.iter().flat_map(|at| digest(stock.objects[*at].sha())).collect();
            let size = chunks.iter().map(|at| stock.sizes[*at]).sum();
            stock.objects.push(Object::new(&sha_of(&list), Some(size), list, u64::MAX).unwrap());
            stock.chunks.push(chunks);
            stock.sizes.push(size);
        }
        stock
    }

    fn sha(&self, at: usize) -> &str {
        self.objects[at].sha()
    }
}

fn digest(sha: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(sha).unwrap()
}

#[derive(Clone, Debug)]
enum Action {
    Upload(usize),
    Have,
    /// A note, or a scan of a case, that references these objects. Its life may end after so many days.
    Write(Option<u64>, Vec<usize>, Option<u64>),
    Case(u64),
    DeleteNote(u64),
    DeleteCase(u64),
    /// One batch that puts a case and a scan of it with these objects, and deletes the case.
    Brief(u64, Vec<usize>),
    Purge,
    Wait(u64),
}

fn action(chance: &mut Chance) -> Action {
    let case = chance.is(40).then(|| chance.below(2));
    match chance.below(100) {
        0..30 => Action::Upload(chance.below(6) as usize),
        30..36 => Action::Have,
        36..58 => {
            let files = (0..chance.below(3)).map(|_| chance.below(6) as usize);
            let files = files.collect();
            Action::Write(case, files, chance.is(20).then(|| 1 + chance.below(40)))
        }
        58..62 => {
            let files = (0..chance.below(3)).map(|_| chance.below(6) as usize).collect();
            Action::Brief(chance.below(2), files)
        }
        62..66 => Action::Case(chance.below(2)),
        66..72 => Action::DeleteNote(chance.below(3)),
        72..75 => Action::DeleteCase(chance.below(2)),
        75..88 => Action::Purge,
        _ => Action::Wait([1, DAY / 2, DAY + 1, 7 * DAY + 1, 31 * DAY, 400 * DAY][chance.below(6) as usize]),
    }
}

/// Class, and key text; then the objects that the document references.
type Documents = BTreeMap<(&'static str, String), BTreeSet<usize>>;

struct World {
    engine: Engine,
    clock: Arc<ManualClock>,
    files: Between,
    stock: Arc<Stock>,
    state: Mutex<State>,
    /// The database, unless it is in memory.
    base: Option<Mutex<Base>>,
}

#[derive(Default)]
struct State {
    documents: Documents,
    cases: BTreeSet<u64>,
    /// When the life of each document ends.
    ends: BTreeMap<(&'static str, String), u64>,
    /// The time until which each object is kept, by the last answer about it.
    promised: BTreeMap<usize, u64>,
    ops: u64,
}

impl World {
    fn new(stock: &Arc<Stock>, base: Option<Base>) -> Arc<Self> {
        let clock = ManualClock::at(NOON);
        let schema = Schema::from_json(SCHEMA).unwrap();
        let opening =
            Opening { schema, settings: Settings::default(), seal: Seal::clear(), clock: clock.clone() };
        let files = Between::default();
        let engine = if let Some(base) = &base {
            base.open(opening).unwrap()
        } else {
            let provider = MemoryProvider::open(&MemoryDatabase::new(first_site(1).unwrap()));
            Engine::over(Box::new(provider), Mark::none(), opening, 7).unwrap()
        };
        let engine = with_files(engine, Box::new(files.clone())).unwrap();
        let world = Arc::new(World {
            engine,
            clock,
            files,
            stock: stock.clone(),
            state: Mutex::default(),
            base: base.map(Mutex::new),
        });
        let knows = world.clone();
        world.files.ask(Some(Box::new(move |org, name| {
            let snapshot = knows.engine.provider().read().unwrap();
            snapshot.files().purge(org, name).unwrap().is_some_and(|purge| !purge.is_claimed)
        })));
        world
    }

    /// Sends one operation. Returns the code of its end, and the missing objects.
    fn run(&self, name: &str, args: Value) -> (String, Vec<String>) {
        let seq = {
            let mut state = self.state.lock().unwrap();
            state.ops += 1;
            state.ops
        };
        let op = Op { id: format!("op-{seq}"), seq, name: name.into(), args, at: 0, after: None };
        let request = SyncRequest { ops: vec![op], ..SyncRequest::of("s") };
        let reply = self.engine.sync("o", &caller(), &request).unwrap();
        match &reply.results[0].fault {
            None => ("ok".into(), vec![]),
            Some(fault) => (fault.code.clone(), fault.files.clone()),
        }
    }

    fn is_there(&self, at: usize) -> bool {
        let snapshot = self.engine.provider().read().unwrap();
        snapshot.files().file("o", self.stock.sha(at)).unwrap().is_some()
    }

    fn play(&self, action: &Action) {
        match action {
            Action::Upload(at) => {
                let Ok(put) = Filing::of(&self.engine).put_object("o", &caller(), &self.stock.objects[*at])
                else {
                    return;
                };
                match put {
                    Put::Kept(until) => drop(self.state.lock().unwrap().promised.insert(*at, until)),
                    Put::Missing(missing) => {
                        assert!(!missing.is_empty());
                        let own = &self.stock.chunks[*at];
                        assert!(missing.iter().all(|sha| own.iter().any(|at| self.stock.sha(*at) == sha)));
                    }
                }
            }
            Action::Have => {
                let have = (0..6).map(|at| self.stock.sha(at).to_owned()).collect();
                let expected: Vec<usize> = (0..6).filter(|at| self.is_there(*at)).collect();
                let reply =
                    Filing::of(&self.engine).have("o", &caller(), &FilesRequest { p: 1, have }).unwrap();
                let shas: Vec<&str> = expected.iter().map(|at| self.stock.sha(*at)).collect();
                assert_eq!(reply.there, shas);
                let mut state = self.state.lock().unwrap();
                state.promised.extend(expected.into_iter().map(|at| (at, reply.until)));
            }
            Action::Write(case, files, days) => self.write(*case, files, *days),
            Action::Case(id) => {
                assert_eq!(self.run("doc.put", case_args(*id)).0, "ok");
                self.state.lock().unwrap().cases.insert(*id);
            }
            Action::DeleteNote(id) => {
                self.delete("Note", *id);
                self.state.lock().unwrap().documents.remove(&("Note", id.to_string()));
            }
            Action::DeleteCase(id) => {
                self.delete("Case", *id);
                self.forget_case(*id);
            }
            Action::Brief(id, files) => {
                let part =
                    |name: &str, args: Value| Value::from([("name", Value::from(name)), ("args", args)]);
                let parts = vec![
                    part("doc.put", case_args(*id)),
                    part("doc.put", self.write_args(Some(*id), files, None).1),
                    part("doc.delete", delete_args("Case", *id)),
                ];
                // The references are looked at once, at the end. By then they are gone.
                let (code, told) = self.run("batch", Value::from([("ops", Value::Array(parts))]));
                assert_eq!((code.as_str(), told.len()), ("ok", 0));
                self.forget_case(*id);
            }
            Action::Purge => drop(self.engine.purge()),
            Action::Wait(ms) => self.wait(*ms),
        }
    }

    fn forget_case(&self, id: u64) {
        let mut state = self.state.lock().unwrap();
        state.cases.remove(&id);
        state.documents.retain(|(class, key), _| *class != "Scan" || *key != format!("{id}/0"));
    }

    /// The place of the note, or of the scan of a case, and the arguments that write it.
    fn write_args(
        &self,
        case: Option<u64>,
        files: &[usize],
        end: Option<u64>,
    ) -> ((&'static str, String), Value) {
        let n = 0;
        let references = files.iter().map(|at| {
            let (sha, size) = (Value::from(self.stock.sha(*at)), Value::from(self.stock.sizes[*at] as i64));
            Value::from([("sha", sha), ("size", size)])
        });
        let files_value = ("files", Value::Array(references.collect()));
        let text = |n: u64| Value::from(n.to_string().as_str());
        let (class, key, data) = match case {
            None => ("Note", n.to_string(), Value::from([("id", text(n)), files_value])),
            Some(case) => (
                "Scan",
                format!("{case}/{n}"),
                Value::from([("case", text(case)), ("n", text(n)), files_value]),
            ),
        };
        let mut data = data;
        if let (Some(end), Some(map)) = (end, data.as_map_mut()) {
            map.insert("maxLife".into(), Value::from(end as i64));
        }
        ((class, key), Value::from([("class", Value::from(class)), ("data", data)]))
    }

    fn write(&self, case: Option<u64>, files: &[usize], days: Option<u64>) {
        let end = days.map(|days| (self.clock_ms() + days * DAY) / 60_000);
        let ((class, key), args) = self.write_args(case, files, end);
        let missing: BTreeSet<&str> =
            files.iter().filter(|at| !self.is_there(**at)).map(|at| self.stock.sha(*at)).collect();
        let (code, told) = self.run("doc.put", args);
        if case.is_some_and(|case| !self.state.lock().unwrap().cases.contains(&case)) {
            assert_eq!(code, "not_found", "a scan without a case");
            return;
        }
        assert_eq!(told, missing.iter().copied().collect::<Vec<_>>());
        assert_eq!(code, if missing.is_empty() { "ok" } else { "file_missing" });
        if missing.is_empty() {
            let files = files.iter().copied().collect();
            let mut state = self.state.lock().unwrap();
            state.ends.insert((class, key.clone()), end.map_or(u64::MAX, |end| end * 60_000));
            state.documents.insert((class, key), files);
        }
    }

    fn delete(&self, class: &str, id: u64) {
        let code = self.run("doc.delete", delete_args(class, id)).0;
        assert!(code == "ok" || code == "not_found", "{code}");
    }

    /// Everything that is referenced or promised is there, everything in the store is known, and no tombstone has a
    /// reference.
    fn check(&self) {
        let state = self.state.lock().unwrap();
        let now = self.clock_ms();
        let kept = state.promised.iter().filter(|(_, until)| now < **until).map(|(at, _)| *at);
        let living = state.documents.iter().filter(|(key, _)| now < state.ends[*key]);
        let referenced: BTreeSet<usize> = living.flat_map(|(_, files)| files).copied().collect();
        let snapshot = self.engine.provider().read().unwrap();
        let files = snapshot.files();
        for at in referenced.iter().copied().chain(kept) {
            for at in self.stock.chunks[at].iter().copied().chain([at]) {
                let sha = self.stock.sha(at);
                let file = files.file("o", sha).unwrap().unwrap_or_else(|| panic!("object {at} is gone"));
                assert!(self.files.inner.get("o", &file.name).unwrap().is_some(), "bytes of {at} are gone");
                assert!(file.until.is_none() || !referenced.contains(&at), "{at} has a deadline");
            }
        }
        for (class, key) in [("Note", vec!["0"]), ("Scan", vec!["0", "0"]), ("Scan", vec!["1", "0"])] {
            let pk = Pk::from_key(&key).unwrap();
            let at = Place { org: "o", class, pk: pk.as_str() };
            if snapshot.document(at).unwrap().is_some_and(|document| document.deleted) {
                assert_eq!(files.references(at).unwrap(), [""; 0], "a tombstone of {class} {key:?}");
            }
        }
        for (org, name) in self.files.inner.all() {
            let sha = name.split('.').next().unwrap();
            if self.files.left.lock().unwrap().contains(&name) {
                continue;
            }
            let is_own = files.file(&org, sha).unwrap().is_some_and(|file| file.name == name);
            assert!(is_own || files.purge(&org, &name).unwrap().is_some(), "nothing remembers {name}");
        }
    }

    fn wait(&self, ms: u64) {
        self.clock.advance(ms);
        if let Some(base) = &self.base {
            base.lock().unwrap().set_clock(self.clock_ms());
        }
    }

    fn clock_ms(&self) -> u64 {
        self.engine.clock_ms()
    }

    /// Ends everything. Nothing must be left, in the database and in the store. There is one exception: the bytes of an
    /// upload that took longer than a day and ended just before its last step. An audit finds them.
    fn end(&self) {
        self.files.set([]);
        self.files.ask(None);
        for id in 0..3 {
            self.play(&Action::DeleteNote(id));
            self.play(&Action::DeleteCase(id));
        }
        for _ in 0..5 {
            self.wait(400 * DAY);
            self.engine.purge().unwrap();
        }
        let snapshot = self.engine.provider().read().unwrap();
        assert_eq!(snapshot.files().files_after("o", "", 9).unwrap(), []);
        assert_eq!(snapshot.files().due_purges("o", u64::MAX >> 1, 9).unwrap(), [""; 0]);
        let rest: BTreeSet<String> = self.files.inner.all().into_iter().map(|(_, name)| name).collect();
        assert!(rest.is_subset(&self.files.left.lock().unwrap()), "{rest:?}");
        let mut told = BTreeSet::new();
        let mut tell = |side, org: &str, name: &str| {
            assert_eq!((side, org), (Side::Unknown, "o"));
            told.insert(name.to_owned());
            Ok(())
        };
        let audit = Filing::of(&self.engine).audit_files(true, &mut tell).unwrap();
        assert_eq!(audit, Audit { unknown: rest.len() as u64, ..Audit::default() });
        assert_eq!(told, rest);
        self.wait(8 * DAY);
        self.engine.purge().unwrap();
        assert_eq!(self.files.inner.all(), []);
    }
}

fn case_args(id: u64) -> Value {
    let data = Value::from([("id", Value::from(id.to_string().as_str()))]);
    Value::from([("class", Value::from("Case")), ("data", data)])
}

fn delete_args(class: &str, id: u64) -> Value {
    let key = Value::Array(vec![Value::from(id.to_string().as_str())]);
    Value::from([("class", Value::from(class)), ("key", key)])
}

fn history(seed: u64, stock: &Arc<Stock>, base: Option<Base>) {
    let mut chance = Chance::of(seed);
    let world = World::new(stock, base);
    for _ in 0..60 {
        // Other callers between the steps of this one, and the end of its process.
        let moments: Vec<Moment> = (0..chance.below(4))
            .map(|_| {
                let inner: Vec<Action> = (0..chance.below(3)).map(|_| action(&mut chance)).collect();
                let (world, ends) = (world.clone(), chance.is(15));
                let run = move || inner.iter().for_each(|action| world.play(action));
                (Box::new(run) as Box<dyn FnOnce() + Send>, ends)
            })
            .collect();
        world.files.set(moments);
        world.play(&action(&mut chance));
        world.files.set([]);
        world.check();
    }
    world.end();
}

/// The store does the call of an upload again after its answer, as a client of S3 may. Another upload of the object was
/// faster, so the bytes are of no use, and a purge came between.
#[test]
fn r26_bytes_of_no_use_that_come_twice_do_not_stay() {
    let world = World::new(&Arc::new(Stock::new()), None);
    let other = world.clone();
    world.files.set([(Box::new(move || other.play(&Action::Upload(1))) as Box<dyn FnOnce() + Send>, false)]);
    world.play(&Action::Upload(1));
    let names = world.files.inner.all();
    assert_eq!(names.len(), 2);
    world.play(&Action::Purge);
    for (org, name) in names {
        world.files.inner.put(&org, &name, b"a").unwrap();
    }
    world.check();
    world.end();
}

/// An item that ends in its own write leaves a tombstone, which holds no file.
fn brief_items_hold_no_files(base: Option<Base>) {
    let world = World::new(&Arc::new(Stock::new()), base);
    let until = || {
        let snapshot = world.engine.provider().read().unwrap();
        snapshot.files().file("o", world.stock.sha(1)).unwrap().map(|file| file.until)
    };
    world.play(&Action::Brief(0, vec![1]));
    assert_eq!(until(), None, "a batch may name a missing file and take the name away again");
    world.play(&Action::Upload(1));
    let uploaded = until();
    assert!(uploaded.is_some_and(|until| until.is_some()));
    world.play(&Action::Brief(0, vec![1]));
    world.check();
    assert_eq!(until(), uploaded, "nothing has referenced it");
    // An item from an earlier write.
    world.play(&Action::Case(1));
    world.play(&Action::Write(Some(1), vec![1], None));
    assert_eq!(until(), Some(None));
    world.play(&Action::Brief(1, vec![1, 1]));
    world.check();
    let ended = until().expect("the object").expect("a deadline");
    assert!(ended > world.clock_ms() + 29 * DAY, "its last reference has ended");
    world.wait(31 * DAY);
    world.engine.purge().unwrap();
    assert_eq!(until(), None, "long before the tombstones go");
    world.end();
}

#[test]
fn r25_an_item_that_ends_in_its_own_write_holds_no_file() {
    brief_items_hold_no_files(None);
    brief_items_hold_no_files(Some(Base::folder()));
}

#[cfg(feature = "postgres")]
#[test]
fn r25_an_item_that_ends_in_its_own_write_holds_no_file_on_postgres() {
    brief_items_hold_no_files(Some(Base::postgres(server(), Some(NOON))));
}

#[test]
fn r25_r26_nothing_referenced_is_lost_and_nothing_else_is_left() {
    play(seeds::each(400), || None);
}

#[test]
fn r25_r26_on_sqlite() {
    let first = seeds::start();
    play(first..first + 5, || Some(Base::folder()));
}

#[cfg(feature = "postgres")]
#[test]
fn r25_r26_on_postgres() {
    let first = seeds::start();
    play(first..first + 3, || Some(Base::postgres(server(), Some(NOON))));
}

fn play(seeds: std::ops::Range<u64>, base: impl Fn() -> Option<Base>) {
    let stock = Arc::new(Stock::new());
    for seed in seeds {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| history(seed, &stock, base())));
        if let Err(panic) = played {
            eprintln!("ESCALE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
