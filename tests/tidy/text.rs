//! The form of files: their characters, and words that must not be in them.

use super::files::{self, File};
use super::none;

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

/// Commands that end before they have read all. A script that pipes into one fails if the text goes on.
const STOPS_READING: [(&str, &str); 4] =
    [("| he", "ad -"), ("| gr", "ep -q"), ("| gr", "ep -m"), ("| re", "ad ")];

/// Tests wait for an event or a condition, never for time to pass.
const SLEEPS: [(&str, &str); 2] = [("thread::sl", "eep"), ("time::sl", "eep")];

/// The only source with sentences that are not English. It may have the letters of French, each as one character.
const IN_FRENCH: &str = "js/src/base/advice/sentences.ts";

#[test]
fn sources_are_ascii() {
    let mut findings = Vec::new();
    for file in files::all().iter().filter(|file| !file.is(&[".md", ".json", ".svg", ".html"])) {
        let may_hold = |c: char| c.is_ascii() || (file.path == IN_FRENCH && is_of_french(c));
        for (place, line) in file.lines() {
            if let Some(c) = line.chars().find(|c| !may_hold(*c)) {
                findings.push(format!("{place} {c:?}"));
            }
        }
    }
    none("write ASCII, or an escape", findings);
}

/// The letters with an accent, and the two ligatures.
fn is_of_french(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{ff}' | '\u{152}' | '\u{153}' | '\u{178}') && c.is_alphabetic()
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
fn no_script_pipes_into_a_command_that_stops_reading() {
    let is_script = |file: &File| file.path.starts_with("scripts/") || file.path == "Makefile";
    none("read all of it: sed -n 1p in place of head -1", places_of(&STOPS_READING, is_script));
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
