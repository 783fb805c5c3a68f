//! Hostile bytes: every decoder takes any input without a panic, without hanging, and at a proportional cost.
//!
//! The fuzz targets (`make fuzz`) use the same doors. Here the corpus is played again, unchanged and altered.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic)] // a test may need many lines

mod mutate;
mod plant;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use escale::crypto::SeededRandom;
use escale_testkit::hostile::cost;
use escale_testkit::hostile::doors::{DOORS, Door};
use escale_testkit::seeds;

use mutate::{below, mutate};

#[global_allocator]
static ALLOCATOR: cost::Counting = cost::Counting;

/// Prints the input if a door panics.
struct Knocking<'b>(&'b Door, &'b [u8]);

impl Drop for Knocking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.1.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("the door {} fell to these {} bytes: {hex}", self.0.name, self.1.len());
        }
    }
}

fn knock(door: &Door, bytes: &[u8]) -> bool {
    let _knocking = Knocking(door, bytes);
    cost::knock(door, bytes)
}

/// The contents of a door's corpus. Its seeds are planted first, if that is requested.
fn corpus(door: &Door) -> Vec<(String, Vec<u8>)> {
    static PLANTED: std::sync::Once = std::sync::Once::new();
    PLANTED.call_once(|| {
        if std::env::var_os("ESCALE_PLANT").is_some() {
            plant::plant();
        }
    });
    plant::corpus(door.name)
}

#[test]
fn each_door_has_a_target_and_a_corpus() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let names = |folder: &str| -> BTreeSet<String> {
        let files =
            fs::read_dir(root.join(folder)).expect("a folder").map(|file| file.expect("a file").path());
        files.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
    };
    let doors: BTreeSet<String> = DOORS.iter().map(|door| door.name.to_owned()).collect();
    assert_eq!(names("targets"), doors);
    assert_eq!(names("corpus"), doors);
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    for door in doors {
        assert!(manifest.contains(&format!("path = \"targets/{door}.rs\"")), "fuzz/Cargo.toml has no {door}");
    }
}

#[test]
fn each_decoder_stands_what_lies_in_its_corpus() {
    for door in DOORS {
        let corpus = corpus(&door);
        let (mut seeds, mut read) = (0, 0);
        for (name, bytes) in &corpus {
            let is_read = knock(&door, bytes);
            seeds += usize::from(name.starts_with("seed-"));
            read += usize::from(name.starts_with("seed-") && is_read);
        }
        // Seeds that were once valid stay readable for ever.
        assert!(seeds >= 3 && read == seeds, "{read} of {seeds} seeds of {} are read", door.name);
    }
}

#[test]
fn each_decoder_stands_altered_bytes() {
    let (seed, cases) = (seeds::given().unwrap_or(1), seeds::cases(3_000));
    eprintln!("ESCALE_SEED={seed}");
    for door in DOORS {
        let corpus = corpus(&door);
        let mut random = SeededRandom::new(seed);
        let mut read = 0;
        for _ in 0..cases {
            let [(_, one), (_, other)] = [(); 2].map(|()| &corpus[below(&mut random, corpus.len())]);
            let mut bytes = one.clone();
            mutate(&mut bytes, other, &mut random);
            read += u32::from(knock(&door, &bytes));
        }
        // Input altered beyond recognition tests little: some of it must still look valid.
        let is_enough = cases < 1_000 || door.name == "sealed";
        assert!(read > 0 || is_enough, "nothing that was altered is read as {}", door.name);
    }
}
