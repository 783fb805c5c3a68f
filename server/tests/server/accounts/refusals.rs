//! Accounts over the network: tokens that end, limits that an attacker cannot turn against the owner, memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use escale::codec::{Format, ServerFrame, decode, encode};
use escale::model::Value;
use escale_server::accounts::SignUp;
use escale_server::http::Running;

use super::support::*;
use crate::support::client::*;
use crate::support::world::*;

const PULL: &str = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;

async fn serving(world: &World) -> Running {
    serve(world, |options| options.sign_up = Some(SignUp::Open)).await
}

async fn pull(running: &Running, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    request(running, "POST", "/o/sync", &[JSON, ("Authorization", &bearer)], PULL.as_bytes()).await.status
}

async fn post(running: &Running, request_: &Value, token: Option<&str>) -> Answer {
    let body = encode(Format::Msgpack, request_).unwrap();
    let bearer = format!("Bearer {}", token.unwrap_or_default());
    let mut headers = vec![MSGPACK];
    if token.is_some() {
        headers.push(("Authorization", &*bearer));
    }
    request(running, "POST", "/o/account", &headers, &body).await
}

#[tokio::test]
async fn a_server_with_accounts_asks_for_a_token_and_one_without_says_so() {
    let world = world();
    let running = serving(&world).await;
    assert_eq!(pull(&running, "made-up").await, 401);
    assert_eq!(post_json(&running, "/o/sync", PULL).await.status, 401);
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    assert_eq!(pull(&running, &token).await, 200);
    world.clock.advance(7 * DAY);
    assert_eq!(pull(&running, &token).await, 401, "a token is valid for seven days");
    running.stop().await;
    let running = serve(&world, |_| {}).await;
    let request = map([("p", Value::from(1)), ("do", Value::from("start"))]);
    let answer = post(&running, &request, None).await;
    assert_eq!((answer.status, answer.headers["cache-control"].as_str()), (404, "no-store"));
    running.stop().await;
}

/// The socket closes by the row of the feed, and not by its look at tokens every two seconds: the clock stands still.
#[tokio::test]
async fn r77_the_socket_of_a_revoked_device_closes() {
    let world = world();
    let running = serving(&world).await;
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (here, _) = desk.sign_in("ada", &one, None).unwrap();
    let (there, lost) = desk.sign_in("ada", &one, None).unwrap();
    let mut sockets = Vec::new();
    for token in [&here, &there] {
        let mut socket = connect(&running, "/o/live", &[]).await;
        say(&mut socket, Format::Msgpack, Some(token), &[def("Note")]).await;
        assert!(matches!(hear(&mut socket).await.unwrap().1, ServerFrame::Live { .. }));
        sockets.push(socket);
    }
    desk.revoke(&here, &lost).unwrap();
    world.clock.advance(1);
    put(&world.engine, note("a", "one")).unwrap();
    loop {
        match hear(&mut sockets[1]).await {
            Err(closed) => {
                assert_eq!(closed.0, 4401);
                break;
            }
            Ok((_, frame)) => assert!(matches!(frame, ServerFrame::Alive), "{frame:?}"),
        }
    }
    assert!(matches!(hear(&mut sockets[0]).await.unwrap().1, ServerFrame::Hints(_)));
    running.stop().await;
}

/// A token that is read while any account changes is not noted, because it may be void since. The socket's next look then
/// found nothing, and took that for a void token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r77_sockets_stay_open_while_accounts_change() {
    let world = world();
    let running = serving(&world).await;
    let one = Secret::passphrase("one");
    Desk::new(&world.engine).sign_up("eve", 2, &[&one], None).unwrap();
    let (engine, is_over) = (Arc::clone(&world.engine), Arc::new(AtomicBool::new(false)));
    let until = Arc::clone(&is_over);
    let changing = std::thread::spawn(move || {
        let (desk, one) = (Desk::new(&engine), Secret::passphrase("one"));
        let (token, device) = desk.sign_in("eve", &one, None).unwrap();
        while !until.load(Ordering::SeqCst) {
            desk.sign_in("eve", &one, Some(&device)).unwrap();
        }
        token
    });
    let mut sockets = Vec::new();
    for n in 0..20 {
        let (desk, login) = (Desk::new(&world.engine), format!("ada{n}"));
        desk.sign_up(&login, n + 3, &[&one], None).unwrap();
        let (token, _) = desk.sign_in(&login, &one, None).unwrap();
        let mut socket = connect(&running, "/o/live", &[]).await;
        say(&mut socket, Format::Msgpack, Some(&token), &[def("Note")]).await;
        assert!(matches!(hear(&mut socket).await.unwrap().1, ServerFrame::Live { .. }));
        sockets.push(socket);
    }
    is_over.store(true, Ordering::SeqCst);
    changing.join().unwrap();
    running.stop().await;
}

#[tokio::test]
async fn r74_attempts_are_limited_and_a_valid_token_is_not() {
    let world = world();
    let running = serving(&world).await;
    let desk = Desk::new(&world.engine);
    let (one, wrong) = (Secret::passphrase("one"), Secret::passphrase("wrong"));
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, device) = desk.sign_in("ada", &one, None).unwrap();
    let attempt = |secret: &Secret| {
        let of = map([("id", Value::from(device.as_str()))]);
        Value::Map(desk.proven("sign-in", "ada", secret, Map::from([("device".to_owned(), of)])))
    };
    for _ in 0..5 {
        assert_eq!(post(&running, &attempt(&wrong), None).await.status, 401);
    }
    let late = post(&running, &attempt(&one), None).await;
    assert_eq!((late.status, late.headers["retry-after"].as_str()), (429, "15"));
    assert_eq!(late.fault().code, "too_many");
    // The owner's session renews its token meanwhile.
    let renewed = post(&running, &attempt(&one), Some(&token)).await;
    assert_eq!(renewed.status, 200);
    world.clock.advance(15_000);
    let asked = attempt(&one);
    let renewed = post(&running, &asked, None).await;
    assert_eq!(renewed.status, 200);
    // Its token has ended, and others have tried meanwhile: the device renews it all the same.
    let renewed = decode::<Value>(Format::Msgpack, &renewed.body, 1 << 16).unwrap();
    let auth = auth_of_sign_in("ada", &one, asked.as_map().unwrap());
    let last = token_of(private_of(1), &renewed, &auth).unwrap();
    world.clock.advance(7 * DAY);
    for _ in 0..5 {
        assert_eq!(post(&running, &attempt(&wrong), None).await.status, 401);
    }
    assert_eq!(post(&running, &attempt(&one), None).await.status, 429);
    assert_eq!(post(&running, &attempt(&one), Some(&last)).await.status, 200);
    running.stop().await;
}

/// The bearer of a token of one login guesses the secret of another: the limits hold.
#[tokio::test]
async fn r74_a_token_spares_only_its_own_login_the_limits_and_not_for_ever() {
    let world = world();
    let running = serving(&world).await;
    let desk = Desk::new(&world.engine);
    let (one, wrong) = (Secret::passphrase("one"), Secret::passphrase("wrong"));
    for (login, public) in [("ada", 1), ("eve", 2)] {
        desk.sign_up(login, public, &[&one], None).unwrap();
    }
    let (token, _) = desk.sign_in("eve", &one, None).unwrap();
    let attempt = |login: &str, secret: &Secret| {
        let other = Map::from([("device".to_owned(), Value::Map(Map::new()))]);
        Value::Map(desk.proven("sign-in", login, secret, other))
    };
    for _ in 0..5 {
        assert_eq!(post(&running, &attempt("ada", &wrong), Some(&token)).await.status, 401);
    }
    assert_eq!(post(&running, &attempt("ada", &one), Some(&token)).await.status, 429);
    // A request that proves for the token's own login names no other, and one without a proof forgets no failure.
    let list = map([("p", Value::from(1)), ("do", Value::from("wraps")), ("login", Value::from("ada"))]);
    assert_eq!(post(&running, &list, Some(&token)).await.status, 400);
    let proof = Value::Map(desk.proven("wraps", "ada", &wrong, Map::new()));
    assert_eq!(post(&running, &proof, Some(&token)).await.status, 400);
    assert_eq!(post(&running, &attempt("ada", &one), Some(&token)).await.status, 429);
    for _ in 0..100 {
        assert_eq!(post(&running, &attempt("eve", &wrong), Some(&token)).await.status, 401);
    }
    // From here on the limits of everybody hold.
    for _ in 0..5 {
        assert_eq!(post(&running, &attempt("eve", &wrong), Some(&token)).await.status, 401);
    }
    assert_eq!(post(&running, &attempt("eve", &one), Some(&token)).await.status, 429);
    running.stop().await;
}

/// Strangers try one login again and again, at once; each honest sign-in is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r74_a_flood_of_attempts_keeps_no_other_login_out() {
    let world = world();
    let running = Arc::new(serving(&world).await);
    let desk = Desk::new(&world.engine);
    let (one, wrong) = (Secret::passphrase("one"), Secret::passphrase("wrong"));
    for (login, public) in [("ada", 1), ("bob", 2)] {
        desk.sign_up(login, public, &[&one], None).unwrap();
    }
    let attempt = |login: &str, secret: &Secret| {
        let other = Map::from([("device".to_owned(), Value::Map(Map::new()))]);
        Value::Map(desk.proven("sign-in", login, secret, other))
    };
    let mut floods = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (running, wrong) = (Arc::clone(&running), attempt("ada", &wrong));
        floods.spawn(async move {
            for _ in 0..10 {
                let status = post(&running, &wrong, None).await.status;
                assert!(matches!(status, 401 | 429), "{status}");
            }
        });
    }
    for _ in 0..5 {
        assert_eq!(post(&running, &attempt("bob", &one), None).await.status, 200);
    }
    while let Some(ended) = floods.join_next().await {
        ended.unwrap();
    }
}
