//! R86 over sockets: one that loses a def gets one last hint for it, and then silence.

use escale::codec::{Format, ServerFrame};
use escale::model::Def;
use escale_server::settings::Settings;

use super::support::*;
use crate::support::client::*;
use crate::support::items::world_of;
use crate::support::world::*;

const TOKENS: &str = r#"{
    "tok-ada": { "account": "ada", "orgs": ["o"], "role": "write" },
    "tok-bob": { "account": "bob", "orgs": ["o"], "role": "write" },
    "tok-root": { "account": "root", "orgs": ["o"], "role": "ROLE" }
}"#;

async fn with_rights() -> (World, escale_server::http::Running) {
    let world = world_of(Settings::default(), RIGHTS);
    members(&world.engine, "o");
    let running = serve_tokens(&world, &TOKENS.replace("ROLE", "admin")).await;
    (world, running)
}

/// Subscribes, and returns the socket with the defs that are live and those that are withdrawn.
async fn follow(
    running: &escale_server::http::Running,
    token: &str,
    defs: &[Def],
) -> (Socket, Vec<Def>, Vec<Def>) {
    let mut socket = connect(running, "/o/live", &[]).await;
    say(&mut socket, Format::Msgpack, Some(token), defs).await;
    let ServerFrame::Live { live, refused, .. } = hear(&mut socket).await.unwrap().1 else {
        panic!("no confirmation")
    };
    assert!(refused.iter().all(|(_, fault)| fault.code == "withdrawn"));
    (socket, live, refused.into_iter().map(|(def, _)| def).collect())
}

fn write(world: &World, class: &str, map: &Map) -> u64 {
    world.clock.advance(1);
    world.engine.write("o", |w| w.put(class, map.clone())).unwrap().v.unwrap()
}

fn delete(world: &World, class: &str, map: &Map) -> u64 {
    world.clock.advance(1);
    world.engine.write("o", |w| w.delete(class, map)).unwrap().v.unwrap()
}

#[tokio::test]
async fn r86_a_socket_that_loses_a_def_gets_one_last_hint() {
    let (world, running) = with_rights().await;
    let (notes, open) = (def(&collection("Note", "group", &["g"])), def("Open"));
    let other = def(&collection("Note", "group", &["h"]));
    let asked = [notes.clone(), open.clone(), other.clone(), def("Draft")];
    let (mut ada, live, refused) = follow(&running, "tok-ada", &asked).await;
    assert_eq!((live, refused), (vec![notes.clone(), open.clone(), other.clone()], vec![def("Draft")]));
    let (mut bob, live, refused) = follow(&running, "tok-bob", &asked).await;
    assert_eq!((live, refused), (vec![notes.clone(), open.clone()], vec![other.clone(), def("Draft")]));

    let note = doc(&[("group", "g"), ("id", "1"), ("owner", "bob")]);
    let v = write(&world, "Note", &note);
    assert_eq!(hints(&mut ada).await, [(notes.clone(), v)]);
    assert_eq!(hints(&mut bob).await, [(notes.clone(), v)]);
    let v = delete(&world, "Member", &doc(&[("group", "g"), ("account", "ada")]));
    assert_eq!(hints(&mut ada).await, [(notes.clone(), v)], "the last one");
    // From now on ada hears nothing of the notes of `g`. The next hint is another def's.
    write(&world, "Note", &doc(&[("group", "g"), ("id", "2"), ("owner", "bob")]));
    let v = write(&world, "Open", &doc(&[("id", "1")]));
    assert_eq!(hints(&mut ada).await, [(open.clone(), v)]);
    // Once the right is back, a subscription works again.
    write(&world, "Member", &doc(&[("group", "g"), ("account", "ada"), ("role", "read")]));
    say(&mut ada, Format::Msgpack, None, &asked).await;
    let frame = hear(&mut ada).await.unwrap().1;
    assert!(matches!(&frame, ServerFrame::Live { live, .. } if live.len() == 3), "{frame:?}");
    running.stop().await;
}

#[tokio::test]
async fn r86_a_document_that_leaves_a_right_ends_its_own_subscription() {
    let (world, running) = with_rights().await;
    let letter = |to: &[&str]| {
        let mut map = doc(&[("id", "1")]);
        map.insert("to".into(), texts(to));
        map
    };
    write(&world, "Letter", &letter(&["ada", "bob"]));
    let (one, open) = (def(&single("Letter", &["1"])), def("Open"));
    let (mut ada, live, _) = follow(&running, "tok-ada", &[one.clone(), open.clone()]).await;
    assert_eq!(live.len(), 2);
    let v = write(&world, "Letter", &letter(&["bob"]));
    assert_eq!(hints(&mut ada).await, [(one.clone(), v)]);
    write(&world, "Letter", &letter(&["bob", "lea"]));
    let v = write(&world, "Open", &doc(&[("id", "1")]));
    assert_eq!(hints(&mut ada).await, [(open, v)]);
    running.stop().await;
}

#[tokio::test]
async fn r86_a_role_that_ends_ends_its_subscriptions() {
    let (world, running) = with_rights().await;
    let (mut root, live, _) = follow(&running, "tok-root", &[def("Draft"), def("Open")]).await;
    assert_eq!(live.len(), 2);
    let v = write(&world, "Draft", &doc(&[("id", "1")]));
    assert_eq!(hints(&mut root).await, [(def("Draft"), v)]);
    let path = world.folder.path().join("tokens.json");
    std::fs::write(&path, TOKENS.replace("ROLE", "write")).unwrap();
    assert_eq!(hints(&mut root).await, [(def("Draft"), v)], "the last one");
    write(&world, "Draft", &doc(&[("id", "2")]));
    let v = write(&world, "Open", &doc(&[("id", "1")]));
    assert_eq!(hints(&mut root).await, [(def("Open"), v)]);
    running.stop().await;
}
