//! The codes of TypeScript equal those of the core: `js/src/base/error-codes.ts` is read as text, and each name,
//! kind and cure in it is compared with the table of `src/error.rs`.

#![cfg(not(target_family = "wasm"))] // needs a machine

use std::collections::BTreeSet;

use escale::{Code, Kind};

const SOURCE: &str = include_str!("../js/src/base/error-codes.ts");

fn between<'a>(start: &str, end: &str) -> &'a str {
    let (_, rest) = SOURCE.split_once(start).expect("the part begins");
    rest.split_once(end).expect("the part ends").0
}

#[test]
fn typescript_names_every_code_and_no_other() {
    let declared: BTreeSet<&str> =
        between("export type ErrorCode =", ";").split('"').skip(1).step_by(2).collect();
    let expected: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(declared, expected);
}

/// The wasm leaves out the cures of exactly those codes that the main entry has.
#[test]
fn the_codes_that_typescript_raises_are_marked_in_the_table() {
    let table = include_str!("../src/error.rs").lines().filter(|line| line.contains(" page \""));
    let marked: BTreeSet<&str> = table.filter_map(|line| line.split('"').nth(1)).collect();
    let here = between("export const RAISED_HERE = {\n", "} as const").lines();
    let raised: BTreeSet<&str> = here.filter_map(|line| Some(line.trim().split_once(':')?.0)).collect();
    assert_eq!(marked, raised);
}

/// The tables that other entries have: the part that they share, and their own. Also the codes whose cure is their own: with
/// accounts nothing is tried again by itself before a session is open, and the account outlives each of its devices.
const ENTRIES: [(&str, &str, &[&str]); 3] = [
    ("COMMON", include_str!("../js/src/base/faults.ts"), &[]),
    ("FAULTS", include_str!("../js/src/accounts/faults.ts"), &["offline", "wrong_passphrase"]),
    ("FAULTS", include_str!("../js/src/files/faults.ts"), &[]),
];

#[test]
fn the_codes_that_typescript_raises_have_the_kind_and_the_cure_of_the_table() {
    check(between("export const RAISED_HERE = {\n", "} as const"), &[Kind::X], &[]);
    for (name, entry, cured) in ENTRIES {
        let (_, rest) =
            entry.split_once(&format!("const {name} = {{\n")).expect("the table of the entry begins");
        let (table, _) = rest.split_once("} as const").expect("it ends");
        let (first, own) = table.split_once('\n').expect("a line");
        assert!(["  ...RAISED_HERE,", "  ...COMMON,"].contains(&first), "{first}");
        check(own, &[Kind::C, Kind::O, Kind::X], cured);
    }
}

/// `retryable` are the kinds that the function of the table calls so, and `cured` the codes with a cure of their own.
fn check(table: &str, retryable: &[Kind], cured: &[&str]) {
    assert!(!table.is_empty());
    let mut own = 0;
    for line in table.lines().filter(|line| !line.trim().starts_with("//")) {
        let (name, _) = line.trim().split_once(':').expect("a line is `name: ..`");
        let code = Code::parse(name).expect("the code exists");
        let expected = format!("{name}: [\"{:?}\", \"{}\"],", code.kind(), code.cure());
        if cured.contains(&name) {
            let kind = format!("{name}: [\"{:?}\", \"", code.kind());
            assert!(line.trim().starts_with(&kind) && line.trim() != expected, "{line}");
            own += 1;
        } else {
            assert_eq!(line.trim(), expected);
        }
        assert!(!code.is_retryable() || retryable.contains(&code.kind()), "{name} is retryable");
    }
    assert_eq!(own, cured.len(), "each code with a cure of its own is in the table");
}
