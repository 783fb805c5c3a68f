//! The files of the repository that people write.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders that contain everything except the root's files.
const FOLDERS: [&str; 19] = [
    "src",
    "cipher",
    "js",
    "server",
    "sim",
    "testkit",
    "bench",
    "fuzz",
    "mutants",
    "www",
    "tests",
    "scripts",
    "docs",
    "conformance",
    "create",
    "handler",
    "examples",
    "site",
    ".ci",
];

/// Folders made by tools, at any depth.
const GENERATED: [&str; 7] = ["node_modules", "dist", "target", "corpus", "artifacts", "pages", "cache"];

/// A file as text, by its path from the root.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// Whether its name has one of these endings.
    pub fn is(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    /// Its lines with their numbers, counted from 1, each as `path:line`.
    pub fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (format!("{}:{}", self.path, i + 1), line))
    }

    /// Its folder, from the root; empty for a file of the root.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Whether there is such a file or folder.
pub fn exists(path: &str) -> bool {
    root().join(path).exists()
}

/// A file that must be there.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every text file under those folders, and the documents of the root.
pub fn all() -> Vec<File> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        walk(&root().join(folder), &mut paths);
    }
    let of_root = fs::read_dir(root()).expect("the root").flatten().map(|entry| entry.path());
    let wanted = |path: &PathBuf| path.extension().is_some_and(|e| e == "md" || e == "toml" || e == "js");
    paths.extend(of_root.filter(|path| path.is_file() && wanted(path)));
    paths.push(root().join("Makefile"));
    paths.sort();
    let file = |path: PathBuf| {
        // A file that is not UTF-8 is an image, or data.
        let text = fs::read_to_string(&path).ok()?;
        let path = path.strip_prefix(root()).ok()?.to_str()?.replace('\\', "/");
        Some(File { path, text })
    };
    paths.into_iter().filter_map(file).collect()
}

/// Every file whose name has one of these endings.
pub fn ending(endings: &[&str]) -> Vec<File> {
    all().into_iter().filter(|file| file.is(endings)).collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if GENERATED.iter().any(|generated| name == *generated) {
            continue;
        }
        if path.is_dir() {
            walk(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

/// A path relative to a folder, as a path from the root.
pub fn resolve(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
