//! The words of identifiers. A name that was replaced stays replaced, and the words that prose may not use are no names.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use super::files;
use super::none;
use super::prose::BANNED;

/// Words of names that were read twice, each with the word that replaced it.
const REPLACED: [(&str, &str); 6] = [
    ("witness", "backup"),
    ("restless", "database_keeps_changing"),
    ("dealt", "decided"),
    ("engaged", "active"),
    ("guest", "admitted"),
    ("upset", "inject_fault"),
];

/// How many names still hold a banned word. A number only falls.
const REMAINING: [(&str, usize); 2] = [("told", 13), ("what", 1)];

#[test]
fn names_hold_no_word_that_was_replaced() {
    let mut findings = Vec::new();
    for (name, place) in names() {
        for word in words(&name) {
            let other = REPLACED.iter().find(|(replaced, _)| *replaced == word);
            findings.extend(other.map(|(_, other)| format!("{place} {name}: {other}")));
        }
    }
    none("use the word that replaced it", findings);
}

#[test]
fn names_hold_no_word_that_prose_may_not_use() {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, place) in names() {
        for word in words(&name) {
            if let Some(banned) = BANNED.iter().find(|banned| **banned == word) {
                found.entry(banned).or_default().push(format!("{place} {name}"));
            }
        }
    }
    let mut findings = Vec::new();
    for banned in BANNED {
        let places = found.remove(banned).unwrap_or_default();
        let allowed = REMAINING.iter().find(|(word, _)| *word == banned).map_or(0, |(_, count)| *count);
        if places.len() > allowed {
            findings.push(format!("{banned}: {} names, {allowed} allowed", places.len()));
            findings.extend(places);
        } else if places.len() < allowed {
            findings.push(format!("{banned}: lower {allowed} to {}", places.len()));
        }
    }
    none("name it by the field's words (STYLE.md)", findings);
}

#[test]
fn words_of_names_are_seen() {
    let of = |name: &str| words(name).collect::<Vec<_>>().join(" ");
    assert_eq!(of("name_beside"), "name beside");
    assert_eq!(of("BackupHeader"), "backup header");
    assert_eq!(of("#toldNow"), "told now");
    assert_eq!(of("r94_WHAT"), "r94 what");
}

/// A name of more words is a sentence: that of a test.
const NAME_WORDS_MAX: usize = 5;

/// Each name in the code of Rust, and each that a declaration in TypeScript makes, with the first file that has it.
fn names() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in files::ending(&[".rs"]) {
        let tokens = TokenStream::from_str(&file.text).expect("a file that compiles");
        let mut names = BTreeSet::new();
        collect(tokens, &mut names);
        for name in names {
            found.entry(name).or_insert_with(|| file.path.clone());
        }
    }
    for file in files::ending(&[".ts"]) {
        for (place, line) in file.lines() {
            for name in declared(line) {
                found.entry(name.to_owned()).or_insert_with(|| place.clone());
            }
        }
    }
    found.retain(|name, _| words(name).count() <= NAME_WORDS_MAX);
    found
}

/// The identifiers of these tokens.
fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), names),
            TokenTree::Ident(name) => {
                names.insert(name.to_string());
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The names that a line of TypeScript declares: variables, functions, types and private members.
fn declared(line: &str) -> Vec<&str> {
    if line.trim_start().starts_with(['*', '/']) {
        return Vec::new();
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut before = "";
    for part in line.split(|c: char| !is_part(c) && c != '#').filter(|part| !part.is_empty()) {
        let is_new = ["const", "let", "function", "class", "interface", "type", "enum"].contains(&before);
        if is_new || part.starts_with('#') {
            found.push(part);
        }
        before = part;
    }
    found
}

/// The words of a name, in small letters.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (was_small && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            words.last_mut().expect("a word").push(c.to_ascii_lowercase());
        }
        was_small = c.is_ascii_lowercase();
    }
    words.into_iter().filter(|word| !word.is_empty())
}
