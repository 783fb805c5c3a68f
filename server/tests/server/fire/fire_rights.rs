//! Under fire: accounts that try to end, to watch and to date documents that are not theirs.

use escale::codec::{Fault, Format, ServerFrame, SyncReply};
use escale::model::{Def, Value};
use escale_server::http::Running;
use escale_server::settings::Settings;

use crate::rights::support::*;
use crate::support::client::*;
use crate::support::items::world_of;
use crate::support::world::*;

const TOKENS: &str = r#"{
    "tok-bob": { "account": "bob", "orgs": ["o"], "role": "write" },
    "tok-out": { "account": "out", "orgs": ["o"], "role": "write" }
}"#;

async fn server() -> (World, Running) {
    let world = world_of(Settings::default(), RIGHTS);
    members(&world.engine, "o");
    let running = serve_tokens(&world, TOKENS).await;
    (world, running)
}

/// The answer to a request of that account.
async fn ask(running: &Running, who: &str, fields: &str) -> SyncReply {
    let bearer = format!("Bearer tok-{who}");
    let body = format!(r#"{{"p":1,"session":"s-{who}",{fields}}}"#);
    request(running, "POST", "/o/sync", &[JSON, ("Authorization", &bearer)], body.as_bytes()).await.json()
}

async fn operate(running: &Running, who: &str, seq: u64, (name, args): (&str, &str)) -> Option<Fault> {
    let op = format!(r#"{{"id":"{who}-{seq}","seq":{seq},"name":"{name}","at":0,"args":{args}}}"#);
    ask(running, who, &format!(r#""ops":[{op}]"#)).await.results.remove(0).fault
}

fn write(world: &World, class: &str, map: &Map) -> u64 {
    world.clock.advance(1);
    world.engine.write("o", |w| w.put(class, map.clone())).unwrap().v.unwrap()
}

async fn watch(running: &Running, who: &str, defs: &[Def]) -> (Socket, usize) {
    let mut socket = connect(running, "/o/live", &[]).await;
    say(&mut socket, Format::Msgpack, Some(&format!("tok-{who}")), defs).await;
    let ServerFrame::Live { live, .. } = hear(&mut socket).await.unwrap().1 else { panic!("not confirmed") };
    (socket, live.len())
}

/// The hints of other defs until the one of `Open`.
async fn heard(world: &World, socket: &mut Socket, n: i64) -> Vec<(Def, u64)> {
    let mut last = doc(&[("id", "1")]);
    last.insert("n".into(), Value::from(n));
    let v = write(world, "Open", &last);
    let mut all = Vec::new();
    loop {
        all.extend(hints(socket).await);
        if let Some(at) = all.iter().position(|hint| *hint == (def("Open"), v)) {
            all.remove(at);
            return all;
        }
    }
}

#[tokio::test]
async fn a_writer_who_may_not_delete_ends_no_life() {
    let (world, running) = server().await;
    write(&world, "Note", &doc(&[("group", "g"), ("id", "1"), ("owner", "lea")]));
    let next = NOON / 60_000 + 1;
    let data = r#""data":{"group":"g","id":"1","owner":"lea","maxLife":1}"#;
    let attacks = [
        ("doc.delete", r#"{"class":"Note","key":["g","1"]}"#.to_owned()),
        ("doc.patch", r#"{"class":"Note","key":["g","1"],"set":{"maxLife":1}}"#.to_owned()),
        ("doc.patch", format!(r#"{{"class":"Note","key":["g","1"],"set":{{"maxLife":{next}}}}}"#)),
        ("doc.put", format!(r#"{{"class":"Note",{data}}}"#)),
        ("batch", format!(r#"{{"ops":[{{"name":"doc.put","args":{{"class":"Note",{data}}}}}]}}"#)),
    ];
    for (seq, (name, args)) in (1..).zip(&attacks) {
        let fault = operate(&running, "bob", seq, (name, args)).await.expect("a refusal");
        assert_eq!(fault.code, "forbidden", "{name} {args}");
    }
    world.clock.advance(120_000);
    let notes = collection("Note", "group", &["g"]);
    let reply = ask(&running, "bob", &format!(r#""subs":[["{notes}",0]]"#)).await;
    assert_eq!(reply.parts[0].rows.iter().filter(|row| !row.deleted).count(), 1);
    running.stop().await;
}

/// The stranger asks before there is anything to refuse, or while a membership lasts.
#[tokio::test]
async fn hints_of_closed_documents_end_with_the_right_to_them() {
    let (world, running) = server().await;
    let mut dated = doc(&[("group", "g"), ("account", "out"), ("role", "read")]);
    dated.insert("maxLife".into(), Value::from((NOON / 60_000 + 1) as i64));
    write(&world, "Member", &dated);
    let open = def("Open");
    let asked = [
        collection("Plot", "in", &["x", "a"]),
        collection("Bed", "in", &["x", "a"]),
        collection("Note", "group", &["g"]),
        single("Diary", &["bob", "1"]),
        single("Letter", &["1"]),
    ]
    .map(|text| def(&text));
    let (mut out, live) = watch(&running, "out", &[&asked[..], std::slice::from_ref(&open)].concat()).await;
    assert_eq!(live, 3, "those of an open area, of the group, and the sign");
    write(&world, "Area", &doc(&[("group", "x"), ("id", "a")]));
    write(&world, "Yard", &doc(&[("group", "x"), ("id", "a")]));
    world.clock.advance(60_000);
    let mut all = Vec::new();
    for n in 0..6 {
        let id = n.to_string();
        write(&world, "Plot", &doc(&[("group", "x"), ("area", "a"), ("id", &id)]));
        write(&world, "Bed", &doc(&[("group", "x"), ("yard", "a"), ("id", &id)]));
        write(&world, "Note", &doc(&[("group", "g"), ("id", &id), ("owner", "bob")]));
        write(&world, "Diary", &doc(&[("owner", "bob"), ("id", "1"), ("text", &id)]));
        write(&world, "Letter", &doc(&[("id", "1"), ("text", &id)]));
        all.extend(heard(&world, &mut out, n).await);
    }
    for def in &asked {
        let count = all.iter().filter(|(heard, _)| heard == def).count();
        assert!(count <= 1, "{count} hints of {def}");
    }
    running.stop().await;
}

/// The stranger knows the keys. It learns neither that the documents existed, nor when they came and went.
#[tokio::test]
async fn closed_documents_that_come_and_go_tell_a_stranger_nothing() {
    let (world, running) = server().await;
    let mut seq = 0;
    let mut answers = Vec::new();
    let states: [fn(&World); 4] = [
        |_| {},
        |world| _ = write(world, "Diary", &doc(&[("owner", "bob"), ("id", "1")])),
        |world| {
            let key = doc(&[("owner", "bob"), ("id", "1")]);
            world.engine.write("o", |w| w.delete("Diary", &key)).unwrap();
        },
        |world| _ = write(world, "Diary", &doc(&[("owner", "bob"), ("id", "1")])),
    ];
    for state in states {
        state(&world);
        let mut told = Vec::new();
        for v in [0, 1] {
            let diary = single("Diary", &["bob", "1"]);
            let reply = ask(&running, "out", &format!(r#""subs":[["{diary}",{v}]]"#)).await;
            told.push(format!("{:?}", reply.parts));
        }
        for args in [
            r#"{"class":"Diary","data":{"owner":"bob","id":"1"},"ifVersion":0}"#,
            r#"{"class":"Diary","data":{"owner":"bob","id":"1"},"ifVersion":7}"#,
        ] {
            seq += 1;
            told.push(format!("{:?}", operate(&running, "out", seq, ("doc.put", args)).await));
        }
        for name in ["doc.patch", "doc.delete"] {
            seq += 1;
            let args = r#"{"class":"Diary","key":["bob","1"],"set":{},"ifVersion":7}"#;
            told.push(format!("{:?}", operate(&running, "out", seq, (name, args)).await));
        }
        answers.push(told);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
    running.stop().await;
}
