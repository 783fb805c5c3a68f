//! R86 over sockets: one that loses a def gets one last hint for it, and then silence.

use std::time::Duration;

use escale::codec::{Format, ServerFrame};
use escale::model::{Def, Value};
use escale_server::http::Tokens;
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

/// One property of the parent decides, so its change reaches all who follow the items, one of them, or a singleton.
#[tokio::test]
async fn r97_a_parent_that_changes_hands_ends_the_subscriptions_of_its_items() {
    let (world, running) = with_rights().await;
    let case = |owner: &str| doc(&[("id", "1"), ("owner", owner)]);
    write(&world, "Case", &case("lea"));
    write(&world, "Step", &doc(&[("case", "1"), ("id", "a")]));
    write(&world, "Sign", &doc(&[("case", "1"), ("owner", "ada")]));
    let items = [
        collection("Step", "in", &["1"]),
        collection("Sign", "in", &["1"]),
        single("Step", &["1", "a"]),
        single("Sign", &["1"]),
    ];
    for item in items.map(|text| def(&text)) {
        write(&world, "Case", &case("ada"));
        let open = def("Open");
        let (mut ada, live, _) = follow(&running, "tok-ada", &[item.clone(), open.clone()]).await;
        assert_eq!(live.len(), 2, "{item}");
        let v = write(&world, "Case", &case("bob"));
        assert_eq!(hints(&mut ada).await, [(item.clone(), v)], "the last one");
        let after = item.to_string();
        write(&world, "Step", &doc(&[("case", "1"), ("id", "a"), ("after", &after)]));
        write(&world, "Sign", &doc(&[("case", "1"), ("owner", "bob"), ("after", &after)]));
        let v = write(&world, "Open", &doc(&[("id", "1"), ("after", &after)]));
        assert_eq!(hints(&mut ada).await, [(open, v)], "{item}");
    }
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

/// A membership of ada in `g` that ends a minute after noon.
fn dated() -> Map {
    let mut member = doc(&[("group", "g"), ("account", "ada"), ("role", "read")]);
    member.insert("maxLife".into(), Value::from((NOON / 60_000 + 1) as i64));
    member
}

/// Hints until one of that def at that version. Returns how many others of `of` came before it.
async fn hints_until(socket: &mut Socket, (last, v): (&Def, u64), of: &Def) -> usize {
    let mut count = 0;
    loop {
        let found = hints(socket).await;
        count += found.iter().filter(|(def, _)| def == of).count();
        if found.contains(&(last.clone(), v)) {
            return count;
        }
    }
}

#[tokio::test]
async fn r99_a_membership_that_ends_by_its_life_ends_on_the_wire() {
    let (world, running) = with_rights().await;
    write(&world, "Member", &dated());
    let (notes, team, open) =
        (def(&collection("Note", "group", &["g"])), single("Team", &["g"]), def("Open"));
    let team = def(&team);
    write(&world, "Team", &doc(&[("group", "g")]));
    let (mut ada, live, _) = follow(&running, "tok-ada", &[notes.clone(), team.clone(), open.clone()]).await;
    assert_eq!(live.len(), 3);
    let note = |id: &str| doc(&[("group", "g"), ("id", id), ("owner", "bob")]);
    let v = write(&world, "Note", &note("1"));
    assert_eq!(hints(&mut ada).await, [(notes.clone(), v)]);
    world.clock.advance(60_000);
    for id in ["2", "3", "4"] {
        write(&world, "Note", &note(id));
    }
    write(&world, "Team", &doc(&[("group", "g"), ("name", "new")]));
    let v = write(&world, "Open", &doc(&[("id", "1")]));
    let count = hints_until(&mut ada, (&open, v), &notes).await;
    assert!(count <= 1, "{count} hints after the end");
    // Later ones are silent, for both defs.
    write(&world, "Note", &note("5"));
    write(&world, "Team", &doc(&[("group", "g"), ("name", "newer")]));
    let v = write(&world, "Open", &doc(&[("id", "2")]));
    assert_eq!(hints(&mut ada).await, [(open, v)]);
    running.stop().await;
}

/// Nothing is written: the session learns of the end all the same.
#[tokio::test]
async fn r99_a_right_that_ends_in_silence_is_told() {
    let world = world_of(Settings::default(), RIGHTS);
    members(&world.engine, "o");
    write(&world, "Member", &dated());
    let path = world.folder.path().join("tokens.json");
    std::fs::write(&path, TOKENS.replace("ROLE", "admin")).unwrap();
    let running = serve(&world, |options| {
        options.tokens = Tokens::from_file(path).unwrap();
        options.token_every = Duration::from_millis(20);
    })
    .await;
    let notes = def(&collection("Note", "group", &["g"]));
    let (mut ada, ..) = follow(&running, "tok-ada", &[notes.clone(), def("Open")]).await;
    world.clock.advance(60_000);
    let heard = hints(&mut ada).await;
    assert_eq!(heard.into_iter().map(|(def, _)| def).collect::<Vec<_>>(), [notes]);
    running.stop().await;
}

#[tokio::test]
async fn r99_a_parent_that_comes_later_decides_over_its_items() {
    let (world, running) = with_rights().await;
    let (plots, open) = (def(&collection("Plot", "in", &["h", "a"])), def("Open"));
    let (mut bob, live, _) = follow(&running, "tok-bob", &[plots.clone(), open.clone()]).await;
    assert_eq!(live.len(), 2, "whoever may read areas may hear that there is none");
    write(&world, "Area", &doc(&[("group", "h"), ("id", "a")]));
    for id in ["1", "2", "3"] {
        write(&world, "Plot", &doc(&[("group", "h"), ("area", "a"), ("id", id)]));
    }
    let v = write(&world, "Open", &doc(&[("id", "1")]));
    let count = hints_until(&mut bob, (&open, v), &plots).await;
    assert!(count <= 1, "{count} hints of items that bob may not read");
    write(&world, "Plot", &doc(&[("group", "h"), ("area", "a"), ("id", "4")]));
    let v = write(&world, "Open", &doc(&[("id", "2")]));
    assert_eq!(hints(&mut bob).await, [(open, v)]);
    running.stop().await;
}

/// One write ends the right and changes the def.
#[tokio::test]
async fn r99_no_hint_of_the_write_that_ended_a_right_comes_before_the_last_one() {
    let (world, running) = with_rights().await;
    let (notes, open) = (def(&collection("Note", "group", &["g"])), def("Open"));
    for n in 0..20 {
        write(&world, "Member", &doc(&[("group", "g"), ("account", "ada"), ("role", "write")]));
        let (mut ada, live, _) = follow(&running, "tok-ada", &[notes.clone(), open.clone()]).await;
        assert_eq!(live.len(), 2);
        world.clock.advance(1);
        let ended = world.engine.write("o", |w| {
            w.delete("Member", &doc(&[("group", "g"), ("account", "ada")]))?;
            w.put("Note", doc(&[("group", "g"), ("id", &n.to_string()), ("owner", "bob")])).map(drop)
        });
        ended.unwrap();
        let v = write(&world, "Open", &doc(&[("id", &n.to_string())]));
        assert_eq!(hints_until(&mut ada, (&open, v), &notes).await, 1, "the last one");
    }
    running.stop().await;
}

#[tokio::test]
async fn r100_a_socket_hears_nothing_of_documents_that_are_not_there() {
    let (world, running) = with_rights().await;
    let (diary, open) = (def(&single("Diary", &["bob", "1"])), def("Open"));
    let (letter, note) = (def(&single("Letter", &["1"])), def(&single("Note", &["h", "1"])));
    // One that was there, and one that never was.
    write(&world, "Letter", &doc(&[("id", "1")]));
    delete(&world, "Letter", &doc(&[("id", "1")]));
    let asked = [diary.clone(), letter.clone(), note.clone(), open.clone()];
    let (mut bob, live, refused) = follow(&running, "tok-bob", &asked).await;
    assert_eq!((live, refused.len()), (vec![open.clone()], 3));
    write(&world, "Letter", &doc(&[("id", "1")]));
    write(&world, "Diary", &doc(&[("owner", "bob"), ("id", "1")]));
    write(&world, "Note", &doc(&[("group", "h"), ("id", "1"), ("owner", "out")]));
    let v = write(&world, "Open", &doc(&[("id", "1")]));
    assert_eq!(hints(&mut bob).await, [(open, v)]);
    running.stop().await;
}
