//! The direction of dependencies. ARCHITECTURE.md draws the same picture.

use super::files::{self, File};
use super::{graph, none, rust};

/// Each layer of the core, with the layers that it may use in addition to itself. It may not use any other.
/// Nothing uses `web`.
const CORE: [(&str, &[&str]); 12] = [
    ("error", &[]),
    // In a browser its place is taken by a module of `web`: src/lib.rs.
    ("decimal", &[]),
    ("limits", &[]),
    ("model", &["error", "limits"]),
    ("codec", &["error", "decimal", "limits", "model"]),
    ("crypto", &["error", "limits", "model", "codec"]),
    ("store", &["error", "model", "crypto"]),
    ("memory", &["error", "limits", "model", "codec"]),
    ("journal", &["error", "limits", "model", "codec", "crypto", "memory"]),
    ("storage", &["error", "limits", "model", "codec", "crypto", "memory", "journal", "store"]),
    ("sync", &["error", "limits", "model", "codec", "crypto", "memory", "journal", "store", "storage"]),
    (
        "web",
        &["error", "limits", "model", "codec", "crypto", "memory", "journal", "store", "storage", "sync"],
    ),
];

/// The same for the server.
const SERVER: [(&str, &[&str]); 20] = [
    ("lock", &[]),
    ("clock", &[]),
    ("figures", &[]),
    ("file_stamp", &[]),
    ("files", &[]),
    ("settings", &[]),
    ("spans", &[]),
    ("mark", &[]),
    ("provider", &["lock"]),
    ("rights", &[]),
    ("values", &[]),
    ("seal", &["provider"]),
    (
        "engine",
        &[
            "lock", "clock", "figures", "files", "settings", "spans", "mark", "provider", "rights", "seal",
            "values",
        ],
    ),
    ("accounts", &["lock", "engine"]),
    ("database", &["files", "mark", "provider", "engine"]),
    ("import", &["engine"]),
    ("sweep", &["engine", "provider"]),
    ("backup", &["engine", "provider"]),
    ("http", &["lock", "accounts", "figures", "file_stamp", "spans", "engine", "provider"]),
    (
        "cli",
        &[
            "accounts", "backup", "clock", "settings", "seal", "database", "engine", "files", "import",
            "http", "rights", "spans", "sweep", "values",
        ],
    ),
];

/// The parts of the server's engine. No part names the facade.
const ENGINE: [(&str, &[&str]); 11] = [
    ("caller", &[]),
    ("records", &["caller"]),
    ("instance", &["caller", "records"]),
    ("tx", &["caller", "records", "instance"]),
    ("rights", &["caller", "records", "instance", "tx"]),
    ("effects", &["caller", "records", "instance", "tx", "rights"]),
    ("operations", &["caller", "records", "instance", "tx", "rights", "effects"]),
    ("pull", &["caller", "records", "instance", "tx", "rights"]),
    ("files", &["caller", "records", "instance", "tx", "rights"]),
    ("maintenance", &["records", "instance", "tx", "effects", "files"]),
    ("facade", &["caller", "instance", "tx", "effects", "operations", "pull", "files", "maintenance"]),
];

/// The parts of the core that the server may use: no keys, no session, nothing of the device; of the journal,
/// its sweeper's planner.
const SHARED_WITH_SERVER: [&str; 4] = ["codec", "journal", "limits", "model"];

/// Crates that only the browser's side may use.
const OF_BROWSERS: [&str; 4] = ["js_sys", "web_sys", "wasm_bindgen", "gloo_net"];

/// The code that takes bytes for a sealed record, and the files of devices, which alone may.
const READS_BACK: &str = "Sealed::from_backup";
const DEVICES: [&str; 2] = ["src/store/memory.rs", "src/web/idb/store.rs"];

/// Clocks: the core is given the time.
const CLOCKS: [&str; 3] = ["std::time", "SystemTime", "Instant::now"];

const ONE_WAY: &str = "dependencies point one way; see ARCHITECTURE.md";

#[test]
fn the_core_depends_downwards() {
    none(ONE_WAY, upwards("src/lib.rs", "src", &CORE));
}

#[test]
fn the_server_depends_downwards() {
    none(ONE_WAY, upwards("server/src/lib.rs", "server/src", &SERVER));
}

#[test]
fn the_engine_depends_downwards() {
    none(ONE_WAY, upwards("server/src/lib.rs", "server/src/engine", &ENGINE));
}

#[test]
fn the_server_shares_types_with_the_core_and_nothing_else() {
    let mut findings = Vec::new();
    // A test of a server may have sessions of its own.
    let is_server = |file: &&File| file.path.starts_with("server/src/") && !file.path.contains("/tests/");
    for file in files::ending(&[".rs"]).iter().filter(is_server) {
        for (place, name) in named_after("escale::", file) {
            let is_module = name.starts_with(|c: char| c.is_ascii_lowercase());
            if is_module && !SHARED_WITH_SERVER.contains(&name.as_str()) {
                findings.push(format!("{place} escale::{name}"));
            }
        }
    }
    none("the server cannot open what a device seals, and needs nothing of it", findings);
}

#[test]
fn the_core_has_no_browser_and_no_clock_in_it() {
    let mut findings = Vec::new();
    for file in files::ending(&[".rs"]).iter().filter(|file| is_core(file)) {
        for (place, line) in file.lines().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let banned = OF_BROWSERS.iter().chain(&CLOCKS).filter(|word| line.contains(**word));
            findings.extend(banned.map(|word| format!("{place} {word}")));
            let is_the_door = file.path == "src/lib.rs";
            if line.contains("target_family") && !is_the_door {
                findings.push(format!("{place} a platform is told apart in src/lib.rs alone"));
            }
        }
    }
    none("only src/web knows a platform; time and randomness come in as arguments", findings);
}

/// A batch takes nothing but sealed records. A device reads some back from its backup, as bytes.
#[test]
fn only_devices_take_bytes_for_sealed_records() {
    let mut readers = Vec::new();
    for file in files::ending(&[".rs"]).iter().filter(|file| file.path != "tests/tidy/layers.rs") {
        let read = file.lines().filter(|(_, line)| line.contains(READS_BACK));
        readers.extend(read.map(|_| file.path.clone()));
    }
    assert_eq!(readers, DEVICES, "seal it, or read it from `Store::copies`");
}

#[test]
fn applications_use_the_package_alone() {
    let mut findings = Vec::new();
    for file in files::ending(&[".ts"]).iter().filter(|file| file.path.starts_with("www/")) {
        for (place, name) in super::modules::imports(file) {
            if name.contains("/js/") || name.contains("/pkg/") {
                findings.push(format!("{place} {name}"));
            }
        }
    }
    none("the demonstration imports \"escale\", as any application does", findings);
}

fn is_core(file: &File) -> bool {
    file.path.starts_with("src/") && !file.path.starts_with("src/web/")
}

/// Arrows from a layer of a folder to one that it may not use, and files of no layer. Arrows out of the folder are those of
/// other checks.
fn upwards(root: &str, folder: &str, layers: &[(&str, &[&str])]) -> Vec<String> {
    let all = rust::of(root);
    let layer = |path: &str| {
        let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
        let layer = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
        (!["lib", "mod"].contains(&layer)).then(|| layer.to_owned())
    };
    let allowed = |name: &str| layers.iter().find(|(layer, _)| *layer == name).map(|(_, allowed)| *allowed);
    let mut findings = Vec::new();
    for module in all.modules.values() {
        if layer(&module.file).is_some_and(|layer| allowed(&layer).is_none()) {
            findings.push(format!("{} belongs to no layer", module.file));
        }
    }
    for ((from, to), names) in graph::arrows(all) {
        let (Some(above), Some(below)) = (layer(&from), layer(&to)) else { continue };
        if above != below && !allowed(&above).is_some_and(|all| all.contains(&below.as_str())) {
            let names: Vec<String> = names.into_iter().collect();
            findings.push(format!("{from} uses {} of {to}: {above} may not use {below}", names.join(", ")));
        }
    }
    findings
}

/// The name after each `prefix`, or each of the names in braces.
fn named_after(prefix: &str, file: &File) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (place, line) in file.lines().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        for (at, _) in line.match_indices(prefix) {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if line[..at].ends_with(is_word) {
                continue;
            }
            let rest = &line[at + prefix.len()..];
            let names: Vec<&str> = match rest.strip_prefix('{') {
                // One line is enough: rustfmt breaks longer lists, and the check of `{` below reports them.
                Some(list) => list.split(',').map(str::trim).collect(),
                None => vec![rest],
            };
            for name in names {
                let name: String = name.chars().take_while(|c| is_word(*c)).collect();
                if name.is_empty() && rest.starts_with('{') {
                    found.push((place.clone(), "a list over several lines: write one `use` each".into()));
                } else if !name.is_empty() {
                    found.push((place.clone(), name));
                }
            }
        }
    }
    found
}
