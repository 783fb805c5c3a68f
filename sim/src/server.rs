//! The real server: several instances of the engine over one database, whose calls may be slow.

mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use escale::Result;
use escale::codec::{OpResult, ServerParts, SyncReply};
use escale::crypto::SeededRandom;
use escale::model::{Def, Epoch, Pk};
use escale_server::engine::{Engine, head};
use escale_server::provider::Site;
use escale_server::settings::Settings;

use crate::clock::SimClock;
use crate::database::{Backup, Database};
use crate::fiber::{Fiber, Progress};
use crate::files::Filings;
use crate::instance::{caller, engine, refusal, write};
use crate::record::Record;
use crate::tap::Wire;
use escale_testkit::backend::{Answer, Asked, Backend, Committed, Entry, Tenant, Write};
use escale_testkit::files::{FilesFault, FilesStep, FilesWork};
use escale_testkit::plan::Plan;
use escale_testkit::schema::Map;
use escale_testkit::world::client::org_name;

/// The most that the instances' clocks may disagree.
const SKEW_MS: u64 = 800;

const DAY_MS: u64 = 86_400_000;

struct Instance {
    engine: Arc<Engine>,
    clock: Arc<SimClock>,
    /// How far its clock is ahead, in 255ths of the skew.
    ahead: u8,
}

/// A request under way.
enum Call {
    Done(Box<Result<SyncReply>>),
    Slow(Fiber<Result<SyncReply>>),
}

/// The engine's instances, and the record of their commits.
pub struct RealServer {
    wire: Arc<Wire>,
    database: Database,
    instances: Vec<Instance>,
    settings: Settings,
    set_back_ms: u64,
    record: Record,
    last_epoch_ms: u64,
    calls: BTreeMap<u64, (usize, Call)>,
    writes: BTreeMap<u64, Fiber<Result<()>>>,
    last: u64,
    committed: Vec<Committed>,
    backup: Option<Backup>,
    files: Filings,
    random: SeededRandom,
    now: u64,
}

impl RealServer {
    /// Finishes slow work; its replies are then on their way.
    fn finish(&mut self) {
        self.wire.heal();
        self.files.finish();
        for (_, mut fiber) in std::mem::take(&mut self.writes) {
            while matches!(fiber.go_on(), Progress::Paused) {}
        }
        for (_, call) in self.calls.values_mut() {
            while let Call::Slow(fiber) = call {
                if let Progress::Done(result) = fiber.go_on() {
                    *call = Call::Done(Box::new(result));
                }
            }
        }
        self.collect();
    }

    /// Restarts every instance.
    fn start(&mut self) {
        for number in 0..self.instances.len() {
            self.start_again(number);
        }
    }

    /// The process of an instance ends, with all its work, and another one replaces it.
    fn start_again(&mut self, number: usize) {
        self.calls.retain(|_, (of, _)| *of != number);
        self.files.end_work(number);
        // Another instance may be writing: the new one waits until that write has ended.
        self.finish();
        let clock = self.instances[number].clock.clone();
        let name = self.random.next_u64();
        let store = &self.files.store;
        self.instances[number].engine =
            engine(&self.database, &self.wire, &self.settings, clock, name, store);
    }

    /// Sets the world's time.
    fn show(&mut self, now: u64) {
        self.now = now;
        self.files.store.show(now);
        for instance in &self.instances {
            let ahead = u64::from(instance.ahead) * SKEW_MS / 255;
            instance.clock.show(now);
            instance.clock.set_ahead(ahead as i64 - self.set_back_ms as i64);
        }
    }

    /// Records the new commits.
    fn collect(&mut self) {
        let written = self.wire.take();
        let has_written = !written.is_empty();
        for written in written {
            let committed = self.record.note(written);
            self.committed.extend(committed);
        }
        if let Some(instance) = self.instances.first() {
            self.files.check(&instance.engine, &self.record.life, self.now, has_written);
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// A time that makes a new epoch later than all earlier ones, as with correct clocks.
    fn epoch_time(&mut self, now: u64) -> u64 {
        self.last_epoch_ms = now.max(self.last_epoch_ms + 1);
        self.last_epoch_ms
    }

    /// The epoch of each org in the database.
    fn epochs_there(&self) -> Vec<Epoch> {
        let provider = self.database.provider(&self.wire);
        let snapshot = provider.read().expect("a database that can be read");
        let of_site = snapshot.site().expect("a site").epoch;
        let head = |org| snapshot.head(&org_name(org)).expect("a head, or none");
        let epoch = |org| head(org).map_or_else(|| of_site.clone(), |head| head.epoch);
        (0..self.record.epochs.len()).map(epoch).collect()
    }
}

impl Backend for RealServer {
    fn open(plan: &Plan, random: u64, now: u64) -> Self {
        let mut random = SeededRandom::new(random);
        let wire = Arc::new(Wire::default());
        let page_bytes = [1, 400, 1_500, 6_000, 1 << 20][(random.next_u64() % 5) as usize];
        let settings = Settings {
            delta_ms: 1_001 + SKEW_MS,
            skew_ms: SKEW_MS,
            retention_days: 1,
            results_days: 1,
            upload_days: 1,
            file_days: 2,
            purge_days: 1,
            page_bytes,
            tell_wait: Duration::ZERO,
            write_wait: Duration::ZERO,
            ..Settings::default()
        };
        let database = Database::new(now, &mut random);
        let files = Filings::default();
        let instances = (0..plan.instances).map(|_| {
            let clock = Arc::new(SimClock::default());
            clock.show(now);
            let name = random.next_u64();
            let engine = engine(&database, &wire, &settings, clock.clone(), name, &files.store);
            Instance { engine, clock, ahead: 0 }
        });
        let instances = instances.collect();
        let orgs = plan.tenants.iter().map(|(org, _)| org + 1).max().unwrap_or(1);
        let mut server = RealServer {
            wire,
            database,
            instances,
            settings,
            set_back_ms: 0,
            record: Record::new(&Epoch::new(now, "first").expect("an epoch"), orgs),
            last_epoch_ms: now,
            calls: BTreeMap::new(),
            writes: BTreeMap::new(),
            last: 0,
            committed: Vec::new(),
            backup: None,
            files,
            random,
            now,
        };
        server.collect();
        server
    }

    fn describe(&self) -> String {
        format!("{:?}, {:?}", self.settings, self.database)
    }

    fn begin_with(&mut self, writes: &[Write]) {
        write(&self.instances[0].engine, &org_name(0), writes).expect("the first write");
        self.collect();
        self.committed.clear();
    }

    fn receive(&mut self, asked: Asked, is_contended: &mut dyn FnMut() -> bool) -> (u64, String) {
        let Asked { by, request, instance, now } = asked;
        self.show(now);
        let number = instance % self.instances.len();
        let engine = self.instances[number].engine.clone();
        self.wire.refuse_next(is_contended());
        let (org, caller) = (org_name(by.org), caller(by));
        let is_slow = self.below(8) == 0;
        let note = if request.ops.is_empty() { String::new() } else { format!("instance {number}") };
        let call = if is_slow {
            let (fiber, progress) = Fiber::start(move || engine.sync(&org, &caller, &request));
            match progress {
                Progress::Paused => Call::Slow(fiber),
                Progress::Done(result) => Call::Done(Box::new(result)),
            }
        } else {
            Call::Done(Box::new(engine.sync(&org, &caller, &request)))
        };
        self.wire.refuse_next(false);
        self.collect();
        self.last += 1;
        self.calls.insert(self.last, (number, call));
        (self.last, note)
    }

    fn answer(&mut self, call: u64, now: u64) -> Answer {
        self.show(now);
        let Some((number, mut state)) = self.calls.remove(&call) else { return Answer::Never };
        if let Call::Slow(fiber) = &mut state {
            match fiber.go_on() {
                Progress::Paused => {
                    self.collect();
                    self.calls.insert(call, (number, state));
                    let ms = if self.below(6) == 0 { self.below(2_000) } else { self.below(200) };
                    return Answer::Later(ms + 1);
                }
                Progress::Done(result) => state = Call::Done(Box::new(result)),
            }
        }
        self.collect();
        let Call::Done(result) = state else { return Answer::Never };
        Answer::Reply(match *result {
            Ok(reply) => {
                let mut whole = reply.clone();
                whole.resolve().and_then(|()| whole.check()).expect("a reply of the protocol");
                Ok(reply)
            }
            Err(error) => Err(refusal(&error)),
        })
    }

    fn committed(&mut self) -> Vec<Committed> {
        std::mem::take(&mut self.committed)
    }

    fn push(&mut self, _: &str, _: &Committed, _: &BTreeSet<Def>, _: (usize, u64)) -> Option<ServerParts> {
        None
    }

    fn begin(&mut self, org: usize, instance: usize, now: u64, writes: Vec<Write>) -> u64 {
        self.show(now);
        self.last += 1;
        let engine = self.instances[instance % self.instances.len()].engine.clone();
        let (fiber, progress) = Fiber::start(move || write(&engine, &org_name(org), &writes));
        if matches!(progress, Progress::Paused) {
            self.writes.insert(self.last, fiber);
        }
        self.collect();
        self.last
    }

    fn commit(&mut self, transaction: u64, now: u64) {
        self.show(now);
        if let Some(mut fiber) = self.writes.remove(&transaction) {
            // The write may meet a newer document and begin again above its version.
            while matches!(fiber.go_on(), Progress::Paused) {}
        }
        self.collect();
    }

    fn open_transactions(&self) -> usize {
        self.writes.len()
    }

    fn skew(&mut self, instance: usize, of_255: u8) {
        let count = self.instances.len();
        self.instances[instance % count].ahead = of_255;
    }

    fn restart(&mut self, instance: usize) {
        self.start_again(instance % self.instances.len());
    }

    fn fail_commit(&mut self) {
        self.wire.fail_next();
    }

    fn set_back(&mut self, ms: u64) {
        self.set_back_ms = ms;
    }

    fn heal(&mut self) {
        self.set_back_ms = 0;
        self.wire.heal();
        self.files.store.heal();
        for instance in &mut self.instances {
            instance.ahead = 0;
        }
    }

    fn change_cursor_key(&mut self) {
        let key = self.random.next_u64().to_be_bytes().repeat(4);
        // An SQLite database must not be opened while another connection's write is slow.
        self.finish();
        let provider = self.database.provider(&self.wire);
        let changed = provider.maintain(Duration::ZERO).and_then(|mut tx| {
            let site = tx.snapshot().site()?;
            tx.put_site(&Site { cursor_key: key, ..site })?;
            tx.commit()
        });
        drop(changed);
        self.collect();
    }

    fn forget(&mut self, _: u64, now: u64) {
        self.show(now);
        let engine = self.instances[0].engine.clone();
        // A slow write may hold the database; the next purge then succeeds.
        drop(engine.purge());
        self.collect();
    }

    fn back_up(&mut self) {
        self.backup = Some(self.database.back_up(&self.record.life));
        self.files.back_up(self.now);
    }

    fn restore(&mut self, now: u64) -> bool {
        self.put_back(now, false)
    }

    fn restore_files(&mut self, now: u64) -> bool {
        self.put_back(now, true)
    }

    fn begin_files(&mut self, work: FilesWork, instance: usize, now: u64) -> u64 {
        self.show(now);
        let number = instance % self.instances.len();
        let is_slow = self.below(2) == 0;
        let engine = self.instances[number].engine.clone();
        let work = self.files.begin(engine, number, work, is_slow);
        self.collect();
        work
    }

    fn go_on_files(&mut self, work: u64, now: u64) -> FilesStep {
        self.show(now);
        let step = self.files.go_on(work);
        self.collect();
        step.unwrap_or_else(|| {
            let ms = if self.below(6) == 0 { self.below(2_000) } else { self.below(100) };
            FilesStep::Later(ms + 1)
        })
    }

    fn inject_file_fault(&mut self, fault: FilesFault) {
        self.files.store.inject_fault(fault);
    }

    fn end_files(&mut self, now: u64) {
        self.heal();
        self.finish();
        let (mut time, clocks) = (now, self.clocks());
        let pass = |files: &mut Filings| {
            time += 40 * DAY_MS;
            files.store.show(time);
            for clock in &clocks {
                clock.show(time);
            }
        };
        self.files.end(&self.instances[0].engine, self.record.epochs.len(), self.now, pass);
    }

    fn renew(&mut self, now: u64) {
        self.finish();
        let time = self.epoch_time(now);
        self.show(time);
        // One org in two of three cases, if anything was written in it.
        let orgs = self.record.epochs.len() as u64;
        let one = (self.below(3) > 0).then(|| self.below(orgs) as usize);
        let before = self.epochs_there();
        self.renew_there(one, time);
        let epochs = self.epochs_there();
        self.saw(&epochs);
        for (org, (epoch, before)) in epochs.into_iter().zip(before).enumerate() {
            if one.is_some_and(|one| one != org) {
                assert_eq!(epoch, before, "R37: the epoch of another org was renewed");
            } else if one.is_none() || epoch != before {
                self.record.enter(org, epoch);
            }
        }
    }

    fn epoch(&self, org: usize) -> &Epoch {
        &self.record.epochs[org]
    }

    fn highest(&self, org: usize) -> u64 {
        let head = head(&self.instances[0].engine, &org_name(org)).expect("a database that can be read");
        head.map_or(0, |(_, highest)| highest)
    }

    fn has_past(&self) -> bool {
        !self.record.past.is_empty()
    }

    fn promised_now(&self) -> u64 {
        // A reply may be ahead of the stored `now`.
        self.record.promised_now.max(self.now + SKEW_MS)
    }

    fn history(&self, org: usize, epoch: &Epoch) -> Option<&[Entry]> {
        self.record.history(org, epoch)
    }

    fn epochs(&self) -> Vec<Epoch> {
        self.record.past.keys().map(|(_, epoch)| epoch).chain(&self.record.epochs).cloned().collect()
    }

    fn living(&self, org: usize, def: &Def, now: u64) -> Vec<(&Pk, u64, &Map)> {
        self.record.living(org, def, now)
    }

    fn result(&self, of: Tenant, id: &str) -> Option<&OpResult> {
        self.record.life.results.get(&(of, id.to_owned()))
    }

    fn results(&self, of: Tenant, id: &str) -> Vec<&OpResult> {
        let lives = self.record.past.values().chain([&self.record.life]);
        let key = (of, id.to_owned());
        lives.filter_map(|life| life.results.get(&key)).collect()
    }

    fn executed(&self) -> Vec<(Tenant, &str)> {
        self.record.life.executed.iter().map(|(tenant, id)| (*tenant, id.as_str())).collect()
    }
}
