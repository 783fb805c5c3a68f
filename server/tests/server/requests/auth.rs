//! Access control: tokens, orgs, roles, and the pages of other origins.

use escale::Kind;
use escale::codec::{Format, ServerFrame, SyncReply};
use escale_server::http::{Origins, Tokens};

use crate::support::client::*;
use crate::support::world::*;

const TOKENS: &str = r#"{
    "tok-reader": {"account": "r", "orgs": ["o"], "role": "read"},
    "tok-writer": {"account": "w", "orgs": ["o", "new"], "role": "write"}
}"#;

const PULL: &str = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

async fn post_as(running: &escale_server::http::Running, org: &str, token: &str, body: &str) -> Answer {
    let headers = [JSON, ("Authorization", &*bearer(token))];
    request(running, "POST", &format!("/{org}/sync"), &headers, body.as_bytes()).await
}

fn with_tokens(world: &World) -> std::path::PathBuf {
    let path = world.folder.path().join("tokens.json");
    std::fs::write(&path, TOKENS).unwrap();
    path
}

#[tokio::test]
async fn a_token_opens_its_orgs_and_nothing_else() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = with_tokens(&world);
    let running = serve(&world, |options| options.tokens = Tokens::from_file(path).unwrap()).await;

    for headers in [vec![JSON], vec![JSON, ("Authorization", "Basic dG9r")], vec![MSGPACK]] {
        let answer = request(&running, "POST", "/o/sync", &headers, PULL.as_bytes()).await;
        assert_eq!((answer.status, answer.headers["www-authenticate"].as_str()), (401, "Bearer"));
        let fault = answer.fault();
        assert_eq!((fault.code.as_str(), fault.kind, fault.phase), ("unauthorized", Kind::S, 0));
    }
    assert_eq!(post_as(&running, "o", "tok-other", PULL).await.status, 401);
    let forbidden = post_as(&running, "elsewhere", "tok-reader", PULL).await;
    assert_eq!((forbidden.status, forbidden.fault().code.as_str()), (403, "forbidden"));
    let reply: SyncReply = post_as(&running, "o", "tok-reader", PULL).await.json();
    assert_eq!(reply.parts[0].rows.len(), 1);
    let reply: SyncReply = post_as(&running, "new", "tok-writer", PULL).await.json();
    assert_eq!(reply.parts[0].rows.len(), 0, "an org that a token names is there, though empty");
    running.stop().await;
}

#[tokio::test]
async fn a_token_opens_nothing_from_the_moment_of_its_end() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = world.folder.path().join("tokens.json");
    let end = NOON + 1_000;
    let tokens = format!(
        r#"{{"ends": {{"account": "e", "orgs": ["o"], "role": "read", "until": {end}}},
            "lasts": {{"account": "l", "orgs": ["o"], "role": "read"}}}}"#
    );
    std::fs::write(&path, tokens).unwrap();
    let running = serve(&world, |options| options.tokens = Tokens::from_file(path).unwrap()).await;
    world.clock.set(end - 1);
    assert_eq!(post_as(&running, "o", "ends", PULL).await.status, 200);
    world.clock.set(end);
    let refused = post_as(&running, "o", "ends", PULL).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.fault().code, "unauthorized");
    assert_eq!(post_as(&running, "o", "lasts", PULL).await.status, 200);
    running.stop().await;
}

#[tokio::test]
async fn operations_are_refused_by_name_and_by_role() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = with_tokens(&world);
    let running = serve(&world, |options| options.tokens = Tokens::from_file(path).unwrap()).await;
    let body = r#"{"p":1,"session":"s","ops":[
        {"id":"1","seq":1,"name":"doc.put","args":{},"at":0},
        {"id":"2","seq":2,"name":"pay","args":null,"at":0}],"subs":[["Note",0]]}"#;
    for (token, codes) in
        [("tok-writer", ["bad_value", "unknown_operation"]), ("tok-reader", ["forbidden", "forbidden"])]
    {
        // Each account has its own session.
        let body = body.replace(r#""session":"s""#, &format!(r#""session":"{token}""#));
        let reply: SyncReply = post_as(&running, "o", token, &body).await.json();
        let seen: Vec<_> = reply.results.iter().map(|r| (&*r.id, &*r.fault.as_ref().unwrap().code)).collect();
        assert_eq!(seen, [("1", codes[0]), ("2", codes[1])]);
        assert_eq!((reply.seq, reply.parts[0].rows.len()), (2, 1), "the parts are served all the same");
    }
    running.stop().await;
}

#[tokio::test]
async fn tokens_are_read_again_when_the_file_changes() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = with_tokens(&world);
    let running = serve(&world, |options| {
        options.tokens = Tokens::from_file(path.clone()).unwrap();
        options.alive_every = std::time::Duration::from_millis(20);
    })
    .await;
    let mut socket = connect(&running, "/o/live", &[]).await;
    say(&mut socket, Format::Json, Some("tok-reader"), &[def("Note")]).await;
    assert!(matches!(hear(&mut socket).await.unwrap().1, ServerFrame::Live { .. }));
    std::fs::write(&path, "{ not json").unwrap();
    assert_eq!(post_as(&running, "o", "tok-reader", PULL).await.status, 200, "what was known stays in force");
    std::fs::write(&path, r#"{"tok-third": {"account": "x", "orgs": ["o"], "role": "admin"}}"#).unwrap();
    assert_eq!(post_as(&running, "o", "tok-third", PULL).await.status, 200);
    assert_eq!(post_as(&running, "o", "tok-reader", PULL).await.status, 401);
    let closed = loop {
        match hear(&mut socket).await {
            Ok((_, ServerFrame::Alive)) => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(closed, (4401, "unauthorized".into()), "a token withdrawn closes its socket");
    running.stop().await;
}

#[test]
fn a_tokens_file_that_cannot_be_used_is_refused_without_telling_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    for text in [
        "",
        "[]",
        r#"{"secret": 1}"#,
        r#"{"secret":{"account":"a","orgs":["o"],"role":"king"}}"#,
        r#"{"":{"account":"a","orgs":[],"role":"read"}}"#,
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Tokens::from_file(path.clone()).err().unwrap();
        assert_eq!(error.code(), escale::Code::BadOption);
        assert!(!error.to_string().contains("secret") && !error.to_string().contains("king"), "{error}");
    }
    assert!(Tokens::from_file(folder.path().join("none")).is_err());
}

#[tokio::test]
async fn a_socket_needs_a_token_too() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let path = with_tokens(&world);
    let running = serve(&world, |options| options.tokens = Tokens::from_file(path).unwrap()).await;
    for (token, reason) in [(None, "unauthorized"), (Some("nope"), "unauthorized")] {
        let mut socket = connect(&running, "/o/live", &[]).await;
        say(&mut socket, Format::Json, token, &[]).await;
        assert_eq!(hear(&mut socket).await.unwrap_err(), (4401, reason.into()));
    }
    let mut socket = connect(&running, "/elsewhere/live", &[]).await;
    say(&mut socket, Format::Json, Some("tok-reader"), &[]).await;
    assert_eq!(hear(&mut socket).await.unwrap_err(), (4401, "forbidden".into()));
    let mut socket = connect(&running, "/o/live", &[("authorization", &bearer("tok-reader"))]).await;
    say(&mut socket, Format::Msgpack, None, &[def("Note")]).await;
    assert!(matches!(hear(&mut socket).await.unwrap().1, ServerFrame::Live { .. }));
    running.stop().await;
}

#[tokio::test]
async fn pages_of_other_origins_may_not_call() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| {
        options.origins = Origins::new(&["https://app.example".into()]).unwrap();
    })
    .await;
    for origin in ["http://localhost:3000", "http://[::1]:1", "https://app.example"] {
        let headers = [JSON, ("Origin", origin)];
        let answer = request(&running, "POST", "/o/sync", &headers, PULL.as_bytes()).await;
        assert_eq!((answer.status, answer.headers["access-control-allow-origin"].as_str()), (200, origin));
        assert_eq!(answer.headers["vary"], "Origin");
        let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST")];
        let answer = request(&running, "OPTIONS", "/o/sync", &headers, b"").await;
        assert_eq!((answer.status, answer.headers["access-control-allow-origin"].as_str()), (204, origin));
        assert!(answer.headers["access-control-allow-headers"].contains("Authorization"));
        assert!(try_connect(&running, "/o/live", &[("origin", origin)]).await.is_ok());
    }
    for origin in ["https://evil.example", "http://localhost.evil.example", "null"] {
        for method in ["POST", "OPTIONS"] {
            let answer =
                request(&running, method, "/o/sync", &[JSON, ("Origin", origin)], PULL.as_bytes()).await;
            assert_eq!((answer.status, answer.fault().code.as_str()), (403, "forbidden"));
            assert!(!answer.headers.contains_key("access-control-allow-origin"));
        }
        assert_eq!(try_connect(&running, "/o/live", &[("origin", origin)]).await.err(), Some(403));
    }
    running.stop().await;
}

#[tokio::test]
async fn orgs_are_kept_apart() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    world.engine.write("other", |w| w.put("Note", note("b", "one"))).unwrap();
    let running = serve(&world, |_| {}).await;
    let everything = format!(
        r#"{{"p":1,"session":"s","subs":[["Note",0],["{}",0],["Note@{}",0]]}}"#,
        shelf("one"),
        escale::model::sha_s("b")
    );
    for (org, id, seen) in [("o", "a", [1, 1, 0]), ("other", "b", [1, 1, 1])] {
        let reply: SyncReply = post_json(&running, &format!("/{org}/sync"), &everything).await.json();
        let rows: Vec<usize> = reply.parts.iter().map(|part| part.rows.len()).collect();
        assert_eq!(rows, seen, "{org}");
        assert_eq!(ids(&reply.parts[0]), [id]);
        assert_eq!(reply.parts[0].present.as_ref().unwrap().len(), 1);
    }
    running.stop().await;
}
