//! The form of files: their length, their characters, and words that must not be in them.

use super::files::{self, File};
use super::none;

/// Lines of a file, without the tests at its end. A longer file holds more than one idea.
const LINES_MAX: usize = 500;

/// Lines of a server in `examples/servers`: it is one file, because its reader takes it as a page.
const EXAMPLE_LINES_MAX: usize = 1_000;

/// The files that people write by hand and others must read.
const SOURCE: [&str; 8] = [".rs", ".ts", ".mjs", ".js", ".css", ".sh", ".sql", ".py"];

/// Unfinished or disabled code. The words are split, so that this file does not contain them.
const UNFINISHED: [(&str, &str); 10] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("HA", "CK"),
    ("todo", "!("),
    ("unimplemented", "!("),
    ("dbg", "!("),
    ("#[ign", "ore"),
    (".on", "ly("),
    (".sk", "ip({"),
];

/// Paths of one machine.
const OF_A_MACHINE: [(&str, &str); 3] = [("/ro", "ot/"), ("/ho", "me/"), ("/Us", "ers/")];

/// Tests wait for an event or a condition, never for time to pass.
const SLEEPS: [(&str, &str); 2] = [("thread::sl", "eep"), ("time::sl", "eep")];

#[test]
fn files_are_short() {
    let long = |file: &File| {
        let lines = file.text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        let most = if file.path.starts_with("examples/servers/") { EXAMPLE_LINES_MAX } else { LINES_MAX };
        (lines > most).then(|| format!("{} has {lines} lines, {most} at most", file.path))
    };
    none("one idea each: divide", files::ending(&SOURCE).iter().filter_map(long).collect());
}

#[test]
fn sources_are_ascii() {
    let mut findings = Vec::new();
    for file in files::all().iter().filter(|file| !file.is(&[".md", ".json", ".svg", ".html"])) {
        for (place, line) in file.lines() {
            if let Some(c) = line.chars().find(|c| !c.is_ascii()) {
                findings.push(format!("{place} {c:?}"));
            }
        }
    }
    none("write ASCII, or an escape", findings);
}

#[test]
fn nothing_is_left_unfinished() {
    none("finish it, or say in the CHANGELOG what is not there", places_of(&UNFINISHED, |_| true));
}

#[test]
fn no_file_names_a_machine() {
    none("write a path from the root of the repository", places_of(&OF_A_MACHINE, |_| true));
}

#[test]
fn tests_do_not_sleep() {
    let is_test = |file: &File| file.path.contains("tests/") || file.is(&["tests.rs"]);
    none("wait for an event or a condition", places_of(&SLEEPS, is_test));
}

fn places_of(words: &[(&str, &str)], wanted: impl Fn(&File) -> bool) -> Vec<String> {
    let words: Vec<String> = words.iter().map(|(head, tail)| format!("{head}{tail}")).collect();
    let mut findings = Vec::new();
    for file in files::all().iter().filter(|file| wanted(file)) {
        for (place, line) in file.lines() {
            findings.extend(
                words.iter().filter(|word| line.contains(*word)).map(|word| format!("{place} {word}")),
            );
        }
    }
    findings
}
