//! Ten thousand seeds, the same each time. `ESCALE_CASES` plays more or fewer of them, `ESCALE_SEED` a single
//! one.

use std::env;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
#[allow(clippy::print_stdout)] // the proof is for who reads the log
fn r9_every_seed_keeps_the_rules_and_converges() {
    let (from, seeds) = match number("ESCALE_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("ESCALE_CASES").unwrap_or(10_000)),
    };
    let hook = std::panic::take_hook();
    // The report below prints a broken promise, with its history reduced.
    std::panic::set_hook(Box::new(|_| {}));
    let report = escale_sim::sweep(from, seeds, 1);
    let told = report.failures.first().map(|(seed, _)| escale_sim::trace(*seed));
    std::panic::set_hook(hook);
    println!("{}", report.lines());
    if let Some(told) = told {
        panic!("{told}");
    }
}
