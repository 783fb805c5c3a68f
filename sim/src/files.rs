//! The files of the real server: uploads and collections in its own steps, and the check that nothing is lost or left
//! (R25, R26).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use escale::codec::{FilesReply, FilesRequest};
use escale::{Code, Error, Result};
use escale_server::engine::{Audit, Engine, Filing, Object, Put, Side};
use escale_server::provider::FileReads;
use escale_server::settings::Settings;
use escale_testkit::backend::{Tenant, Write};
use escale_testkit::files::{FILES, FilesAnswer, FilesCall, FilesStep, FilesWork, stock};
use escale_testkit::schema::{PHOTO, PHOTOS, key};
use escale_testkit::world::client::org_name;

use crate::fiber::{Fiber, Progress};
use crate::instance::{caller, write};
use crate::record::Life;
use crate::store::{Named, SlowFiles};

const DAY_MS: u64 = 86_400_000;

/// The most by which a server's time and the world's differ.
const CLOCKS_MS_MAX: u64 = 600_000;

/// The outcome of work.
enum Done {
    Have(FilesReply),
    Put(Put),
    Collected,
}

/// The org of a call, and the object if it is an upload.
type About = (usize, Option<usize>);

/// A copy of the store, and its time.
type Copied = (u64, Vec<(Named, Vec<u8>)>);

enum Work {
    Slow(Fiber<Result<Done>>),
    Done(Result<Done>),
}

/// The promise of a server to keep an object.
type Promises = BTreeMap<(usize, String), u64>;

/// The store, the work under way, and all that the check has to know.
#[derive(Default)]
pub struct Filings {
    pub store: SlowFiles,
    /// Work under way, and its instance.
    work: BTreeMap<u64, (usize, Option<About>, Work)>,
    last: u64,
    /// Until then an object is kept, by the last answer about it.
    promised: Promises,
    /// Objects whose bytes an old copy of the database does not find any more.
    lost: BTreeSet<Named>,
    /// Objects that nothing remembers, as their bytes came a day late, or before the database was restored.
    left: BTreeSet<Named>,
    restored_at: u64,
    copy: Option<Copied>,
    /// Sessions have asked for files.
    is_used: bool,
    /// The database is being replaced: nothing can be checked.
    pub is_replaced: bool,
}

fn objects() -> &'static [Object; FILES] {
    static OBJECTS: OnceLock<[Object; FILES]> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        std::array::from_fn(|number| {
            let of = &stock()[number];
            let list = (!of.chunks.is_empty()).then_some(of.size);
            Object::new(&of.sha, list, of.bytes.clone(), u64::MAX).expect("an object of the stock")
        })
    })
}

fn run(engine: &Engine, work: &FilesWork) -> Result<Done> {
    match work {
        FilesWork::Collect => engine.purge().map(|_| Done::Collected),
        FilesWork::Call(by, call) => {
            let (filing, org, caller) = (Filing::of(engine), org_name(by.org), caller(*by));
            match call {
                FilesCall::Have(have) => {
                    filing.have(&org, &caller, &FilesRequest { p: 1, have: have.clone() }).map(Done::Have)
                }
                FilesCall::Put(number) => {
                    filing.put_object(&org, &caller, &objects()[*number]).map(Done::Put)
                }
            }
        }
    }
}

impl Filings {
    /// Begins work. If it is slow, it stops before and after each of its steps.
    pub fn begin(&mut self, engine: Arc<Engine>, instance: usize, work: FilesWork, is_slow: bool) -> u64 {
        self.is_used = true;
        self.last += 1;
        let about = match &work {
            FilesWork::Call(Tenant { org, .. }, FilesCall::Put(number)) => Some((*org, Some(*number))),
            FilesWork::Call(Tenant { org, .. }, FilesCall::Have(_)) => Some((*org, None)),
            FilesWork::Collect => None,
        };
        let store = self.store.clone();
        let work = if is_slow {
            let (fiber, progress) = Fiber::start(move || {
                store.begin();
                run(&engine, &work)
            });
            match progress {
                Progress::Paused => Work::Slow(fiber),
                Progress::Done(done) => Work::Done(done),
            }
        } else {
            store.begin();
            Work::Done(run(&engine, &work))
        };
        self.work.insert(self.last, (instance, about, work));
        self.last
    }

    /// Goes on with work. Returns none if it has not ended yet.
    pub fn go_on(&mut self, number: u64) -> Option<FilesStep> {
        let Some((instance, about, mut work)) = self.work.remove(&number) else {
            return Some(FilesStep::Never);
        };
        if let Work::Slow(fiber) = &mut work {
            match fiber.go_on() {
                Progress::Paused => {
                    self.work.insert(number, (instance, about, work));
                    return None;
                }
                Progress::Done(done) => work = Work::Done(done),
            }
        }
        let Work::Done(done) = work else { return None };
        Some(FilesStep::Done(self.answer(about, done)))
    }

    fn answer(&mut self, about: Option<About>, done: Result<Done>) -> FilesAnswer {
        let org = about.map_or(0, |(org, _)| org);
        match done {
            Ok(Done::Have(FilesReply { epoch, there, until })) => {
                self.promised.extend(there.iter().map(|sha| ((org, sha.clone()), until)));
                FilesAnswer::There(epoch, there)
            }
            Ok(Done::Put(Put::Kept(until))) => {
                let number = about.and_then(|(_, number)| number).expect("an upload");
                self.promised.insert((org, stock()[number].sha.clone()), until);
                FilesAnswer::Kept
            }
            Ok(Done::Put(Put::Missing(shas))) => FilesAnswer::Missing(shas),
            Ok(Done::Collected) => FilesAnswer::Kept,
            Err(error) => FilesAnswer::Refused(code_of(&error)),
        }
    }

    /// Work of an instance ends with its process.
    pub fn end_work(&mut self, instance: usize) {
        self.work.retain(|_, (of, ..)| *of != instance);
    }

    /// All work ends with its processes.
    pub fn end_all_work(&mut self) {
        self.work.clear();
    }

    /// Finishes slow work; its answers are then on their way.
    pub fn finish(&mut self) {
        for (_, _, work) in self.work.values_mut() {
            while let Work::Slow(fiber) = work {
                if let Progress::Done(done) = fiber.go_on() {
                    *work = Work::Done(done);
                }
            }
        }
    }

    pub fn back_up(&mut self, now: u64) {
        self.copy = Some((now, self.store.copy()));
    }

    /// The database was put back to the last copy, and the store if it is `whole`. As its operator has to, compares both
    /// if the copy is too old.
    pub fn restored(&mut self, engine: &Engine, settings: &Settings, now: u64, whole: bool) {
        (self.is_replaced, self.restored_at) = (false, now);
        let Some((copied_at, copy)) = &self.copy else { return };
        if whole {
            self.store.put_back(copy);
        } else {
            self.store.finish_deletes();
        }
        self.promised.clear();
        self.left.extend(self.store.all());
        let is_old = now.saturating_sub(*copied_at) + CLOCKS_MS_MAX >= settings.purge_ms();
        if !self.is_used || whole || !is_old {
            return;
        }
        self.store.heal();
        let mut lost = BTreeSet::new();
        let snapshot = engine.provider().read().expect("a database that can be read");
        let mut tell = |side, org: &str, name: &str| {
            if matches!(side, Side::Lost { is_referenced: true }) {
                let file = snapshot.files().file(org, name)?.expect("an object");
                lost.insert((org.to_owned(), file.name));
            }
            Ok(())
        };
        Filing::of(engine).audit_files(true, &mut tell).expect("an audit");
        self.lost.extend(lost);
    }

    /// Every file that a living document references has its row and its bytes; so has every object that a server promised
    /// to keep. Every object in the store is known to the database.
    pub fn check(&mut self, engine: &Engine, life: &Life, now: u64, has_written: bool) {
        let (is_changed, came) = self.store.look();
        if !self.is_used || self.is_replaced || !(is_changed || has_written) {
            return;
        }
        let snapshot = engine.provider().read().expect("a database that can be read");
        let (files, stored) = (snapshot.files(), self.store.all());
        let referenced: BTreeSet<(usize, &str)> = life.references().into_iter().collect();
        for (org, sha) in &referenced {
            self.check_object(files, &stored, (*org, sha), None);
        }
        for ((org, sha), until) in &self.promised {
            if now + CLOCKS_MS_MAX < *until {
                self.check_object(files, &stored, (*org, sha), Some(*until));
            }
        }
        self.forget_late(came, now);
        for named in &stored {
            let (org, name) = named;
            let sha = name.split('.').next().unwrap_or_default();
            let is_used = files.file(org, sha).expect("a read").is_some_and(|file| file.name == *name);
            let line = files.purge(org, name).expect("a read");
            if is_used || line.as_ref().is_some_and(|line| !line.is_claimed) {
                self.left.remove(named);
            }
            // A line that is claimed goes without a further look at the store.
            assert!(is_used || line.is_some() || self.left.contains(named), "R26: nothing remembers {name}");
        }
    }

    /// Nothing remembers objects whose bytes came a day late, or of a call from before the database was restored.
    fn forget_late(&mut self, came: Vec<(Named, u64)>, now: u64) {
        let is_late = |began: u64| now.saturating_sub(began) + CLOCKS_MS_MAX >= DAY_MS;
        let restored_at = self.restored_at;
        let late = came.into_iter().filter(|(_, began)| is_late(*began) || *began <= restored_at);
        self.left.extend(late.map(|(named, _)| named));
    }

    fn check_object(
        &self,
        files: &dyn FileReads,
        stored: &BTreeSet<Named>,
        of: (usize, &str),
        promised: Option<u64>,
    ) {
        let (number, sha) = of;
        let org = org_name(number);
        let chunks = files.chunks(&org, sha).expect("a read");
        for object in chunks.iter().map(String::as_str).chain([sha]) {
            let file = files.file(&org, object).expect("a read");
            let file = file.unwrap_or_else(|| panic!("R25: {object} of {sha} is gone from {org}"));
            let named = (org.clone(), file.name.clone());
            let has_bytes = stored.contains(&named) || self.lost.contains(&named);
            assert!(has_bytes, "R25: the bytes of {object} of {sha} are gone from {org}");
            let is_kept = file.until.is_none_or(|until| promised.is_some_and(|promised| promised <= until));
            assert!(is_kept, "R25: {object} of {sha} has to stay, for ever or until {promised:?}: {file:?}");
        }
    }

    /// Once no document references a file and all deadlines have passed, nothing is left but the objects that nothing
    /// remembers. An audit finds those.
    pub fn end(&mut self, engine: &Engine, orgs: usize, now: u64, mut pass: impl FnMut(&mut Self)) {
        if !self.is_used {
            return;
        }
        self.store.heal();
        self.store.finish();
        self.forget_late(self.store.look().1, now);
        for org in (0..orgs).map(org_name) {
            let deletes: Vec<Write> =
                (PHOTO..PHOTO + PHOTOS).map(|number| Write::Delete(key(number))).collect();
            write(engine, &org, &deletes).expect("a write that nobody disturbs");
        }
        for _ in 0..4 {
            pass(self);
            engine.purge().expect("a purge that nobody disturbs");
        }
        let rest = self.store.all();
        assert!(rest.is_subset(&self.left), "R26: objects are left: {rest:?}, but {:?}", self.left);
        Self::check_empty(engine, orgs);
        // A database from before an org was created does not know it. The audit names such an org, and leaves its objects.
        let heads = engine.provider().read().expect("a database that can be read").heads("", orgs);
        let known: BTreeSet<String> = heads.expect("a read").into_iter().map(|(org, _)| org).collect();
        let (unknown, stray): (BTreeSet<Named>, BTreeSet<Named>) =
            rest.into_iter().partition(|(org, _)| known.contains(org));
        let unknown_orgs = stray.iter().map(|(org, _)| org).collect::<BTreeSet<_>>().len() as u64;
        let audit = Filing::of(engine).audit_files(true, &mut |_, _, _| Ok(())).expect("an audit");
        let expected = Audit { unknown: unknown.len() as u64, unknown_orgs, ..Audit::default() };
        assert_eq!(audit, expected, "R26");
        pass(self);
        engine.purge().expect("a purge that nobody disturbs");
        assert_eq!(self.store.all(), stray, "R26: the audit found these");
        Self::check_empty(engine, orgs);
    }

    fn check_empty(engine: &Engine, orgs: usize) {
        let snapshot = engine.provider().read().expect("a database that can be read");
        for org in (0..orgs).map(org_name) {
            let files = snapshot.files().files_after(&org, "", 9).expect("a read");
            let purges = snapshot.files().due_purges(&org, u64::MAX >> 1, 9).expect("a read");
            assert!(files.is_empty() && purges.is_empty(), "R26: left in {org}: {files:?}, {purges:?}");
        }
    }
}

/// The code of an answer.
fn code_of(error: &Error) -> Code {
    match error.code() {
        Code::Malformed | Code::WrongProtocol | Code::FileDamaged | Code::NotFound => {
            panic!("a call that the server does not understand: {error}")
        }
        code => code,
    }
}
