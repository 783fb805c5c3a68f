//! R8: a database restored from a copy begins a new epoch.

use std::path::Path;

use escale::model::Epoch;
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, epoch_of, renew_epoch_of};
use escale_server::settings::Settings;

use crate::support::session::Session;
use crate::support::world::*;

fn epoch(engine: &Engine) -> Epoch {
    ask(engine, Vec::new()).epoch
}

fn copy(from: &Path, to: &Path, names: &[&str]) {
    std::fs::create_dir_all(to).unwrap();
    for name in names {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

const DATABASE: &str = "escale.db";
const MARK: &str = "escale.mark";

/// A folder in which `a` was written, then copied aside, then `b` was written; closed.
fn world_with_copy() -> (tempfile::TempDir, tempfile::TempDir, Epoch, Session) {
    let World { folder, clock, engine } = world();
    put(&engine, note("a", "one")).unwrap();
    let first = epoch(&engine);
    drop(engine);
    let aside = tempfile::tempdir().unwrap();
    copy(folder.path(), aside.path(), &[DATABASE, MARK]);
    clock.advance(60_000);
    let engine = open(folder.path(), &clock, Settings::default()).unwrap();
    assert_eq!(epoch(&engine), first, "a restart is no new life");
    put(&engine, note("b", "one")).unwrap();
    let mut session = Session::new(&shelf("one"));
    session.pull(&engine);
    assert_eq!(session.held(NOON).len(), 2);
    drop(engine);
    (folder, aside, first, session)
}

fn check_renewed(folder: &Path, first: &Epoch, mut session: Session) {
    // The clock is behind that of the copy's making: the new epoch is later all the same.
    let clock = ManualClock::at(NOON - DAY);
    let engine = open(folder, &clock, Settings::default()).unwrap();
    assert!(epoch(&engine) > *first);
    session.pull(&engine);
    assert_eq!(session.held(NOON).keys().collect::<Vec<_>>(), ["a"]);
    let renewed = epoch(&engine);
    drop(engine);
    let engine = open(folder, &clock, Settings::default()).unwrap();
    assert_eq!(epoch(&engine), renewed, "once");
}

#[test]
fn r8_a_database_put_back_under_its_mark_begins_a_new_life() {
    let (folder, aside, first, session) = world_with_copy();
    copy(aside.path(), folder.path(), &[DATABASE]);
    check_renewed(folder.path(), &first, session);
}

#[test]
fn r8_a_folder_put_back_whole_begins_a_new_life() {
    let (folder, aside, first, session) = world_with_copy();
    // The copy is made while the old file still exists, so it is another file.
    copy(aside.path(), &folder.path().join("again"), &[DATABASE, MARK]);
    check_renewed(&folder.path().join("again"), &first, session);
}

#[test]
fn r8_the_epoch_is_renewed_by_command_under_a_running_server() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = Engine::database_in(world.folder.path());
    let first = epoch(&world.engine);
    assert_eq!(epoch_of(&path, None).unwrap(), first);
    let mut session = Session::new(&shelf("one"));
    session.pull(&world.engine);
    // With a clock that is behind.
    let renewed = renew_epoch_of(&path, None, NOON - DAY).unwrap();
    assert!(renewed > first);
    assert_eq!(epoch(&world.engine), renewed);
    session.pull(&world.engine);
    assert_eq!(session.held(NOON).len(), 1);
    let other = open(world.folder.path(), &world.clock, Settings::default()).unwrap();
    assert_eq!(epoch(&other), renewed, "the mark follows");
}

#[test]
fn r37_the_epoch_of_one_org_is_renewed_alone() {
    let world = world();
    let put = |org: &str| world.engine.write(org, |w| w.put("Note", note("a", "one"))).unwrap();
    put("o");
    put("p");
    let path = Engine::database_in(world.folder.path());
    let first = epoch_of(&path, None).unwrap();
    let mut session = Session::new(&shelf("one"));
    session.pull(&world.engine);
    let renewed = renew_epoch_of(&path, Some("p"), NOON - DAY).unwrap();
    assert!(renewed > first);
    for (org, expected) in [(None, &first), (Some("o"), &first), (Some("p"), &renewed)] {
        assert_eq!(epoch_of(&path, org).unwrap(), *expected, "{org:?}");
    }
    assert_eq!(epoch(&world.engine), first, "its sessions load nothing again");
    put("q");
    assert_eq!(epoch_of(&path, Some("q")).unwrap(), first, "a new org takes the one of the site");
    // The next renewal is later than all of them, and so is the one after a restore.
    let all = renew_epoch_of(&path, None, NOON - DAY).unwrap();
    assert!(all > renewed);
    for org in [None, Some("o"), Some("p"), Some("q")] {
        assert_eq!(epoch_of(&path, org).unwrap(), all, "{org:?}");
    }
    for org in [Some("r"), Some("")] {
        assert_eq!(epoch_of(&path, org).unwrap_err().code(), escale::Code::BadOption);
        assert_eq!(renew_epoch_of(&path, org, NOON).unwrap_err().code(), escale::Code::BadOption);
    }
}

/// The watermark knows the latest epoch of all, also that of a single org.
#[test]
fn r8_the_lost_epoch_of_one_org_is_followed_by_a_later_one() {
    let World { folder, clock, engine } = world();
    put(&engine, note("a", "one")).unwrap();
    drop(engine);
    let aside = tempfile::tempdir().unwrap();
    copy(folder.path(), aside.path(), &[DATABASE]);
    let path = Engine::database_in(folder.path());
    let lost = renew_epoch_of(&path, Some("o"), NOON + DAY).unwrap();
    copy(aside.path(), folder.path(), &[DATABASE]);
    let engine = open(folder.path(), &clock, Settings::default()).unwrap();
    assert!(epoch(&engine) > lost);
}

#[test]
fn r8_a_mark_that_cannot_be_read_is_as_good_as_none() {
    let World { folder, clock, engine } = world();
    put(&engine, note("a", "one")).unwrap();
    let first = epoch(&engine);
    drop(engine);
    std::fs::write(folder.path().join(MARK), "{").unwrap();
    assert_eq!(epoch(&open(folder.path(), &clock, Settings::default()).unwrap()), first);
    std::fs::remove_file(folder.path().join(MARK)).unwrap();
    assert_eq!(epoch(&open(folder.path(), &clock, Settings::default()).unwrap()), first);
}

#[test]
fn r8_there_is_no_epoch_without_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = Engine::database_in(folder.path());
    assert_eq!(epoch_of(&path, None).unwrap_err().code(), escale::Code::NoStore);
    assert_eq!(renew_epoch_of(&path, None, NOON).unwrap_err().code(), escale::Code::NoStore);
    assert!(!path.exists());
}

/// Two databases that begin in the same millisecond still have two epochs. Otherwise one could replace the
/// other unnoticed.
#[test]
fn r8_two_databases_made_at_one_moment_have_two_epochs() {
    let epochs = [world(), world()].map(|world| ask(&world.engine, Vec::new()).epoch);
    assert_eq!(epochs[0].ms(), epochs[1].ms());
    assert_ne!(epochs[0], epochs[1]);
}
