//! Under fire: a token that is withdrawn or expires silences the sockets that it opened.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use escale::codec::{Format, ServerFrame};
use escale_server::http::Tokens;

use crate::support::client::*;
use crate::support::proof::shown;
use crate::support::world::*;

/// The promise.
const SILENT_WITHIN: Duration = Duration::from_secs(5);

/// The ways in which a token becomes invalid.
const WAYS: [&str; 3] = ["withdrawn", "moved", "expired"];

/// The tokens file with `each` tokens for each way, before or after they end.
fn tokens(each: usize, have_ended: bool) -> String {
    let access =
        |org: &str, until: &str| format!(r#"{{"account":"a","orgs":["{org}"],"role":"read"{until}}}"#);
    let mut file: BTreeMap<String, String> = BTreeMap::new();
    for n in 0..each {
        if !have_ended {
            file.insert(format!("withdrawn-{n}"), access("o", ""));
        }
        file.insert(format!("moved-{n}"), access(if have_ended { "p" } else { "o" }, ""));
        file.insert(format!("expired-{n}"), access("o", &format!(r#","until":{}"#, NOON + 60_000)));
    }
    file.insert("good".into(), access("o", &format!(r#","until":{}"#, NOON + 120_000)));
    let lines: Vec<String> = file.iter().map(|(token, access)| format!("\"{token}\":{access}")).collect();
    format!("{{{}}}", lines.join(","))
}

async fn open_socket(running: &escale_server::http::Running, token: &str) -> Socket {
    let mut socket = connect(running, "/o/live", &[]).await;
    say(&mut socket, Format::Msgpack, Some(token), &[def("Note")]).await;
    assert!(matches!(hear(&mut socket).await.unwrap().1, ServerFrame::Live { .. }));
    socket
}

/// Reads a socket to its end: the close code, and the frames before it.
async fn to_the_end(mut socket: Socket) -> (u16, Vec<ServerFrame>) {
    let mut frames = Vec::new();
    loop {
        match hear(&mut socket).await {
            Ok((_, frame)) => frames.push(frame),
            Err((code, _)) => return (code, frames),
        }
    }
}

/// Ends tokens under open sockets, with or without changes to report. Returns the longest time that a socket
/// stayed open.
async fn end_tokens(each: usize, changes: usize) -> Duration {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = world.folder.path().join("tokens.json");
    std::fs::write(&path, tokens(each, false)).unwrap();
    let running = serve(&world, |options| {
        options.tokens = Tokens::from_file(path.clone()).unwrap();
        options.sockets_max = (1_000, 1_000);
    })
    .await;
    let mut good = open_socket(&running, "good").await;
    let mut ending = Vec::new();
    for way in WAYS {
        for n in 0..each {
            ending.push((way, open_socket(&running, &format!("{way}-{n}")).await));
        }
    }
    let since = Instant::now();
    std::fs::write(&path, tokens(each, true)).unwrap();
    world.clock.advance(60_000);
    for n in 0..changes {
        put(&world.engine, note(&n.to_string(), "one")).unwrap();
    }
    let mut longest = Duration::ZERO;
    let ends: Vec<_> =
        ending.into_iter().map(|(way, socket)| (way, tokio::spawn(to_the_end(socket)))).collect();
    for (way, end) in ends {
        let (code, frames) = end.await.unwrap();
        let at = since.elapsed();
        assert_eq!(code, 4401, "{way}");
        assert!(!frames.iter().any(|frame| matches!(frame, ServerFrame::Hints(_))), "{way}: {frames:?}");
        assert!(at <= SILENT_WITHIN, "{way}: {at:?}");
        longest = longest.max(at);
    }
    // A socket with a good token gets hints all the time.
    let v = put(&world.engine, note("last", "one")).unwrap().unwrap();
    while !hints(&mut good).await.contains(&(def("Note"), v)) {}
    running.stop().await;
    longest
}

#[tokio::test]
async fn a_token_that_ends_silences_its_open_sockets_within_five_seconds() {
    let since = Instant::now();
    let each = 10;
    for changes in [0, 5] {
        let longest = end_tokens(each, changes).await;
        eprintln!("with {changes} changes: the last socket closed after {longest:.1?}");
    }
    let sockets = 2 * (WAYS.len() * each) as u64;
    let promise = "a token withdrawn or expired silences an open socket within 5 s";
    shown("server-tokens", promise, sockets, "sockets", since);
}

/// The file's time and length stay the same, as when it is written twice within a tick of its clock.
#[tokio::test]
async fn a_token_withdrawn_in_the_moment_it_was_given_is_withdrawn() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = world.folder.path().join("tokens.json");
    let file = |token: &str| format!(r#"{{"{token}": {{"account": "a", "orgs": ["o"], "role": "read"}}}}"#);
    std::fs::write(&path, file("first")).unwrap();
    let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
    let running = serve(&world, |options| options.tokens = Tokens::from_file(path.clone()).unwrap()).await;
    let mut socket = open_socket(&running, "first").await;
    std::fs::write(&path, file("other")).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
    put(&world.engine, note("b", "one")).unwrap();
    assert_eq!(hear(&mut socket).await.unwrap_err(), (4401, "unauthorized".into()));
    running.stop().await;
}
