//! `backup` and `restore`: copies of a database that is being served, and their return.

use escale::Code;
use escale_server::backup::{back_up, restore};
use escale_server::settings::Settings;

use crate::support::operating::document;
use crate::support::session::Session;
use crate::support::world::*;

/// A session with the whole class, in step with the server.
fn in_step(world: &World) -> Session {
    let mut session = Session::new(&def("Note"));
    session.pull(&world.engine);
    session
}

#[test]
fn a_copy_that_is_put_back_renews_the_epochs_and_sessions_end_equal() {
    let mut world = world();
    for n in 0..50 {
        put(&world.engine, note(&n.to_string(), "one")).unwrap();
    }
    let copy = world.folder.path().join("copy.db");
    back_up(world.folder.path(), &copy).unwrap();
    // A write after the copy is lost.
    put(&world.engine, note("late", "one")).unwrap();
    let mut session = in_step(&world);
    assert_eq!(session.held(NOON).len(), 51);
    let before = ask(&world.engine, Vec::new()).epoch;

    let World { folder, clock, engine } = world;
    drop(engine);
    clock.advance(1_000);
    let restored = restore(folder.path(), &copy, NOON + 1_000).unwrap();
    let engine = std::sync::Arc::new(open(folder.path(), &clock, Settings::default()).unwrap());
    world = World { folder, clock, engine };
    assert!(restored.epoch > before);
    assert!(restored.replaced.is_some_and(|path| path.is_file()), "the other database is still there");
    session.pull(&world.engine);
    let held: Vec<String> = session.held(NOON).into_keys().collect();
    assert!(held.len() == 50 && !held.contains(&"late".to_owned()), "{held:?}");
    put(&world.engine, note("new", "one")).unwrap();
    session.pull(&world.engine);
    assert_eq!(session.held(NOON).len(), 51);
}

#[test]
fn a_copy_made_while_others_write_is_one_moment() {
    let world = world();
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            // Each write changes both notes: no moment has two values.
            for n in 0..200_i64 {
                let with = |id: &str| {
                    let mut map = note(id, "one");
                    map.insert("size".into(), n.into());
                    map
                };
                world
                    .engine
                    .write("o", |w| w.put("Note", with("a")).and_then(|_| w.put("Note", with("b"))))
                    .unwrap();
            }
        });
        let mut copies = 0;
        while !writer.is_finished() || copies == 0 {
            let folder = tempfile::tempdir().unwrap();
            back_up(world.folder.path(), &folder.path().join("escale.db")).unwrap();
            let copy = open(folder.path(), &world.clock, Settings::default()).unwrap();
            let size = |id| document(&copy, "Note", id).map(|map| map["size"].clone());
            assert_eq!(size("a"), size("b"));
            copies += 1;
        }
        writer.join().unwrap();
    });
}

#[test]
fn nothing_is_overwritten_and_nothing_of_another_program_is_taken() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let folder = world.folder.path();
    let copy = folder.join("copy.db");
    back_up(folder, &copy).unwrap();
    let why = |error: escale::Error| (error.code(), error.detail().to_owned());
    let (code, detail) = why(back_up(folder, &copy).unwrap_err());
    assert!(code == Code::BadOption && detail.ends_with("choose a new name"), "{detail}");
    let (code, detail) = why(restore(folder, &copy, NOON).unwrap_err());
    assert!(code == Code::BadOption && detail.ends_with("stop its server first"), "{detail}");
    let elsewhere = tempfile::tempdir().unwrap();
    let (code, _) = why(back_up(elsewhere.path(), &elsewhere.path().join("x")).unwrap_err());
    assert_eq!(code, Code::BadOption, "no database there");
    std::fs::write(elsewhere.path().join("notes.txt"), "no database").unwrap();
    let (code, _) = why(restore(elsewhere.path(), &elsewhere.path().join("notes.txt"), NOON).unwrap_err());
    assert_eq!(code, Code::StorageFailed);
    // A damaged copy is refused as a whole.
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x55);
    std::fs::write(&copy, bytes).unwrap();
    assert_eq!(why(restore(elsewhere.path(), &copy, NOON).unwrap_err()).0, Code::StorageFailed);
    assert!(!elsewhere.path().join("escale.db").exists());
    // A database that is too damaged to be read can be replaced.
    let intact = folder.join("intact.db");
    back_up(folder, &intact).unwrap();
    std::fs::write(elsewhere.path().join("escale.db"), "no database").unwrap();
    assert!(restore(elsewhere.path(), &intact, NOON).is_ok());
}
