//! R89 over the network: sockets fall silent and hear again, and nobody enters at level 3.

use escale::codec::{Format, ServerFrame};
use escale::model::Def;
use escale_server::http::Running;
use escale_server::settings::Settings;

use super::support::*;
use crate::support::client::*;
use crate::support::items::{open_schema, world_of};
use crate::support::schedules::*;
use crate::support::world::*;

const SCHEMA: &str = r#"{ "Note": { "key": ["id"] }, "Chat": { "key": ["id"], "exempt": 2 } }"#;

const TOKENS: &str = r#"{
    "tok-bob": { "account": "bob", "orgs": ["o"], "role": "write" },
    "tok-root": { "account": "root", "orgs": ["o"], "role": "admin" }
}"#;

async fn follow(running: &Running, token: &str) -> (Socket, Vec<Def>, Vec<String>) {
    let mut socket = connect(running, "/o/live", &[]).await;
    say(&mut socket, Format::Msgpack, Some(token), &[def("Note"), def("Chat")]).await;
    let ServerFrame::Live { live, refused, .. } = hear(&mut socket).await.unwrap().1 else {
        panic!("no confirmation")
    };
    (socket, live, refused.into_iter().map(|(def, fault)| format!("{def} {}", fault.code)).collect())
}

fn write(world: &World, class: &str) -> u64 {
    world.clock.advance(1);
    let map = doc(&[("id", "1"), ("at", &world.engine.clock_ms().to_string())]);
    world.engine.write("o", |w| w.put(class, map.clone())).unwrap().v.unwrap()
}

fn set(world: &World, name: &str, args: escale::model::Value) {
    world.clock.advance(1);
    assert_eq!(Client::new(&world.engine, "o", "root").code(name, args), "ok");
}

/// The defs of the next hints.
async fn heard(socket: &mut Socket) -> Vec<String> {
    hints(socket).await.into_iter().map(|(def, _)| def.to_string()).collect()
}

async fn sync_as(running: &Running, token: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    request(running, "POST", "/o/sync", &[JSON, ("Authorization", &bearer)], body.as_bytes()).await
}

/// The clock stands still, so the socket learns of it by the feed, and not by its look every two seconds.
#[tokio::test]
async fn r89_a_socket_is_told_of_each_restriction_and_of_its_end() {
    let world = world_of(Settings::default(), SCHEMA);
    let running = serve_tokens(&world, TOKENS).await;
    let (mut bob, live, _) = follow(&running, "tok-bob").await;
    assert_eq!(live.len(), 2);
    // Level 1 takes no def away. One hint makes the session pull, and the reply tells.
    set(&world, "account.set", of_account("bob", &[(NOON, 1)]));
    assert_eq!(heard(&mut bob).await, ["Chat"]);
    set(&world, "account.set", of_account("bob", &[(NOON, 2)]));
    assert_eq!(heard(&mut bob).await, ["Note"], "the last one");
    write(&world, "Note");
    write(&world, "Chat");
    assert_eq!(heard(&mut bob).await, ["Chat"], "and nothing of the notes");
    // Another socket begins while the account is restricted.
    let (mut later, live, refused) = follow(&running, "tok-bob").await;
    assert_eq!((live, refused), (vec![def("Chat")], vec!["Note blocked".to_owned()]));
    set(&world, "account.set", of_account("bob", &[]));
    for socket in [&mut bob, &mut later] {
        assert_eq!(heard(socket).await, ["Note"], "the session pulls what was withheld");
    }
    write(&world, "Note");
    for socket in [&mut bob, &mut later] {
        assert_eq!(heard(socket).await, ["Note"], "and hears of it again");
    }
    running.stop().await;
}

/// No row of the feed says that a date has come.
#[tokio::test]
async fn r89_a_date_restricts_an_open_socket() {
    let world = world_of(Settings::default(), SCHEMA);
    let running = serve_tokens(&world, TOKENS).await;
    let dated = [(NOON + 100_000, 2), (NOON + 200_000, 0)];
    set(&world, "org.set", of_org(&dated));
    let (mut bob, live, _) = follow(&running, "tok-bob").await;
    assert_eq!(live.len(), 2);
    world.clock.advance(100_000);
    assert_eq!(heard(&mut bob).await, ["Note"]);
    world.clock.advance(100_000);
    assert_eq!(heard(&mut bob).await, ["Note"]);
    running.stop().await;
}

#[tokio::test]
async fn r89_nobody_enters_at_level_3_but_administrators_of_the_org() {
    let world = world_of(Settings::default(), SCHEMA);
    let running = serve_tokens(&world, TOKENS).await;
    let pull = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;
    let (mut bob, ..) = follow(&running, "tok-bob").await;
    let (mut root, ..) = follow(&running, "tok-root").await;
    set(&world, "org.set", of_org(&[(NOON, 3)]));
    let closed = loop {
        match hear(&mut bob).await {
            Err(closed) => break closed,
            Ok((_, frame)) => assert!(matches!(frame, ServerFrame::Alive), "{frame:?}"),
        }
    };
    assert_eq!(closed, (4401, "account_closed".into()));
    assert_eq!(heard(&mut root).await, ["Note"], "to an administrator it is level 2");
    let refused = sync_as(&running, "tok-bob", pull).await;
    assert_eq!((refused.status, refused.fault().code.as_str()), (403, "account_closed"));
    let lift =
        r#"{"p":1,"session":"r","ops":[{"id":"1","seq":1,"name":"org.set","args":{"schedule":[]},"at":0}]}"#;
    assert_eq!(sync_as(&running, "tok-root", lift).await.status, 200);
    assert_eq!(sync_as(&running, "tok-bob", pull).await.status, 200);
    running.stop().await;
}

/// Two instances share a database. The second one sets a schedule, and the socket is the first one's.
#[tokio::test]
async fn r89_another_instance_follows() {
    let world = world_of(Settings::default(), SCHEMA);
    let running = serve_tokens(&world, TOKENS).await;
    let pull = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;
    let (mut bob, ..) = follow(&running, "tok-bob").await;
    assert_eq!(sync_as(&running, "tok-bob", pull).await.status, 200, "the schedules are in memory now");
    let other = open_schema(world.folder.path(), &world.clock, Settings::default(), SCHEMA);
    world.clock.advance(1);
    let code = Client::new(&other, "o", "root").code("account.set", of_account("bob", &[(NOON, 3)]));
    assert_eq!(code, "ok");
    loop {
        match hear(&mut bob).await {
            Err(closed) => break assert_eq!(closed.0, 4401),
            Ok((_, frame)) => assert!(matches!(frame, ServerFrame::Alive), "{frame:?}"),
        }
    }
    assert_eq!(sync_as(&running, "tok-bob", pull).await.status, 403);
    running.stop().await;
}
