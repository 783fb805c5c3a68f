//! Checks that the documents match the repository: links, paths, commands, the version, and the README's
//! example.

use std::collections::BTreeSet;

use super::files::{self, File};
use super::none;

/// Folders that a path in backticks can begin with.
const FOLDERS: [&str; 18] = [
    "src",
    "cipher",
    "js",
    "server",
    "sim",
    "testkit",
    "fuzz",
    "mutants",
    "www",
    "tests",
    "scripts",
    "docs",
    "data",
    "conformance",
    "handler",
    "examples",
    "site",
    ".ci",
];

/// Documents with an example, and the file in which the TypeScript compiler checks it.
const EXAMPLES: [(&str, &str); 4] = [
    ("README.md", "tests/js/readme.test-d.ts"),
    ("js/README.md", "tests/js/readme.test-d.ts"),
    ("docs/schema.md", "tests/js/schema.test-d.ts"),
    ("docs/writes.md", "tests/js/writes.test-d.ts"),
];

#[test]
fn every_link_leads_somewhere() {
    let mut findings = Vec::new();
    for file in documents() {
        for (place, line) in prose(&file) {
            for target in links(line) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let path =
                    if path.is_empty() { file.path.clone() } else { files::resolve(file.folder(), path) };
                if !files::exists(&path) {
                    findings.push(format!("{place} {target}: there is no {path}"));
                } else if !anchor.is_empty() && is_document(&path) && !has_heading(&path, anchor) {
                    findings.push(format!("{place} {target}: {path} has no such heading"));
                }
            }
        }
    }
    none("correct these links", findings);
}

#[test]
fn every_path_named_is_there() {
    let mut findings = Vec::new();
    for file in documents() {
        for (place, line) in prose(&file) {
            // Odd pieces are between backticks.
            for code in line.split('`').skip(1).step_by(2) {
                let is_path = code.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
                    && code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
                if is_path && !is_generated(code) && !files::exists(code) {
                    findings.push(format!("{place} {code}"));
                }
            }
        }
    }
    none("there is no such file", findings);
}

#[test]
fn every_command_named_is_there() {
    let makefile = files::read("Makefile");
    let mut findings = Vec::new();
    for file in documents() {
        for (place, line) in file.lines() {
            for (at, _) in line.match_indices("make ") {
                let is_command =
                    line[..at].is_empty() || line[..at].ends_with(['`', ' ']) && is_code(line, at);
                let target: String = line[at + 5..].chars().take_while(char::is_ascii_lowercase).collect();
                if is_command && !target.is_empty() && !makefile.contains(&format!("\n{target}:")) {
                    findings.push(format!("{place} make {target}"));
                }
            }
        }
    }
    none("the Makefile has no such target", findings);
}

/// The map is read while somebody works, and the page of figures by users: neither is a log.
#[test]
fn the_map_and_the_figures_stay_short() {
    let map = files::read("ARCHITECTURE.md");
    let long = |line: &&str| line.starts_with('|') && line.chars().count() > 300;
    let rows = map
        .lines()
        .filter(long)
        .map(|row| format!("ARCHITECTURE.md: {}", row.split('|').nth(1).unwrap_or(row)));
    none("give a long row of the map a section of its own", rows.collect());
    let lines = files::read("docs/performance.md").lines().count();
    assert!(
        lines <= 300,
        "docs/performance.md has {lines} lines of 300: bench/results/history.md is the log"
    );
}

#[test]
fn the_changelog_has_the_current_version() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = files::read("CHANGELOG.md");
    let heading = format!("## {version}");
    let has_heading = changelog
        .lines()
        .any(|line| line.strip_prefix(&heading).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')));
    assert!(has_heading, "CHANGELOG.md has no heading `{heading}`");
    let manifest = files::read("package.json");
    assert!(manifest.contains(&format!("\"version\": \"{version}\"")), "package.json has another version");
}

/// The TypeScript blocks of documents are the examples that `tsc` checks: none can become outdated.
#[test]
fn the_examples_are_those_that_are_checked() {
    for (path, source_path) in EXAMPLES {
        let source = files::read(source_path);
        let (_, example) = source.split_once("// README:\n").expect("the example begins at `// README:`");
        let text = files::read(path);
        let (_, rest) = text.split_once("```ts\n").unwrap_or_else(|| panic!("{path} has no example"));
        let (block, _) = rest.split_once("```").expect("the block ends");
        let (block, example) = (block.trim(), example.trim());
        let other = example.lines().zip(block.lines()).find(|(a, b)| a != b);
        assert!(block == example, "{path} and {source_path} differ from here on: {other:?}");
    }
}

/// docs/status.md has each phase, state of the device, and reason of an end, and no other.
#[test]
fn the_page_of_the_status_has_every_word_of_it() {
    let page = files::read("docs/status.md");
    let core = files::read("js/src/wasm/core.ts");
    let mut findings = Vec::new();
    for (heading, declared) in
        [("phase", "  phase: "), ("storage", "  storage: "), ("reason", "export type Ending = ")]
    {
        let line = core.lines().find_map(|line| line.strip_prefix(declared)).expect("the type of the words");
        let of_type: BTreeSet<&str> = line.split('"').skip(1).step_by(2).collect();
        let (_, table) = page.split_once(&format!("\n| {heading} |")).expect("a table of the words");
        let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
        let of_page: BTreeSet<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        if of_page != of_type {
            findings.push(format!("{heading}: {of_page:?}, and the type says {of_type:?}"));
        }
    }
    none("correct docs/status.md", findings);
}

fn is_document(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "md")
}

fn documents() -> Vec<File> {
    files::ending(&[".md"])
}

/// The lines of a document outside its blocks of code.
fn prose(file: &File) -> impl Iterator<Item = (String, &str)> {
    let mut is_block = false;
    file.lines().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence && !line.starts_with("    ")
    })
}

/// Whether a position of a line is between backticks, or the line is code.
fn is_code(line: &str, at: usize) -> bool {
    line.starts_with("    ") || line[..at].matches('`').count() % 2 == 1
}

fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// Files that the build makes: they do not exist before it.
fn is_generated(path: &str) -> bool {
    ["js/dist", "www/dist", "site/dist", "site/pages", "data/run", "tests/proptest-regressions"]
        .iter()
        .any(|made| path.starts_with(made))
}

fn has_heading(path: &str, anchor: &str) -> bool {
    let text = files::read(path);
    text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line.trim_start_matches('#')) == anchor)
}

/// The anchor of a heading, as code forges make it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}
