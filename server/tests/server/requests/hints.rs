//! Hints: a socket hears of every commit in its defs, by any process, and of nothing else.

use std::collections::BTreeMap;

use escale::codec::{Format, ServerFrame};
use escale::model::{Def, Epoch, Pk, Value, Version};
use escale_server::engine::WriteTx;
use escale_server::http::Running;
use escale_server::settings::Settings;

use crate::support::client::*;
use crate::support::items;
use crate::support::world::*;

/// Reads hints until each of `expected` has arrived at its version. Any other hint fails the test.
async fn expect(socket: &mut Socket, expected: &[(Def, u64)]) {
    let mut missing: BTreeMap<&Def, u64> = expected.iter().map(|(def, v)| (def, *v)).collect();
    while !missing.is_empty() {
        for (def, v) in hints(socket).await {
            assert_eq!(missing.remove(&def), Some(v), "{def}");
        }
    }
}

#[tokio::test]
async fn a_change_is_told_to_every_def_that_saw_it() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let one = def(&format!("Note@{}", Pk::from_key(&["a"]).unwrap()));
    let tag = Def::collection(&"Note".parse().unwrap(), &"tags".parse().unwrap(), &["t"]).unwrap();
    let all = [def("Note"), one.clone(), shelf("one"), shelf("two"), tag.clone(), shelf("three")];
    let mut socket = listen(&running, "/o/live", &all).await;

    let mut moved = note("a", "two");
    moved.insert("tags".into(), Value::Array(vec!["t".into(), "u".into()]));
    let v = put(&world.engine, moved).unwrap().unwrap();
    let told = [def("Note"), one.clone(), shelf("one"), shelf("two"), tag.clone()].map(|def| (def, v));
    expect(&mut socket, &told).await;
    let v = delete(&world.engine, "a").unwrap().unwrap();
    expect(&mut socket, &[def("Note"), one, shelf("two"), tag].map(|def| (def, v))).await;
    running.stop().await;
}

#[tokio::test]
async fn what_is_not_listened_to_is_not_told() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let mut socket = listen(&running, "/o/live", &[shelf("one"), shelf("two")]).await;
    say(&mut socket, Format::Json, None, &[shelf("two"), shelf("three")]).await;
    let (format, frame) = hear(&mut socket).await.unwrap();
    assert!(matches!(frame, ServerFrame::Live { .. }));
    assert_eq!(format, Format::Json, "answered in kind from now on");
    // Changes of another org, of another class, and of a def no longer subscribed to; then one of a
    // subscribed def.
    world.engine.write("p", |w| w.put("Note", note("b", "two"))).unwrap();
    world.engine.write("o", |w| w.put("Log", note("b", "two"))).unwrap();
    put(&world.engine, note("b", "one")).unwrap();
    let v = put(&world.engine, note("c", "three")).unwrap().unwrap();
    assert_eq!(hints(&mut socket).await, [(shelf("three"), v)]);
    running.stop().await;
}

/// The head in the confirmation of a new socket.
async fn confirmed_head(running: &Running, org: &str) -> Option<(Epoch, Version)> {
    let mut socket = connect(running, &format!("/{org}/live"), &[]).await;
    say(&mut socket, Format::Json, None, &[def("Note")]).await;
    match hear(&mut socket).await.unwrap().1 {
        ServerFrame::Live { head, .. } => head,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn r43_a_socket_that_is_registered_is_told_the_head() {
    let world = world();
    let first = put(&world.engine, note("a", "one")).unwrap().unwrap();
    let running = serve(&world, |_| {}).await;
    let (epoch, highest) = confirmed_head(&running, "o").await.expect("a head");
    assert_eq!(highest, first);
    assert_eq!(confirmed_head(&running, "empty").await, None, "nothing was written to it");
    // By an engine that is as unknown to this one as another process.
    let other = open(world.folder.path(), &world.clock, Settings::default()).unwrap();
    let last = put(&other, note("b", "two")).unwrap().unwrap();
    assert_eq!(confirmed_head(&running, "o").await, Some((epoch, last)));
    running.stop().await;
}

#[tokio::test]
async fn what_another_process_commits_is_told_too() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let mut socket = listen(&running, "/o/live", &[shelf("one")]).await;
    // Another engine on the folder: to this one it is as unknown as another process.
    let other = open(world.folder.path(), &world.clock, Settings::default()).unwrap();
    let v = put(&other, note("b", "one")).unwrap().unwrap();
    assert_eq!(hints(&mut socket).await, [(shelf("one"), v)]);
    // By an instance whose clock is ahead, and then by one whose clock is behind it.
    drop(other);
    let skewed = Settings { skew_ms: 700, ..Settings::default() };
    let ahead = escale_server::clock::ManualClock::at(NOON + 600);
    let v =
        put(&open(world.folder.path(), &ahead, skewed.clone()).unwrap(), note("c", "one")).unwrap().unwrap();
    assert_eq!(hints(&mut socket).await, [(shelf("one"), v)]);
    let behind = open(world.folder.path(), &world.clock, skewed).unwrap();
    let later = put(&behind, note("d", "one")).unwrap().unwrap();
    assert_eq!(later, v + 1);
    assert_eq!(hints(&mut socket).await, [(shelf("one"), later)]);
    running.stop().await;
}

#[tokio::test]
async fn whoever_does_not_read_is_told_the_last_version_once() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let mut socket = listen(&running, "/o/live", &[shelf("one")]).await;
    let last =
        (0..300).map(|n| put(&world.engine, note(&n.to_string(), "one")).unwrap().unwrap()).fold(0, u64::max);
    let mut frames = 0;
    loop {
        frames += 1;
        let hints = hints(&mut socket).await;
        assert_eq!(hints.len(), 1);
        if hints[0].1 == last {
            break;
        }
    }
    assert!(frames <= 300);
    running.stop().await;
}

/// No row of the feed names them: the server knows the parents of those that sockets listen to.
#[tokio::test]
async fn r17_single_items_that_end_with_their_parent_are_told() {
    let world = items::items();
    let put = |w: &mut WriteTx<'_>, asso: &str, num: &str| w.put("Adh", items::adh(asso, num)).map(drop);
    items::write(&world.engine, |w| {
        w.put("Asso", items::asso("a"))?;
        w.put("Asso", items::asso("b"))?;
        put(w, "a", "1")?;
        put(w, "b", "1")
    });
    let running = serve(&world, |_| {}).await;
    let [first, later, other] =
        [("a", "1"), ("a", "2"), ("b", "1")].map(|(asso, num)| items::single(asso, num));
    let mut socket = listen(&running, "/o/live", &[first.clone(), later.clone(), other.clone()]).await;
    let v = items::write(&world.engine, |w| put(w, "a", "2"));
    expect(&mut socket, &[(later.clone(), v)]).await;
    let v = items::write(&world.engine, |w| w.delete("Asso", &items::asso("a")));
    expect(&mut socket, &[(first.clone(), v), (later, v)]).await;
    // One that is not listened to any more is forgotten, and another's parent is another.
    say(&mut socket, Format::Msgpack, None, std::slice::from_ref(&other)).await;
    assert!(matches!(hear(&mut socket).await.unwrap().1, ServerFrame::Live { .. }));
    items::write(&world.engine, |w| {
        w.put("Asso", items::asso("a"))?;
        put(w, "a", "1")?;
        w.delete("Asso", &items::asso("a"))
    });
    let v = items::write(&world.engine, |w| w.delete("Asso", &items::asso("b")));
    assert_eq!(hints(&mut socket).await, [(other, v)]);
    running.stop().await;
}
