//! The shape of the sources: circles of files, functions of a type, lines of a file, entries of a folder.
//!
//! Each is a ratchet that begins at the present state: `shape.allowed` has the numbers, with a reason for each, and a number
//! that fell is lowered. Lengths are shares of an area, not bounds of a file: at a bound, files are cut where it falls,
//! and not where an idea ends.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{self, File};
use super::graph::{self, Arrows};
use super::{modules, none, rust};

/// Files of a crate that need each other in a circle. A type and the two files of its parts are still read as one.
const CIRCLE_MAX: usize = 3;

/// The same of modules in JavaScript, which has no types in several files.
const CIRCLE_OF_MODULES_MAX: usize = 1;

/// Functions of a type that its reader keeps in mind. Those beyond count.
const FUNCTIONS: usize = 20;

/// Lines of a file that are one idea. Those beyond count.
const LINES: usize = 300;

/// Entries of a folder that a reader takes in at once. Those beyond count.
const ENTRIES: usize = 12;

/// The files that people write by hand and others must read.
const SOURCE: [&str; 8] = [".rs", ".ts", ".mjs", ".js", ".css", ".sh", ".sql", ".py"];

/// The parts of the repository whose lengths are counted apart.
const AREAS: [&str; 10] = [
    "src",
    "server/src",
    "server/tests",
    "js",
    "tests",
    "testkit",
    "www",
    "examples/servers",
    "handler",
    "conformance",
];

/// The modules in JavaScript and TypeScript that are one program or library each.
const PROGRAMS: [&str; 4] = ["js/src/", "www/src/", "handler/src/", "conformance/"];

const ALLOWED: &str = "tests/tidy/shape.allowed";

#[test]
fn files_make_no_large_circles() {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for arrows in graphs() {
        // The first circle of a folder is its largest.
        for circle in graph::circles(&arrows) {
            let folder = graph::folder_of(&circle);
            let is_script = PROGRAMS.iter().any(|program| format!("{folder}/").starts_with(program));
            let most = if is_script { CIRCLE_OF_MODULES_MAX } else { CIRCLE_MAX };
            if seen.insert(folder.clone()) {
                let told = graph::describe(&circle, &arrows);
                findings.extend(judge("circle", &folder, circle.len(), 1, most, &told));
            }
        }
    }
    let named = allowed("circle").map(|(folder, _)| folder).filter(|folder| !seen.contains(*folder));
    findings.extend(named.map(|folder| format!("{ALLOWED} allows a circle in {folder}: it has none")));
    none("let the lower file own what both need, or hand it in", findings);
}

#[test]
fn types_have_few_functions() {
    let mut shares = Shares::default();
    for root in rust::CRATES {
        for (name, count) in graph::functions(rust::of(root)) {
            shares.add(root.trim_end_matches("/lib.rs"), name, count);
        }
    }
    shares.judge("functions", FUNCTIONS);
}

#[test]
fn files_are_short() {
    let mut shares = Shares::default();
    for file in files::ending(&SOURCE) {
        let lines = file.text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        shares.add(area(&file.path), file.path.clone(), lines);
    }
    shares.judge("lines", LINES);
}

#[test]
fn folders_have_few_entries() {
    let mut entries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files::ending(&SOURCE) {
        let mut path = file.path.as_str();
        while let Some((folder, name)) = path.rsplit_once('/') {
            entries.entry(folder.to_owned()).or_default().insert(name.to_owned());
            path = folder;
        }
    }
    let mut shares = Shares::default();
    for (folder, names) in entries {
        shares.add(area(&folder), folder.clone(), names.len());
    }
    shares.judge("entries", ENTRIES);
}

/// The compiler reports a private item that nothing uses; of a public one it believes that others do.
#[test]
fn every_public_name_is_used() {
    let files = files::ending(&[".rs", ".ts", ".tsx", ".mjs", ".js", ".vue", ".svelte", ".html"]);
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &files {
        let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for word in code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')) {
            *uses.entry(word).or_default() += 1;
        }
    }
    let mut findings = Vec::new();
    for root in rust::CRATES {
        for module in rust::of(root).modules.values() {
            let unused = module.public.iter().filter(|name| uses.get(name.as_str()) == Some(&1));
            findings.extend(unused.map(|name| format!("{} {name}", module.file)));
        }
    }
    for file in files.iter().filter(|file| file.path.starts_with("js/src/")) {
        let unused = exported(file).into_iter().filter(|name| uses.get(name.as_str()) == Some(&1));
        findings.extend(unused.map(|name| format!("{} {name}", file.path)));
    }
    none("nothing uses these public names", findings);
}

#[test]
fn a_circle_through_mod_rs_is_seen() {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let crate_of = |last: &str| {
        let files = [
            file("src/lib.rs", "mod engine;\npub use engine::Engine;"),
            file(
                "src/engine/mod.rs",
                "mod begin;\nmod open;\nmod write;\n\npub use begin::Begun;\npub use open::Engine;\npub use write::*;",
            ),
            file(
                "src/engine/open.rs",
                "use super::{Writing, Begun as B};\npub struct Engine;\nfn f(_: B) {}",
            ),
            file(
                "src/engine/begin.rs",
                "pub struct Begun;\nimpl Begun {\n    fn a() -> crate::engine::Writing { f!(x) }\n}",
            ),
            file("src/engine/write.rs", last),
        ];
        graph::arrows(&rust::read(&files, "src/lib.rs"))
    };
    let arrows = crate_of("pub struct Writing;\nfn f() { let text = \"crate::Engine\"; }\n// crate::Engine");
    assert_eq!(graph::circles(&arrows), []);
    let arrows = crate_of("pub struct Writing;\nfn f() { name!(crate::Engine) }");
    let [circle] = &graph::circles(&arrows)[..] else { panic!("one circle") };
    assert_eq!((circle.len(), graph::folder_of(circle)), (3, "src/engine".to_owned()));
    let told = graph::describe(circle, &arrows);
    assert!(told.contains("src/engine/write.rs -> src/engine/open.rs: Engine"), "{told}");
    assert!(told.contains("src/engine/open.rs -> src/engine/begin.rs: Begun"), "{told}");
}

#[test]
fn the_functions_of_a_type_are_counted_over_files() {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let files = [
        file("src/lib.rs", "mod a;\nmod b;\nstruct Set;"),
        file(
            "src/a.rs",
            "pub struct Set<T>(T);\nimpl<T: Fn() -> u8> Set<T> {\n    /// fn example()\n    pub fn a(&self) {}\n    fn b() {}\n}\nimpl Clone for Set<u8> {\n    fn clone() {}\n}\n#[cfg(test)]\nmod tests {\n    impl Set { fn c() {} }\n}",
        ),
        file(
            "src/b.rs",
            "use super::a::Set;\nimpl Set<u8> { pub const fn d() {} }\nfn e(set: &'a mut Set<u8>, n: u8) {}\nfn f(n: u8, set: &mut Set<u8>) {}\nfn g(set: &Set<u8>) {}",
        ),
    ];
    let found = graph::functions(&rust::read(&files, "src/lib.rs"));
    assert_eq!(found, BTreeMap::from([("src/a.rs::Set".to_owned(), 4)]));
}

/// The arrows of each crate and of each program in JavaScript or TypeScript, between sources of the product.
fn graphs() -> Vec<Arrows> {
    let files = files::ending(&[".ts", ".mjs"]);
    let mut graphs: Vec<Arrows> = rust::CRATES.iter().map(|root| graph::arrows(rust::of(root))).collect();
    let is_of_program = |file: &&File| PROGRAMS.iter().any(|program| file.path.starts_with(program));
    let scripts: Vec<&File> = files.iter().filter(is_of_program).collect();
    let mut arrows = Arrows::new();
    for file in &scripts {
        for (place, name) in modules::imports(file) {
            let targets = modules::targets(file.folder(), &name);
            if let Some(to) = scripts.iter().find(|to| targets.contains(&to.path) && to.path != file.path) {
                let line = format!("line {}", place.rsplit(':').next().unwrap_or_default());
                arrows.entry((file.path.clone(), to.path.clone())).or_default().insert(line);
            }
        }
    }
    graphs.push(arrows);
    graphs
}

/// The names that a TypeScript file exports by a declaration.
fn exported(file: &File) -> Vec<String> {
    let name = |line: &str| {
        let mut words =
            line.strip_prefix("export ")?.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
        let kinds = ["const", "let", "function", "class", "interface", "type", "enum"];
        words.find(|word| kinds.contains(word))?;
        words.find(|word| !word.is_empty()).map(str::to_owned)
    };
    file.text
        .lines()
        .filter(|line| !line.contains('{') || !line.starts_with("export {"))
        .filter_map(name)
        .collect()
}

/// The part of the repository that a file or folder is counted in.
fn area(path: &str) -> &'static str {
    AREAS.into_iter().find(|area| path == *area || path.starts_with(&format!("{area}/"))).unwrap_or("others")
}

/// Numbers of things, by area.
#[derive(Default)]
struct Shares(BTreeMap<String, Vec<(String, usize)>>);

impl Shares {
    fn add(&mut self, area: &str, name: String, number: usize) {
        self.0.entry(area.to_owned()).or_default().push((name, number));
    }

    /// Compares, area by area, the share beyond `most` of a thing with the allowed share, in percent.
    fn judge(self, kind: &str, most: usize) {
        let mut findings = Vec::new();
        for (area, mut things) in self.0 {
            let beyond = |number: usize| number.saturating_sub(most);
            let all: usize = things.iter().map(|(_, number)| number).sum();
            let share = things.iter().map(|(_, number)| beyond(*number)).sum::<usize>() * 100;
            things.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
            let largest = things.iter().take_while(|(_, number)| beyond(*number) > 0).take(12);
            let largest: Vec<_> = largest.map(|(name, number)| format!("{number} {kind} {name}")).collect();
            let largest = largest.join("\n      ");
            let told =
                format!("of its {all} {kind} are beyond the {most}th of their place:\n      {largest}");
            findings.extend(judge(kind, &area, share.div_ceil(all.max(1)), 2, 0, &told));
        }
        none("divide one of these where an idea ends, or lower the number that is allowed", findings);
    }
}

/// A finding if the number is above the allowed one, or so far below it that this one must fall.
fn judge(kind: &str, place: &str, number: usize, slack: usize, most: usize, told: &str) -> Option<String> {
    match allowed(kind).find(|(one, _)| *one == place) {
        Some((_, allowed)) if number + slack <= allowed => {
            Some(format!("{ALLOWED} allows {kind} {place} {allowed}: it has {number}"))
        }
        Some((_, allowed)) if number <= allowed => None,
        None if number <= most => None,
        _ => Some(format!("{kind} {place} {number} {told}")),
    }
}

/// The exceptions of a kind: place and number.
fn allowed(kind: &str) -> impl Iterator<Item = (&'static str, usize)> {
    let lines = include_str!("shape.allowed").lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<(&str, &str, usize)> = lines
        .map(|line| {
            let (line, reason) = line.split_once(": ").unwrap_or((line, ""));
            assert!(!reason.is_empty(), "{ALLOWED}: {line} has no reason");
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, place, number] = words[..] else { panic!("{ALLOWED}: {line}") };
            (kind, place, number.parse().expect("a number"))
        })
        .collect();
    let of_kind =
        lines.into_iter().filter(move |(one, ..)| *one == kind).map(|(_, place, number)| (place, number));
    of_kind.collect::<Vec<_>>().into_iter()
}
