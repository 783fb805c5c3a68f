//! Files that nothing uses: the compiler never sees them, so nobody would notice that they are outdated.

use std::collections::BTreeSet;

use super::files::{self, File};
use super::none;

/// The entry files of the package and of the demonstration.
const ROOTS: [&str; 24] = [
    "js/src/advice.ts",
    "js/src/accounts.ts",
    "js/src/passkeys.ts",
    "js/src/files.ts",
    "js/src/bundled.ts",
    "js/src/edge.ts",
    "js/src/inline.ts",
    "js/src/wasm/wasm-module.d.ts",
    "js/src/index.ts",
    "js/src/rehearsal.ts",
    "js/src/devtools.ts",
    "js/src/react.ts",
    "js/src/vue.ts",
    "js/src/svelte.ts",
    "js/src/solid.ts",
    "js/src/offline.ts",
    "js/src/offline-worker.ts",
    "js/src/offline-build.ts",
    "js/src/vite.ts",
    "js/src/testing.ts",
    "js/src/values.ts",
    "js/src/cli.ts",
    "www/src/main.ts",
    "www/src/accounts/main.ts",
];

/// An example is a program of its own: a test that calls its operation includes it by its path.
const EXAMPLE: &str = "/examples/counter.rs\"";

#[test]
fn every_rust_file_is_named_by_a_mod_line() {
    let files = files::ending(&[".rs"]);
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut next: Vec<String> = files.iter().filter(|file| is_crate(file)).map(|f| f.path.clone()).collect();
    while let Some(path) = next.pop() {
        let Some(file) = files.iter().find(|file| file.path == path) else { continue };
        if reached.insert(path) {
            next.extend(children(file));
        }
    }
    let orphans = files.iter().filter(|file| !reached.contains(&file.path));
    none("no `mod` names these files", orphans.map(|file| file.path.clone()).collect());
}

/// A file that two crates include by its path is compiled twice, and each of them leaves parts of it unused.
#[test]
fn shared_code_of_tests_is_in_a_crate() {
    let mut findings = Vec::new();
    for file in files::ending(&[".rs"]) {
        let included = file.lines().filter(|(_, line)| line.trim_start().starts_with("#[path"));
        let included = included.filter(|(_, line)| !line.contains(EXAMPLE));
        findings.extend(included.map(|(place, line)| format!("{place} {}", line.trim())));
    }
    none("put what several crates use into testkit", findings);
}

#[test]
fn every_typescript_file_is_imported() {
    let files: Vec<File> = files::ending(&[".ts"])
        .into_iter()
        .filter(|file| file.path.starts_with("js/src/") || file.path.starts_with("www/src/"))
        .collect();
    let mut next: Vec<String> = ROOTS.iter().map(ToString::to_string).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    while let Some(path) = next.pop() {
        let Some(file) = files.iter().find(|file| file.path == path) else { continue };
        if reached.insert(path) {
            next.extend(imports(file).into_iter().flat_map(|(_, name)| targets(file.folder(), &name)));
        }
    }
    let orphans = files.iter().filter(|file| !reached.contains(&file.path));
    none("nothing imports these files", orphans.map(|file| file.path.clone()).collect());
}

/// The files that a TypeScript file imports, each with its line.
pub fn imports(file: &File) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (place, line) in file.lines() {
        let from = line.split_once(" from \"").or_else(|| line.split_once("import \""));
        let from = from.or_else(|| line.split_once("import(\""));
        if let Some((name, _)) = from.and_then(|(_, rest)| rest.split_once('"')) {
            found.push((place, name.to_owned()));
        }
    }
    found
}

/// The files that an import can mean.
pub fn targets(folder: &str, name: &str) -> Vec<String> {
    if !name.starts_with('.') {
        return Vec::new();
    }
    let path = files::resolve(folder, name);
    if std::path::Path::new(&path).extension().is_some_and(|extension| extension == "mjs") {
        return vec![path];
    }
    let stem = path.strip_suffix(".js").unwrap_or(&path);
    vec![format!("{stem}.ts"), format!("{stem}.d.ts"), format!("{stem}/index.ts")]
}

/// Whether a file is the root of a crate: a library, a binary, a test or an example.
fn is_crate(file: &File) -> bool {
    let is_target = file.is(&["src/lib.rs", "src/main.rs"]);
    let tests = [
        "tests/",
        "bench/native/benches/",
        "server/tests/",
        "server/examples/",
        "sim/tests/",
        "fuzz/targets/",
    ];
    let is_test = tests.iter().any(|tests| file.path.starts_with(tests));
    let within = ["bench/native/", "server/", "sim/", "fuzz/", "mutants/"]
        .iter()
        .find_map(|folder| file.path.strip_prefix(folder));
    let depth = within.unwrap_or(&file.path).matches('/').count();
    is_target || (is_test && (depth == 1 || (depth == 2 && file.is(&["/main.rs"]))))
}

/// The files that the `mod` lines of a file name.
fn children(file: &File) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let is_home = is_crate(file) || file.is(&["/mod.rs"]);
    let home = if is_home { file.folder() } else { stem };
    let mut found = Vec::new();
    let mut path_attribute = None;
    for line in file.text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            path_attribute = Some(files::resolve(file.folder(), path));
            continue;
        }
        let declared =
            line.split_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
        if let Some(name) = declared.and_then(|(_, rest)| rest.strip_suffix(';')) {
            match path_attribute.take() {
                Some(path) => found.push(path),
                None => found.extend([format!("{home}/{name}.rs"), format!("{home}/{name}/mod.rs")]),
            }
        }
    }
    found
}
