//! Checks that each rule has tests with its number, and that the page on tests names only existing tests.

use std::collections::{BTreeMap, BTreeSet};

use super::files;
use super::none;

#[test]
fn every_rule_has_tests_by_its_name() {
    let tests = tests();
    let listed = listed();
    let mut findings = Vec::new();
    for rule in rules() {
        let names = listed.get(&rule).cloned().unwrap_or_default();
        if !names.iter().any(|name| tests.contains(name)) {
            findings.push(format!("R{rule} has no test in the table of docs/testing.md"));
        }
    }
    let names = listed.values().flatten();
    findings
        .extend(names.filter(|name| !tests.contains(*name)).map(|name| format!("there is no test {name}")));
    none("docs/testing.md lists, rule by rule, tests that are there", findings);
}

#[test]
fn no_test_bears_the_number_of_another_rule() {
    let rules = rules();
    let strays = tests().into_iter().filter(|name| number(name).is_some_and(|rule| !rules.contains(&rule)));
    none("docs/rules.md has no such rule in force: name the test by what it shows", strays.collect());
}

/// The rules in force: the items of docs/rules.md that begin with a number in bold.
fn rules() -> BTreeSet<u32> {
    let text = files::read("docs/rules.md");
    let rules: BTreeSet<u32> = text
        .lines()
        .filter_map(|line| line.strip_prefix("- **R")?.split_once(','))
        .map(|(number, _)| number.parse().expect("a rule's number"))
        .collect();
    assert!(!rules.is_empty(), "docs/rules.md begins its rules with `- **R`");
    rules
}

/// The names in backticks of the table's rows, which begin with the rule.
fn listed() -> BTreeMap<u32, Vec<String>> {
    let text = files::read("docs/testing.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| R")?.split_once(" |"));
    rows.map(|(rule, rest)| {
        let names = rest.split('`').skip(1).step_by(2).filter(|code| number(code).is_some());
        (rule.parse().expect("a rule's number"), names.map(str::to_owned).collect())
    })
    .collect()
}

/// The functions and the titles of JavaScript's tests that begin with a rule.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files::ending(&[".rs"]) {
        for (_, line) in file.lines() {
            let line = line.trim_start();
            let line = line.strip_prefix("async ").unwrap_or(line);
            let name = line.strip_prefix("fn ").and_then(|rest| rest.split_once('('));
            names.extend(name.map(|(name, _)| name).filter(|name| number(name).is_some()).map(str::to_owned));
        }
    }
    for file in files::ending(&[".test.mjs"]) {
        let titles =
            file.lines().filter_map(|(_, line)| line.trim_start().strip_prefix("test(\"")?.split_once('"'));
        names.extend(titles.map(|(title, _)| title.to_owned()).filter(|title| number(title).is_some()));
    }
    names
}

/// 14 of `r14_damage_heals`, and of `r14: damage heals`.
fn number(name: &str) -> Option<u32> {
    name.strip_prefix('r')?.split_once(['_', ':'])?.0.parse().ok()
}
