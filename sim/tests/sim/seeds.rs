//! Ten thousand seeds, the same each time. `ESCALE_CASES` plays more or fewer of them, `ESCALE_SEED` a single
//! one.

use escale_testkit::seeds;

#[test]
#[allow(clippy::print_stdout)] // the proof is for who reads the log
fn r9_every_seed_keeps_the_rules_and_converges() {
    let seeds = seeds::each(10_000);
    let hook = std::panic::take_hook();
    // The report below prints a broken promise, with its history reduced.
    std::panic::set_hook(Box::new(|_| {}));
    let report = escale_sim::sweep(seeds.start, seeds.end - seeds.start, 1);
    let told = report.failures.first().map(|(seed, _)| escale_sim::trace(*seed));
    std::panic::set_hook(hook);
    println!("{}", report.lines());
    if let Some(told) = told {
        panic!("{told}");
    }
}
