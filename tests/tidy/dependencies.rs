//! DEPENDENCIES.md names each direct dependency of every crate and npm package, and no other.

use std::collections::BTreeSet;

use super::files::{self, File};
use super::none;

const PAGE: &str = "DEPENDENCIES.md";

/// The own crates and packages.
const OWN: &str = "escale";

#[test]
fn each_direct_dependency_has_its_reason() {
    let page = files::read(PAGE);
    let named = named(&page);
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    let root = File { path: "package.json".into(), text: files::read("package.json") };
    for file in files::ending(&["Cargo.toml", "package.json"]).into_iter().chain([root]) {
        let of_file = if file.is(&[".toml"]) { crates(&file.text) } else { packages(&file.text) };
        for name in of_file.into_iter().filter(|name| !name.trim_start_matches('@').starts_with(OWN)) {
            if !named.contains(&name) {
                findings.push(format!("{PAGE} says nothing of {name}, which {} names", file.path));
            }
            used.insert(name);
        }
    }
    assert!(used.len() > 50, "found: {used:?}");
    findings
        .extend(named.difference(&used).map(|name| format!("{PAGE} names {name}: nothing depends on it")));
    none("a reason for each dependency, and none for what has left", findings);
}

#[test]
fn dependencies_are_read() {
    let manifest = "[dependencies]\na = \"1\"\nb.workspace = true\nc = { version = \"1\", features = [\n  \"d\",\n] }\n[features]\ne = []\n\
        [target.'cfg(unix)'.dev-dependencies]\nf-g = \"1\"\n[workspace.dependencies]\nh = \"1\"\n";
    assert_eq!(crates(manifest), ["a", "b", "c", "f-g"]);
    let package = "{\n  \"scripts\": { \"a\": \"1\" },\n  \"devDependencies\": {\n    \"@b/c\": \"^1\",\n    \"d\": \"^1\"\n  },\n  \"e\": \"1\"\n}\n";
    assert_eq!(packages(package), ["@b/c", "d"]);
    assert_eq!(names_in("| `a`, `b-c` | `d` |"), ["a", "b-c"]);
}

/// The names in the first column of the tables, and in the section of the benchmark's peers.
fn named(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_prose = false;
    for line in page.lines() {
        if line.starts_with('#') {
            is_prose = line == "## The benchmark";
        }
        if is_prose {
            found.extend(quoted(line).filter(|name| !name.ends_with('/')).map(str::to_owned));
        } else if line.starts_with('|') {
            found.extend(names_in(line));
        }
    }
    found
}

/// The names in the first column of a row.
fn names_in(row: &str) -> Vec<String> {
    let column = row.trim_start_matches('|').split('|').next().unwrap_or_default();
    quoted(column).map(str::to_owned).collect()
}

/// The parts in code quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The dependencies of a `Cargo.toml`, of any kind and target; not the versions that a workspace shares.
fn crates(manifest: &str) -> Vec<String> {
    let mut is_table = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_table = line.ends_with("dependencies]") && !line.starts_with("[workspace");
        } else if is_table && line.starts_with(|first: char| first.is_alphanumeric()) {
            let name = line.split([' ', '.', '=']).next().unwrap_or_default();
            found.push(name.to_owned());
        }
    }
    found
}

/// The dependencies of a `package.json`, of any kind.
fn packages(manifest: &str) -> Vec<String> {
    let mut is_table = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.ends_with('{') {
            is_table = line.contains("ependencies\":");
        } else if line.starts_with('}') {
            is_table = false;
        } else if let (true, Some(name)) = (is_table, line.split('"').nth(1)) {
            found.push(name.to_owned());
        }
    }
    found
}
