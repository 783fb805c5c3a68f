//! An org without any data is answered like any other, and takes no room until something is written to it.

use std::collections::BTreeMap;
use std::path::Path;

use escale::codec::{Format, SyncReply, SyncRequest};
use escale::model::Epoch;
use escale_server::engine::Engine;

use crate::support::client::*;
use crate::support::operating::*;
use crate::support::world::*;

const PULL: &str = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;

/// The number of rows in each table.
fn rows(folder: &Path) -> BTreeMap<String, u64> {
    let database = rusqlite::Connection::open(Engine::database_in(folder)).unwrap();
    let mut names = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let count = |name: &String| {
        database.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get(0)).unwrap()
    };
    names.iter().map(|name| (name.clone(), count(name))).collect()
}

#[test]
fn a_pull_in_an_org_in_which_nothing_was_written_is_told_that_there_is_nothing() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let request = SyncRequest {
        subs: vec![sub(&def("Note"), 0), sub(&shelf("one"), 0), sub(&def("Nope"), 0)],
        ..SyncRequest::of("s")
    };
    let reply = world.engine.sync("nobody-yet", &caller(), &request).unwrap();
    assert_eq!((&reply.epoch, reply.seq), (&ask(&world.engine, Vec::new()).epoch, 0));
    for part in &reply.parts[..2] {
        assert_eq!((part.rows.len(), part.present.as_deref(), part.total), (0, Some(&[][..]), Some(0)));
        assert!(part.next.is_none() && part.fault.is_none());
    }
    assert_eq!(reply.parts[2].fault.as_ref().unwrap().code, "unknown_def");
}

#[test]
fn the_first_operation_of_an_org_is_told_its_result_also_where_it_is_refused() {
    let world = operating();
    let request = |ops| SyncRequest { ops, subs: vec![sub(&def("Note"), 0)], ..SyncRequest::of("s") };
    let sync = |ops| world.engine.sync("nobody-yet", &caller(), &request(ops)).unwrap();
    let refused = vec![op("d", 1, "doc.delete", key_args("a"))];
    for _ in 0..2 {
        let reply = sync(refused.clone());
        assert_eq!((told(&reply), reply.seq), (vec![("d", "not_found")], 1));
        assert_eq!(reply.parts[0].present.as_deref(), Some(&[][..]));
    }
    let reply = sync(vec![op("p", 2, "doc.put", put_args("a", "one"))]);
    assert_eq!((told(&reply), ids(&reply.parts[0])), (vec![("p", "ok")], vec!["a".to_owned()]));
}

#[test]
fn operations_of_another_epoch_learn_the_epoch_also_where_nothing_was_written() {
    let world = operating();
    let lost = Epoch::new(NOON - 1, "lost").unwrap();
    let request = SyncRequest {
        epoch: Some(lost),
        ops: vec![op("p", 1, "doc.put", put_args("a", "one"))],
        subs: vec![sub(&def("Note"), 0)],
        ..SyncRequest::of("s")
    };
    let reply = world.engine.sync("nobody-yet", &caller(), &request).unwrap();
    assert_eq!((told(&reply), reply.seq), (vec![("p", "contention")], 0));
    let again = SyncRequest { epoch: Some(reply.epoch), ..request };
    assert_eq!(told(&world.engine.sync("nobody-yet", &caller(), &again).unwrap()), [("p", "ok")]);
}

#[tokio::test]
async fn a_socket_that_is_first_in_an_org_hears_of_its_first_write() {
    let world = world();
    let running = serve(&world, |_| {}).await;
    let mut socket = listen(&running, "/nobody-yet/live", &[def("Note")]).await;
    let v = world.engine.write("nobody-yet", |w| w.put("Note", note("a", "one"))).unwrap().v.unwrap();
    assert_eq!(hints(&mut socket).await, [(def("Note"), v)]);
    running.stop().await;
}

#[tokio::test]
async fn an_org_that_a_stranger_names_costs_nothing_at_rest() {
    let world = world();
    let running = serve(&world, |_| {}).await;
    put(&world.engine, note("a", "one")).unwrap();
    assert_eq!(post_json(&running, "/o/sync", PULL).await.status, 200);
    // The orgs that nobody has written to share one stored `now`. The first of their replies stores it.
    assert_eq!(post_json(&running, "/stranger/sync", PULL).await.status, 200);
    let before = rows(world.folder.path());
    let state = || world.engine.provider().read().unwrap().site().unwrap();
    let commits = state().commits;
    for n in 0..500 {
        assert_eq!(post_json(&running, &format!("/stranger-{n}/sync"), PULL).await.status, 200);
    }
    let lost = r#"{"p":1,"session":"s","epoch":[1,"lost"],"ops":[
        {"id":"1","seq":1,"name":"doc.put","args":{},"at":0}],"subs":[["Note",0]]}"#;
    let reply: SyncReply = post_json(&running, "/stranger/sync", lost).await.json();
    assert_eq!(told(&reply), [("1", "contention")]);
    for n in 0..50 {
        let mut socket = connect(&running, &format!("/stranger-{n}/live"), &[]).await;
        say(&mut socket, Format::Json, None, &[def("Note")]).await;
        hear(&mut socket).await.unwrap();
    }
    assert_eq!((rows(world.folder.path()), state().commits), (before, commits));
    running.stop().await;
}

#[tokio::test]
async fn what_is_no_name_of_an_org_is_an_unknown_org() {
    let world = world();
    let running = serve(&world, |_| {}).await;
    let long = format!("/{}/sync", "x".repeat(2_000));
    for odd in ["/%2e%2e%2fo/sync", "/a%20b/sync", "/%00/sync", &long] {
        let answer = post_json(&running, odd, PULL).await;
        assert_eq!((answer.status, answer.fault().code.as_str()), (404, "unknown_org"), "{odd}");
    }
    assert_eq!(try_connect(&running, "/a%20b/live", &[]).await.err(), Some(404));
    let percent: SyncReply = post_json(&running, "/%6f%3A1/sync", PULL).await.json();
    assert_eq!(percent.parts.len(), 1, "o:1");
    running.stop().await;
}
