//! The suite that every store of objects must pass. It panics at the first broken promise, and names it.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::sha_s;

use super::Files;

/// Runs the suite on an empty store. Each call of `open` opens one more instance on it. `random` gives numbers below its
/// argument: the history of the suite is another one each time.
pub fn all(open: &dyn Fn() -> Box<dyn Files>, random: &mut dyn FnMut(u64) -> u64) {
    absent_objects_are_no_errors(open().as_ref());
    a_history_equals_a_map(open, random);
}

fn absent_objects_are_no_errors(files: &dyn Files) {
    assert_eq!(files.get("nobody", "aab").expect("get"), None);
    files.delete("nobody", "aab").expect("deleting what is not there");
    assert_eq!(files.list("nobody", "", 9).expect("list"), [""; 0]);
    assert_eq!(files.orgs().expect("orgs"), [""; 0]);
}

/// Names that share their first letters, and differ in all ways that names do.
const NAMES: [&str; 9] = ["aa0", "aaB.1", "aab", "aab.0f", "aB-", "Zz_", "-_.9", "__.", "zzz"];
const ORGS: [&str; 3] = ["o", "O", "o:1"];

fn a_history_equals_a_map(open: &dyn Fn() -> Box<dyn Files>, random: &mut dyn FnMut(u64) -> u64) {
    let mut files = open();
    let mut expected: BTreeMap<(&str, &str), Vec<u8>> = BTreeMap::new();
    for _ in 0..300 {
        let org = ORGS[random(ORGS.len() as u64) as usize];
        let name = NAMES[random(NAMES.len() as u64) as usize];
        match random(10) {
            0..4 => {
                let bytes = vec![random(256) as u8; random(3_000) as usize];
                files.put(org, name, &bytes).expect("put");
                expected.insert((org, name), bytes);
            }
            4..6 => {
                files.delete(org, name).expect("delete");
                expected.remove(&(org, name));
            }
            6 if random(2) == 0 => {
                let orgs: BTreeSet<String> = expected.keys().map(|(org, _)| sha_s(org)).collect();
                assert!(files.orgs().expect("orgs").into_iter().eq(orgs), "those that have objects");
            }
            6 => files = open(),
            7 => {
                let after = if random(3) == 0 { "" } else { name };
                let limit = 1 + random(9) as usize;
                let own = expected.keys().filter(|(of, name)| *of == org && *name > after);
                let own: Vec<&str> = own.map(|(_, name)| *name).take(limit).collect();
                assert_eq!(files.list(org, after, limit).expect("list"), own, "after {after:?}, {limit}");
            }
            _ => {
                let stored = files.get(org, name).expect("get");
                assert_eq!(stored.as_ref(), expected.get(&(org, name)), "{org} {name}");
            }
        }
    }
}
