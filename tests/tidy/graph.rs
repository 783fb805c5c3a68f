//! Arrows between files: which file needs which, by which name. A name that passes through `pub use` leads to the file
//! that defines it. The call of a method is no arrow, because its type is known to the compiler alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::rust::{Crate, Module, Path};

/// A file needs another one, by these names.
pub type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// The end of a path.
enum Found {
    Item(Path, String),
    Module(Path),
}

/// The arrows between the files of a crate.
pub fn arrows(all: &Crate) -> Arrows {
    let mut arrows = Arrows::new();
    for (at, module) in &all.modules {
        let imports = module.imports.iter().filter(|import| !import.is_passed_on).map(|import| &import.path);
        for path in imports.chain(&module.named) {
            let Some(Found::Item(home, name)) = all.find(at, path, &mut BTreeSet::new()) else { continue };
            let to = &all.modules[&home].file;
            if *to != module.file {
                arrows.entry((module.file.clone(), to.clone())).or_default().insert(name);
            }
        }
    }
    arrows
}

/// The number of functions of each type, by the file and the name of the type.
pub fn functions(all: &Crate) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (at, module) in &all.modules {
        for function in &module.functions {
            if let Some(Found::Item(home, name)) = all.find(at, &function.of, &mut BTreeSet::new()) {
                *found.entry(format!("{}::{name}", all.modules[&home].file)).or_default() += 1;
            }
        }
    }
    found
}

impl Crate {
    /// Follows a path from a module, through the names that others pass on. None if it leads out of the crate.
    fn find(&self, at: &Path, path: &[String], seen: &mut BTreeSet<(Path, Path)>) -> Option<Found> {
        if !seen.insert((at.clone(), path.to_vec())) {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut here = match first.as_str() {
            "crate" => Vec::new(),
            "self" => at.clone(),
            "super" => at.split_last()?.1.to_vec(),
            name => match self.look(at, name, seen)? {
                Found::Module(module) => module,
                item @ Found::Item(..) => return Some(item),
            },
        };
        while let Some((name, after)) = rest.split_first() {
            here = match name.as_str() {
                "super" => here.split_last()?.1.to_vec(),
                name => match self.look(&here, name, seen) {
                    Some(Found::Module(module)) => module,
                    Some(item) => return Some(item),
                    // A macro of that module defines it.
                    None => return Some(Found::Item(here, name.to_owned())),
                },
            };
            rest = after;
        }
        Some(Found::Module(here))
    }

    /// The meaning of a name in a module.
    fn look(&self, at: &Path, name: &str, seen: &mut BTreeSet<(Path, Path)>) -> Option<Found> {
        let module: &Module = self.modules.get(at)?;
        if module.items.contains(name) {
            return Some(Found::Item(at.clone(), name.to_owned()));
        }
        let child = [at.as_slice(), &[name.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            return Some(Found::Module(child));
        }
        let named = module.imports.iter().filter(|import| import.name.as_deref() == Some(name));
        for import in named {
            // A crate's name may be that of the import: `use decimal;` in the root.
            if let Some(found) = self.find(at, &import.path, seen) {
                return Some(found);
            }
        }
        for import in module.imports.iter().filter(|import| import.name.is_none()) {
            if let Some(Found::Module(from)) = self.find(at, &import.path, seen)
                && let Some(found) = self.look(&from, name, seen)
            {
                return Some(found);
            }
        }
        None
    }
}

/// The sets of at least two files of which each needs all others, the largest first.
pub fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for from in next.keys() {
        let (mut seen, mut left) = (BTreeSet::new(), vec![*from]);
        while let Some(file) = left.pop() {
            let to = next.get(file).into_iter().flatten().copied();
            left.extend(to.filter(|to| seen.insert(*to)));
        }
        reached.insert(from, seen);
    }
    let circle = |file: &&str| {
        let back = |to: &&&str| reached.get(**to).is_some_and(|from| from.contains(file));
        reached[file].iter().filter(back).map(|file| (*file).to_owned()).collect::<BTreeSet<String>>()
    };
    let circles: BTreeSet<BTreeSet<String>> =
        reached.keys().map(circle).filter(|all| all.len() > 1).collect();
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// A circle in words: its shortest ring, and the arrows that are left, those of the fewest names first.
pub fn describe(circle: &BTreeSet<String>, arrows: &Arrows) -> String {
    let line = |(from, to): &(String, String)| {
        let names: Vec<&str> = arrows[&(from.clone(), to.clone())].iter().map(String::as_str).collect();
        format!("\n      {from} -> {to}: {}", names.join(", "))
    };
    let within: BTreeSet<(String, String)> =
        arrows.keys().filter(|(from, to)| circle.contains(from) && circle.contains(to)).cloned().collect();
    let ring = circle.iter().filter_map(|file| ring(file, &within)).min_by_key(Vec::len).unwrap_or_default();
    let mut others: Vec<_> = within.iter().filter(|arrow| !ring.contains(arrow)).collect();
    others.sort_by_key(|arrow| arrows[*arrow].len());
    let ring: String = ring.iter().map(line).collect();
    let others: String = others.into_iter().map(line).collect();
    let others = if others.is_empty() { others } else { format!("\n    and in the same circle:{others}") };
    format!("{} files; this ring is the shortest:{ring}{others}", circle.len())
}

/// The shortest way from a file back to it.
fn ring(file: &str, arrows: &BTreeSet<(String, String)>) -> Option<Vec<(String, String)>> {
    let mut from: BTreeMap<&str, &(String, String)> = BTreeMap::new();
    let mut left = VecDeque::from([file]);
    while let Some(here) = left.pop_front() {
        for arrow in arrows.iter().filter(|(from, _)| from == here) {
            if !from.contains_key(arrow.1.as_str()) {
                from.insert(&arrow.1, arrow);
                left.push_back(&arrow.1);
            }
        }
        if let Some(last) = from.get(file) {
            let mut ring = vec![(*last).clone()];
            while ring[0].0 != file {
                ring.insert(0, (*from[ring[0].0.as_str()]).clone());
            }
            return Some(ring);
        }
    }
    None
}

/// The folder that holds all of these files.
pub fn folder_of(files: &BTreeSet<String>) -> String {
    let mut files = files.iter().map(|file| file.rsplit_once('/').map_or("", |(folder, _)| folder));
    let first: Vec<&str> = files.next().unwrap_or_default().split('/').collect();
    let common = files.fold(first.len(), |common, folder| {
        let same = folder.split('/').zip(&first).take_while(|(a, b)| a == *b).count();
        common.min(same)
    });
    first[..common].join("/")
}
