//! The sweeper on the device. It reports exactly the removed rows, when they are gone, and removes nothing
//! that counts.

use std::collections::BTreeSet;

use escale::Code;
use escale::crypto::SeededRandom;
use escale::journal::{Action, ActionType, Policy, Retention, iso8601};
use escale::model::Value;
use escale::sync::{Event, Mode};

use super::driver::{Driver, id, server};
use escale_testkit::seeds;
use escale_testkit::server::ModelServer;

const DOCUMENTS: usize = 4;

/// A step of a session.
#[derive(Clone, Debug)]
enum Step {
    Offline,
    Online,
    Reopen,
    /// From here on batches are not written.
    Full,
    Write(String, Value),
    /// The application decides about the first refused operation.
    Amend(String),
    Discard,
    Sweep(Retention),
}

/// A session with its server. Its twin takes the same steps, but only asks which rows a sweep would remove.
struct Session {
    driver: Driver,
    server: ModelServer,
    sweeps: bool,
}

impl Session {
    fn new(sweeps: bool) -> Self {
        let mut server = server(DOCUMENTS);
        let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
        driver.subscribe(&mut server);
        Session { driver, server, sweeps }
    }

    /// Carries out a step. Returns the rows that a sweep removes.
    fn step(self, step: &Step) -> (Self, Vec<i64>) {
        let Session { mut driver, mut server, sweeps } = self;
        let mut removed = Vec::new();
        match step {
            Step::Offline => driver.feed(Event::Network(false)),
            Step::Online => {
                driver.hooks.is_full = false;
                driver.wait(31_000);
                driver.feed(Event::Network(true));
                driver.settle(&mut server);
            }
            Step::Reopen => driver = driver.reopen(Mode::Synced, Policy::Overwrite),
            Step::Full => driver.hooks.is_full = true,
            Step::Write(name, args) => drop(driver.write(name, args.clone())),
            Step::Amend(new) => {
                if let Some(refused) = driver.first_refused() {
                    let is_patch = driver.machine.refused_op(&refused).expect("refused").state.issued.name
                        == "doc.patch";
                    let args = is_patch.then(|| driver.without_poison(&refused));
                    driver.feed(Event::Amend { id: refused, new: new.clone(), args });
                }
            }
            Step::Discard => {
                if let Some(refused) = driver.first_refused() {
                    driver.feed(Event::Discard(refused));
                }
            }
            Step::Sweep(retention) => removed = sweep(&mut driver, retention, sweeps),
        }
        (Session { driver, server, sweeps }, removed)
    }

    /// Whether the application could take this step.
    fn allows(&self, step: &Step) -> bool {
        let Step::Write(name, args) = step else { return true };
        self.driver.machine.check_write(name, args).is_ok()
    }

    fn history(&mut self) -> Vec<Vec<Action>> {
        let of = |number| self.driver.history(number).into_iter().map(|(_, action)| action).collect();
        (0..DOCUMENTS).map(of).collect()
    }
}

/// A dry run, then the real one: the same rows, reported once they are gone.
fn sweep(driver: &mut Driver, retention: &Retention, applies: bool) -> Vec<i64> {
    driver.feed(Event::Sweep { ticket: 2, retention: retention.clone(), apply: false });
    driver.feed(Event::Sweep { ticket: 4, retention: retention.clone(), apply: applies });
    let early: Vec<_> = std::iter::from_fn(|| driver.swept()).collect();
    if applies && driver.hooks.is_full {
        let removes = early.iter().any(|swept| swept.as_ref().is_ok_and(|rows| !rows.is_empty()));
        assert!(!removes || early.len() == 1, "told before it is gone");
    }
    // There is room again.
    driver.hooks.is_full = false;
    driver.wait(31_000);
    let told: Vec<Vec<i64>> = early
        .into_iter()
        .chain(std::iter::from_fn(|| driver.swept()))
        .map(|swept| swept.expect("a rule"))
        .collect();
    assert_eq!(told.len(), 2, "both are answered");
    assert_eq!(told[0], told[1], "a dry run tells what the real one removes");
    told[0].clone()
}

fn write(random: &mut SeededRandom, n: i64) -> Step {
    let number = random.next_u64() as usize % DOCUMENTS;
    let poison = random.next_u64().is_multiple_of(6);
    let patch = |number: usize| {
        let mut set = vec![("n".to_owned(), Value::from(n))];
        set.extend(poison.then(|| ("poison".to_owned(), Value::from(true))));
        Value::from([
            ("class", "Doc".into()),
            ("key", id(number)),
            ("set", Value::Map(set.into_iter().collect())),
        ])
    };
    let put = |number: usize| {
        let data = Value::from([("id", format!("id{number}").as_str().into()), ("n", Value::from(n))]);
        Value::from([("class", "Doc".into()), ("data", data)])
    };
    let op = |name: &str, args: Value| Value::from([("name", Value::from(name)), ("args", args)]);
    match random.next_u64() % 8 {
        0 => Step::Write("doc.delete".into(), Value::from([("class", "Doc".into()), ("key", id(number))])),
        1 | 2 => Step::Write("doc.put".into(), put(number)),
        3 | 4 => {
            let ops = vec![op("doc.put", put(number)), op("doc.patch", patch((number + 1) % DOCUMENTS))];
            Step::Write("batch".into(), Value::from([("ops", Value::Array(ops))]))
        }
        _ => Step::Write("doc.patch".into(), patch(number)),
    }
}

fn step(random: &mut SeededRandom, n: i64, now: u64) -> Step {
    match random.next_u64() % 20 {
        0 => Step::Offline,
        1 | 2 => Step::Online,
        3..=5 => {
            let max = 1 + (random.next_u64() % 4) as u32;
            let before = iso8601(now - random.next_u64() % 3_000_000);
            Step::Sweep(match random.next_u64() % 3 {
                0 => Retention::Count(max),
                1 => Retention::Before(before),
                _ => Retention::Days { max, before },
            })
        }
        6 if random.next_u64().is_multiple_of(2) => Step::Reopen,
        7 => Step::Full,
        8 => Step::Amend(format!("amended{n}")),
        9 => Step::Discard,
        _ => write(random, n),
    }
}

/// No sequence of sweeps loses an action that the server has not accepted, or an actor's last state. The
/// steps include refused, amended and discarded operations, batches, and batches that are not written. The
/// history of a session that sweeps equals its twin's, without the rows that sweeps reported, each once.
#[test]
fn sweeps_lose_nothing_that_counts() {
    let (mut swept, mut refused, mut full) = (0, 0, 0);
    for seed in seeds::each(300) {
        println!("ESCALE_SEED={seed}");
        let mut random = SeededRandom::new(seed);
        let (mut one, mut twin) = (Session::new(true), Session::new(false));
        let mut all: BTreeSet<i64> = BTreeSet::new();
        for n in 0..80 {
            let wait = 1 + random.next_u64() % 60_000;
            let step = step(&mut random, n, one.driver.now);
            // A sweep delays requests: one session may have received a deletion that the other has not.
            if !one.allows(&step) || !twin.allows(&step) {
                continue;
            }
            full += usize::from(one.driver.hooks.is_full);
            let before = twin.history();
            one.driver.now += wait;
            twin.driver.now += wait;
            let removed;
            (one, removed) = one.step(&step);
            (twin, _) = twin.step(&step);
            let is_accepted =
                |row: &i64| before.iter().flatten().any(|a| a.rowid == *row && a.commit.is_some());
            assert!(removed.iter().all(is_accepted), "what is not accepted was swept");
            assert!(removed.iter().all(|row| all.insert(*row)), "each row once");
            swept += removed.len();
            refused += usize::from(one.driver.first_refused().is_some());
            let operations = one.driver.machine.operations();
            let pending = operations.iter().flat_map(|(op, _)| op.actions.iter());
            assert!(
                pending.map(|action| action.rowid).all(|row| !all.contains(&row)),
                "what is pending was swept"
            );
        }
        for (left, whole) in one.history().into_iter().zip(twin.history()) {
            let last =
                whole.iter().rfind(|action| action.kind == ActionType::Persist && action.commit.is_some());
            assert!(last.is_none_or(|last| left.iter().any(|a| a.rowid == last.rowid)), "the last state");
            // The clocks differ by the requests that a sweep delays.
            let seen = |a: &Action| (a.rowid, a.kind, a.commit.is_some(), a.data.clone());
            let expected = whole.iter().filter(|action| !all.contains(&action.rowid)).map(seen);
            let left: Vec<_> = left.iter().map(seen).collect();
            assert_eq!(left, expected.collect::<Vec<_>>(), "what is left is what no sweep told");
        }
        let mut kept = one.driver.reopen(Mode::Avion, Policy::Overwrite);
        kept.wait(1);
        assert!(!kept.machine.status().error.is_some_and(|error| error.code() == Code::LocalDataLost));
    }
    println!("{swept} actions swept; {refused} steps with a refused operation, {full} on a full device");
}

/// On a full device, a sweep is reported when its rows are gone, and not before.
#[test]
fn a_sweep_is_told_when_it_is_done() {
    let mut session = Session::new(true);
    for n in 0..6 {
        session.driver.patch(0, &[("n", n)]);
        session.driver.settle(&mut session.server);
    }
    let driver = &mut session.driver;
    driver.hooks.is_full = true;
    driver.feed(Event::Sweep { ticket: 2, retention: Retention::Count(1), apply: true });
    assert!(driver.swept().is_none(), "nothing is gone yet");
    assert_eq!(driver.history(0).len(), 12);
    driver.hooks.is_full = false;
    driver.wait(31_000);
    let rows = driver.swept().expect("an answer").expect("a rule");
    assert_eq!((rows.len(), driver.history(0).len()), (11, 1));
}

/// Several sweeps requested together are all answered, with nothing else happening in between. The second
/// once waited for the next unrelated event.
#[test]
fn sweeps_asked_together_are_all_answered() {
    let mut session = Session::new(true);
    session.driver.patch(0, &[("n", 1)]);
    session.driver.settle(&mut session.server);
    let driver = &mut session.driver;
    driver.hooks.is_full = true;
    driver.patch(1, &[("n", 2)]);
    driver.feed(Event::Sweep { ticket: 2, retention: Retention::Count(1), apply: true });
    driver.feed(Event::Sweep { ticket: 4, retention: Retention::Count(1), apply: false });
    driver.feed(Event::Sweep { ticket: 6, retention: Retention::Count(1), apply: false });
    driver.hooks.is_full = false;
    driver.wait(31_000);
    assert_eq!(std::iter::from_fn(|| driver.swept()).count(), 3);
}

/// A session that stays open for long knows nothing of operations whose records are swept.
#[test]
fn an_operation_whose_records_are_swept_is_forgotten() {
    let mut session = Session::new(true);
    let first = session.driver.patch(0, &[("n", 1)]);
    session.driver.settle(&mut session.server);
    let last = session.driver.patch(0, &[("n", 2)]);
    session.driver.settle(&mut session.server);
    sweep(&mut session.driver, &Retention::Count(1), true);
    let machine = &session.driver.machine;
    assert_eq!((machine.remembers(&first), machine.remembers(&last)), (false, true));
}

#[test]
fn a_sweep_by_a_rule_that_is_none_is_answered_with_an_error() {
    let mut session = Session::new(true);
    session.driver.patch(0, &[("n", 1)]);
    session.driver.settle(&mut session.server);
    for retention in [Retention::Count(0), Retention::Count(101), Retention::Before("yesterday".into())] {
        session.driver.feed(Event::Sweep { ticket: 2, retention, apply: true });
        let code = session.driver.swept().expect("an answer").map_err(|error| error.code());
        assert_eq!(code, Err(Code::BadOption));
    }
}
