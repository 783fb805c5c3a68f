//! The final lines of the long proofs, in one form: docs/reliability.md is made of these lines.

use std::io::Write;
use std::time::Instant;

/// How often to repeat something: the number in the environment variable, or the usual one by the dial of all tests.
pub use escale_testkit::seeds::count as times;

/// Prints a proof without violations; a violation has panicked before. It bypasses the capture of test
/// output, so that every run shows it.
pub fn shown(id: &str, promise: &str, count: u64, unit: &str, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    let line = format!("\nproof: {id} | {promise} | {count} {unit} | violations 0 | {seconds:.1} s\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}
