//! The shape of the sources: the methods of a type over all its files, the entries of a folder, and circles of files
//! within a folder. It is a ratchet. `shape.allowed` has the exceptions with their numbers, and a number that fell is
//! lowered.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{self, File};
use super::none;

/// Methods of a type. A larger type holds several ideas, although its files are short.
const METHODS_MAX: usize = 45;

/// Files and folders in a folder.
const ENTRIES_MAX: usize = 20;

/// Files of one folder that need each other in a circle.
const CIRCLE_MAX: usize = 3;

const ALLOWED: &str = "tests/tidy/shape.allowed";

#[test]
fn types_have_few_methods() {
    let mut methods: BTreeMap<(String, String), usize> = BTreeMap::new();
    for file in sources() {
        for (name, count) in inherent_methods(&file.text) {
            *methods.entry((top(&file.path), name)).or_default() += count;
        }
    }
    let found = methods.into_iter().map(|((top, name), count)| (format!("{top}::{name}"), count));
    judge("methods", METHODS_MAX, found.collect());
}

#[test]
fn folders_have_few_entries() {
    let mut entries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files::ending(&[".rs", ".ts", ".mjs", ".js", ".sh"]) {
        let mut path = file.path.as_str();
        while let Some((folder, name)) = path.rsplit_once('/') {
            entries.entry(folder.to_owned()).or_default().insert(name.to_owned());
            path = folder;
        }
    }
    judge("entries", ENTRIES_MAX, entries.into_iter().map(|(folder, names)| (folder, names.len())).collect());
}

#[test]
fn files_of_a_folder_make_no_large_circles() {
    let mut folders: BTreeMap<String, Vec<&File>> = BTreeMap::new();
    let sources = sources();
    for file in &sources {
        folders.entry(file.folder().to_owned()).or_default().push(file);
    }
    let found = folders.into_iter().map(|(folder, files)| (folder, largest_circle(&files)));
    judge("circle", CIRCLE_MAX, found.collect());
}

#[test]
fn shapes_are_seen() {
    let text = "impl<T> Set<T> {\n    /// fn example()\n    pub fn a(&self) {}\n    fn b() {}\n}\nimpl Clone for Set {\n    fn clone() {}\n}\n";
    assert_eq!(inherent_methods(text), [("Set".to_owned(), 2)]);
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let (a, b) = (file("src/x/a.rs", "use super::b::B;"), file("src/x/b.rs", "use super::c::C;"));
    let (c, d) = (file("src/x/c.rs", "use crate::x::a::A;"), file("src/x/d.rs", "use super::a::A;"));
    assert_eq!(largest_circle(&[&a, &b, &c, &d]), 3);
    assert_eq!(largest_circle(&[&a, &b, &d]), 1);
}

/// The sources of the product in Rust, without tests.
fn sources() -> Vec<File> {
    let is_source = |file: &File| {
        let is_product = file.path.starts_with("src/") || file.path.starts_with("server/src/");
        is_product && !file.path.contains("tests") && !file.path.ends_with("conformance.rs")
    };
    files::ending(&[".rs"]).into_iter().filter(is_source).collect()
}

/// The folder below the root of the crate: types of the same name in two of them are two types.
fn top(path: &str) -> String {
    let depth = if path.starts_with("server/") { 3 } else { 2 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

/// The methods of each type in a text, those of traits not counted.
fn inherent_methods(text: &str) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("impl").filter(|_| line.ends_with('{')) {
            is_inside = !head.contains(" for ");
            if is_inside {
                found.push((type_of(head), 0));
            }
        } else if line == "}" {
            is_inside = false;
        } else if is_inside && line.starts_with("    ") && !line.starts_with("     ") {
            // The examples of a method's documentation are no methods.
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_method = !line.starts_with("    //") && words.iter().take(4).any(|word| *word == "fn");
            if let Some((_, count)) = found.last_mut().filter(|_| is_method) {
                *count += 1;
            }
        }
    }
    found
}

/// The name of the type that `impl` is followed by, without its parameters.
fn type_of(head: &str) -> String {
    let mut rest = head.trim();
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        });
        rest = rest[end.map_or(0, |end| end + 1)..].trim();
    }
    rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The size of the largest set of files of which each needs all others.
fn largest_circle(files: &[&File]) -> usize {
    let stem =
        |file: &File| file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let stems: Vec<String> = files.iter().map(|file| stem(file)).collect();
    let needs = |from: &File, to: &str| {
        let folder = from.folder().rsplit('/').next().unwrap_or_default().to_owned();
        let [near, far] = [format!("super::{to}::"), format!("::{folder}::{to}::")];
        let code = from.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let mut code = code.take_while(|line| *line != "#[cfg(test)]");
        code.any(|line| line.contains(&near) || line.contains(&far))
    };
    let edges: Vec<Vec<usize>> = files
        .iter()
        .map(|from| {
            (0..files.len()).filter(|to| stem(from) != stems[*to] && needs(from, &stems[*to])).collect()
        })
        .collect();
    let reached = |from: usize| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(edges[file].iter().copied().filter(|to| seen.insert(*to)));
        }
        seen
    };
    let reached: Vec<BTreeSet<usize>> = (0..files.len()).map(reached).collect();
    let is_in_circle = |from: usize, to: usize| reached[from].contains(&to) && reached[to].contains(&from);
    let circle = |from: usize| (0..files.len()).filter(|to| is_in_circle(from, *to)).count();
    (0..files.len()).map(|from| circle(from).max(1)).max().unwrap_or(0)
}

/// Compares numbers with the bound, and those of the exceptions with theirs.
fn judge(kind: &str, most: usize, found: Vec<(String, usize)>) {
    let allowed = |name: &str| {
        let lines = include_str!("shape.allowed")
            .lines()
            .filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
        lines
            .filter_map(|line| line.rsplit_once(' '))
            .find(|(one, _)| *one == name)
            .map(|(_, number)| number.parse::<usize>().expect("a number"))
    };
    let finding = |(name, number): (String, usize)| match allowed(&name) {
        Some(allowed) if number < allowed => {
            Some(format!("{ALLOWED} allows {name} {allowed} {kind}: it has {number}"))
        }
        allowed => (number > allowed.unwrap_or(most)).then(|| format!("{kind} {name} {number}")),
    };
    none("divide it, or lower the exception", found.into_iter().filter_map(finding).collect());
}
