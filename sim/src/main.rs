//! The command `escale-sim`: plays seeds, and prints the result of the checks.

use std::process::ExitCode;

/// A seed spends most of its time on allocations, on one thread for each core.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "escale-sim [--seeds N] [--from S] | --seed S [--trace]";

/// The options of the command line.
#[derive(Debug, Default)]
struct Asked {
    seeds: u64,
    from: u64,
    one: Option<u64>,
    traces: bool,
}

fn parse(args: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { seeds: 1_000, ..Asked::default() };
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut number = || args.next()?.parse().ok();
        match arg.as_str() {
            "--seeds" => asked.seeds = number()?,
            "--from" => asked.from = number()?,
            "--seed" => asked.one = Some(number()?),
            "--trace" => asked.traces = true,
            _ => return None,
        }
    }
    Some(asked)
}

#[allow(clippy::print_stdout)] // it is what the command is for
fn main() -> ExitCode {
    let given = std::env::var("ESCALE_SEED").ok().and_then(|seed| seed.parse().ok());
    let Some(asked) = parse(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    let (from, seeds) = asked.one.or(given).map_or((asked.from, asked.seeds), |seed| (seed, 1));
    // The report below prints a broken promise, with its history reduced.
    std::panic::set_hook(Box::new(|_| {}));
    let report = escale_sim::sweep(from, seeds, 20);
    for (seed, message) in &report.failures {
        let line: String = message.lines().next().unwrap_or_default().chars().take(200).collect();
        println!("ESCALE_SEED={seed} {line}");
    }
    if let Some((seed, _)) = report.failures.first()
        && (asked.traces || report.failures.len() == 1 || seeds > 1)
    {
        println!("{}", escale_sim::trace(*seed));
    }
    println!("{}", report.lines());
    if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
