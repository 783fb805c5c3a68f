//! Runs the conformance suite of stores of objects, in a folder and in memory.

use escale_server::files::{Files, FolderFiles, MemoryFiles, conformance};

use crate::support::chance::Chance;

#[test]
fn a_folder_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let mut chance = Chance::new();
    let open = || Box::new(FolderFiles::open(&folder.path().join("files")).unwrap()) as Box<dyn Files>;
    conformance::all(&open, &mut |below| chance.below(below));
}

#[test]
fn memory_conforms() {
    let files = MemoryFiles::default();
    let mut chance = Chance::new();
    let open = || Box::new(files.clone()) as Box<dyn Files>;
    conformance::all(&open, &mut |below| chance.below(below));
}

/// In memory, and in the bucket that `ESCALE_BUCKET` names, if it is set (`make bucket`).
#[cfg(feature = "object-store")]
#[test]
fn a_store_of_objects_conforms() {
    use escale_server::files::{BucketFiles, open};
    let mut chance = Chance::new();
    let store = std::sync::Arc::new(object_store::memory::InMemory::new());
    for prefix in ["", "some/prefix"] {
        let open = || Box::new(BucketFiles::over(store.clone(), prefix).unwrap()) as Box<dyn Files>;
        conformance::all(&open, &mut |below| chance.below(below));
    }
    if let Ok(address) = std::env::var("ESCALE_BUCKET") {
        let address = format!("{address}/{:x}", chance.next());
        conformance::all(&|| open(&address).unwrap(), &mut |below| chance.below(below));
        eprintln!("{address} conforms");
    }
}

/// A process that ended while it wrote leaves a part, which no reader sees and a deletion removes.
#[test]
fn an_unfinished_object_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let files = FolderFiles::open(folder.path()).unwrap();
    files.put("o", "name", b"bytes").unwrap();
    let of_org = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let part = of_org.join("na").join("name2.part");
    std::fs::write(&part, b"byt").unwrap();
    assert_eq!(files.get("o", "name2").unwrap(), None);
    assert_eq!(files.list("o", "", 9).unwrap(), ["name"]);
    files.delete("o", "name2").unwrap();
    assert!(!part.exists());
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let files = FolderFiles::open(&folder.path().join("files")).unwrap();
    for name in ["", "ab", "../x", "a/b", "..\\x", "...", "a\0b"] {
        assert!(files.put("o", name, b"x").is_err() && files.get("o", name).is_err(), "{name:?}");
    }
    files.put("../../o", "name", b"x").unwrap();
    let entries = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(entries, 1, "the org's name is hashed");
}
