//! Plays many seeds on every core, and reports the seeds that fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::plans::{named, plan};
use crate::server::RealServer;
use escale_testkit::plan::Action;
use escale_testkit::play;
use escale_testkit::world::Figures;

/// The result of a run over many seeds.
#[derive(Debug)]
pub struct Report {
    /// Seeds played.
    pub seeds: u64,
    /// How often each kind of event happened.
    figures: Figures,
    /// The seeds that failed, each with the promise that was broken.
    pub failures: Vec<(u64, String)>,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Report {
    /// The lines to print: the result of the checks, and the figures.
    pub fn lines(&self) -> String {
        let Figures { events, crashes, lost, ops, restores, devices, answers, uploads, whole, hidden } =
            self.figures;
        format!(
            "proof: sim | R1 to R12, R18, R19 and R24 to R28 at every step, convergence | {} seeds | violations {} | {:.1} s\n\
             sim: {events} events, {ops} operations, {crashes} crashes, {lost} messages lost, {restores} servers \
             restored, {devices} devices set back or wiped, {answers} answers of queries compared, \
             {whole} whole trees compared, {hidden} items hidden, {uploads} objects uploaded",
            self.seeds,
            self.failures.len(),
            self.seconds
        )
    }
}

/// Plays seeds `from` to `from + count`, and stops after `failures_max` failures.
pub fn sweep(from: u64, count: u64, failures_max: usize) -> Report {
    let started = Instant::now();
    let next = AtomicU64::new(from);
    let found: Mutex<(Figures, Vec<(u64, String)>)> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let played = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut figures = Figures::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    let is_over = found.lock().expect("no panic here").1.len() >= failures_max;
                    if seed >= from + count || is_over {
                        break;
                    }
                    played.fetch_add(1, Ordering::SeqCst);
                    match play(seed) {
                        Ok(of_seed) => figures.add(&of_seed),
                        Err(message) => found.lock().expect("no panic here").1.push((seed, message)),
                    }
                }
                found.lock().expect("no panic here").0.add(&figures);
            });
        }
    });
    let (figures, mut failures) = found.into_inner().expect("no panic here");
    failures.sort();
    let seeds = played.into_inner();
    Report { seeds, figures, failures, seconds: started.elapsed().as_secs_f64() }
}

/// Plays one seed. Errors: the promise that was broken.
fn play(seed: u64) -> Result<Figures, String> {
    let plan = plan(seed);
    let actions = play::actions(plan, seed);
    play::run::<RealServer>(plan, seed, &actions, false).map_err(|failure| failure.message)
}

/// The report of a failing seed, reduced: its log, the broken promise, and the lines of a regression test.
pub fn trace(seed: u64) -> String {
    let plan = plan(seed);
    let called = format!("{:?}", plan.name);
    play::report::<RealServer>((plan, &called), seed, seed, play::actions(plan, seed))
}

/// Plays one history under the plan of that name. Regression tests call it with a failure that was found
/// once.
///
/// # Panics
///
/// If it fails again.
pub fn replay(plan: &str, seed: u64, actions: &[Action]) {
    let plan = named(plan);
    if let Err(failure) = play::run::<RealServer>(plan, seed, actions, true) {
        panic!("{}\n\n{}\n\nplan {}, seed {seed}", failure.log.join("\n"), failure.message, plan.name);
    }
}
