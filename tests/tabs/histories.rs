//! Random histories of two to five tabs.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use super::world::{Plan, World};
use escale_testkit::seeds;

/// Plays `usual` histories from fixed seeds, then more from a new seed.
fn play(id: &str, promise: &str, usual: u32, plan: impl Fn(u64) -> Plan) {
    let began = Instant::now();
    let (mut takeovers, mut writes, mut drops, mut in_step) = (0, 0, 0, 0);
    let played = seeds::each(usual);
    let count = played.end - played.start;
    for seed in played {
        let played = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(plan(seed), seed);
            world.run();
            (world.takeovers, world.writes, world.drops, world.in_step)
        }));
        match played {
            Ok((more, written, dropped, compared)) => {
                in_step += compared;
                drops += dropped;
                takeovers += more;
                writes += written;
            }
            Err(panic) => {
                eprintln!("ESCALE_SEED={seed}");
                resume_unwind(panic);
            }
        }
    }
    let seconds = began.elapsed().as_secs_f32();
    println!("proof: {id} | {promise} | {count} histories | violations 0 | {seconds:.1} s");
    println!("{writes} writes, {takeovers} times another tab took over, {drops} databases dropped");
    println!("{in_step} times a session was in step with the device");
    assert!(count < 20 || in_step > count, "the comparison in the middle of histories is idle");
}

#[test]
fn tabs_write_once_and_end_equal() {
    play("tabs-once", "each write of any tab is executed once, and all tabs end equal", 600, |seed| Plan {
        tabs: 2 + (seed % 4) as usize,
        steps: 200,
        has_locals: false,
        is_wild: false,
        sweeps: false,
        loses_words: seed % 2 == 0,
        has_faults: seed % 3 == 0,
        drops: false,
        releases: false,
    });
}

#[test]
fn tabs_decide_about_refused_writes() {
    play("tabs-refused", "refused writes, decisions, sweeps and others' writes in any tab", 400, |seed| {
        Plan {
            tabs: 2 + (seed % 4) as usize,
            steps: 200,
            has_locals: false,
            is_wild: true,
            sweeps: seed % 4 == 0,
            loses_words: seed % 2 == 0,
            has_faults: seed % 3 == 0,
            drops: false,
            releases: false,
        }
    });
}

#[test]
fn r10_tabs_lose_nothing_saved_whichever_database_is_dropped() {
    let promise = "what any tab was told to be saved outlives either database, and is done once";
    play("tabs-dropped", promise, 400, |seed| Plan {
        tabs: 2 + (seed % 4) as usize,
        steps: 300,
        has_locals: false,
        is_wild: seed % 2 == 1,
        sweeps: seed % 4 == 1,
        loses_words: seed % 2 == 0,
        has_faults: seed % 3 == 0,
        drops: true,
        releases: false,
    });
}

#[test]
fn r29_tabs_agree_on_local_documents_and_lose_none() {
    let promise =
        "local documents that any tab was told to be saved outlive tabs, epochs and either database";
    play("tabs-local", promise, 600, |seed| Plan {
        tabs: 1 + (seed % 4) as usize,
        steps: 250,
        has_locals: true,
        is_wild: seed % 3 == 1,
        sweeps: seed % 4 == 1,
        loses_words: seed % 2 == 0,
        has_faults: seed % 3 == 0,
        drops: seed % 5 == 0,
        releases: false,
    });
}

#[test]
fn r10_two_releases_of_an_application_lose_nothing_saved() {
    let promise = "what a tab was told to be saved outlives every leader that does not understand it";
    play("tabs-releases", promise, 400, |seed| Plan {
        tabs: 2 + (seed % 3) as usize,
        steps: 250,
        has_locals: true,
        is_wild: seed % 4 == 1,
        sweeps: false,
        loses_words: seed % 2 == 0,
        has_faults: seed % 3 == 0,
        drops: false,
        releases: true,
    });
}
