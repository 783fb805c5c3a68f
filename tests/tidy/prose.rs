//! How sentences are written, in documents and in comments: short, and in the field's words. It is a ratchet: a file may
//! have as many faults as `prose.allowed` says, or none where that does not name it, and a number that fell is lowered.

use std::collections::BTreeMap;

use super::files::{self, File};
use super::none;

/// Words in a sentence; a colon and a semicolon end one as a full stop does.
const WORDS_MAX: usize = 30;

/// Words of no use to an engineer of the field. Only a question may hold them.
pub const BANNED: [&str; 8] = ["what", "whatever", "whoever", "anew", "beside", "told", "wishes", "thereof"];

const ALLOWED: &str = "tests/tidy/prose.allowed";

#[test]
fn sentences_are_short_and_plain() {
    let allowed = allowances();
    let mut findings = Vec::new();
    for file in files::ending(&[".md", ".rs", ".ts", ".mjs", ".js"]) {
        let faults = faults_of(&file);
        let allowed = allowed.get(file.path.as_str()).copied().unwrap_or(0);
        if faults.len() > allowed {
            findings.extend(faults);
        } else if faults.len() < allowed {
            findings.push(format!(
                "{ALLOWED} allows {} {allowed} faults: it has {}",
                file.path,
                faults.len()
            ));
        }
    }
    none("one thought a sentence, in the field's words (STYLE.md)", findings);
}

#[test]
fn the_allowances_name_files() {
    let gone = allowances().into_keys().filter(|path| !files::exists(path));
    none("remove these lines", gone.map(|path| format!("{ALLOWED}: {path}")).collect());
}

/// Long sentences and banned words are seen; questions and code may hold any word.
#[test]
fn faults_are_seen() {
    let faults = |text: &str| faults_of(&File { path: "a.md".into(), text: text.into() }).len();
    let long = "word ".repeat(WORDS_MAX + 1);
    assert_eq!(faults(&format!("{long}.")), 1);
    assert_eq!(faults("What to do?"), 0);
    assert_eq!(faults("It says what is there."), 1);
    assert_eq!(faults("- One.\n- It was told `what`.\n\n    what is code\n"), 1);
    assert_eq!(faults("| what | is a table |\n"), 0);
}

fn allowances() -> BTreeMap<&'static str, usize> {
    let lines = include_str!("prose.allowed").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (path, count) = line.split_once(' ').expect("a path and a number");
            (path, count.parse().expect("a number"))
        })
        .collect()
}

/// Each fault, with its place.
fn faults_of(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (place, paragraph) in paragraphs(file) {
        for sentence in sentences(&plain(&paragraph)) {
            let words = sentence.split_whitespace().count();
            let banned =
                || !sentence.ends_with('?') && sentence.split(|c: char| !c.is_alphanumeric()).any(is_banned);
            if words > WORDS_MAX {
                found.push(format!("{place} {words} words: {}", shortened(sentence)));
            } else if banned() {
                found.push(format!("{place} a banned word: {}", shortened(sentence)));
            }
        }
    }
    found
}

fn is_banned(word: &str) -> bool {
    BANNED.iter().any(|banned| word.eq_ignore_ascii_case(banned))
}

fn shortened(sentence: &str) -> String {
    sentence.chars().take(100).collect()
}

/// The paragraphs of a document, or of a source's comments, each with the place of its first line.
fn paragraphs(file: &File) -> Vec<(String, String)> {
    let is_document = file.is(&[".md"]);
    let mut found: Vec<(String, String)> = Vec::new();
    let (mut is_open, mut is_code) = (false, false);
    for (place, line) in file.lines() {
        let text = if is_document { Some(line.trim()) } else { comment(line.trim()) };
        let Some(text) = text else {
            is_open = false;
            continue;
        };
        if text.starts_with("```") {
            (is_open, is_code) = (false, !is_code);
            continue;
        }
        let is_quoted = is_document && !is_open && line.starts_with("    ");
        if is_code || is_quoted || text.is_empty() || text.starts_with(['|', '#', '<', '!']) {
            is_open = false;
            continue;
        }
        let item = item_of(text);
        match found.last_mut() {
            Some((_, paragraph)) if is_open && item.is_none() => {
                paragraph.push(' ');
                paragraph.push_str(text);
            }
            _ => found.push((place, item.unwrap_or(text).to_owned())),
        }
        is_open = true;
    }
    found
}

/// The text of a comment that has a line for itself.
fn comment(line: &str) -> Option<&str> {
    let marks = ["///", "//!", "//", "/**", "*/", "*"];
    let text = marks.iter().find_map(|mark| line.strip_prefix(mark))?;
    Some(text.trim_end_matches("*/").trim())
}

/// The text of an item of a list.
fn item_of(text: &str) -> Option<&str> {
    let numbered =
        || text.split_once(". ").filter(|(number, _)| number.parse::<u32>().is_ok()).map(|(_, text)| text);
    text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")).or_else(numbered)
}

/// Without code and the targets of links.
fn plain(paragraph: &str) -> String {
    let without_code =
        paragraph.split('`').enumerate().map(|(i, part)| if i % 2 == 1 { "code" } else { part });
    let text: String = without_code.collect();
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + part.split_once(')').map_or(part, |(_, after)| after))
}

fn sentences(text: &str) -> Vec<&str> {
    let ends = text.match_indices([' ']).filter(|(at, _)| text[..*at].ends_with(['.', '!', '?', ';', ':']));
    let mut from = 0;
    let mut found = Vec::new();
    for (at, _) in ends {
        found.push(text[from..at].trim());
        from = at;
    }
    found.push(text[from..].trim());
    found
}
