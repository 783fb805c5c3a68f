//! Under fire: strangers who guess at passphrases, flush the counts of their guesses, and ask who has an account. The clock
//! stands still, and the tests count answers.

use std::collections::BTreeMap;

use escale::codec::{Format, encode};
use escale::model::Value;
use escale::{Code, Error};
use escale_server::accounts::{SignUp, invite};
use escale_server::http::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::accounts::support::*;
use crate::support::client::*;
use crate::support::world::*;

async fn serving(world: &World) -> Running {
    serve(world, |options| options.sign_up = Some(SignUp::Open)).await
}

fn lines(request: &Value) -> Vec<u8> {
    let body = encode(Format::Msgpack, request).unwrap();
    let head = format!(
        "POST /o/account HTTP/1.1\r\nHost: h\r\nContent-Type: application/msgpack\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// The statuses of these requests, one after another over one connection.
async fn statuses(running: &Running, requests: impl IntoIterator<Item = Value>) -> Vec<u16> {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let mut statuses = Vec::new();
    for request in requests {
        stream.write_all(&lines(&request)).await.unwrap();
        let mut answer = Vec::new();
        let end = loop {
            let mut byte = [0; 1_024];
            let n = tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await.expect("an answer").unwrap();
            assert!(n > 0, "the connection ended");
            answer.extend_from_slice(&byte[..n]);
            let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(answer[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if answer.len() == end + 4 + length.parse::<usize>().unwrap() {
                break end;
            }
        };
        statuses.push(parse(&answer[..end + 4]).status);
    }
    statuses
}

fn attempt(desk: &Desk, login: &str, secret: &Secret) -> Value {
    let other = Map::from([("device".to_owned(), Value::Map(Map::new()))]);
    Value::Map(desk.proven("sign-in", login, secret, other))
}

fn tally(statuses: &[u16]) -> BTreeMap<u16, usize> {
    let mut tally = BTreeMap::new();
    for status in statuses {
        *tally.entry(*status).or_default() += 1;
    }
    tally
}

/// Requests without a challenge, or with one of another place, count for nobody. So they flush nothing, and keep nobody out.
#[tokio::test]
async fn r74_empty_attempts_count_for_nothing_and_flush_nothing() {
    let world = world();
    let running = serving(&world).await;
    let desk = Desk::new(&world.engine);
    let (one, wrong) = (Secret::passphrase("one"), Secret::passphrase("wrong"));
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let empty = |name: &str, login: &str| {
        map([("p", Value::from(1)), ("do", Value::from(name)), ("login", Value::from(login))])
    };
    let foreign = |login: &str| {
        let challenge = desk.challenge("somebody", "passphrase").0;
        let other = Map::from([("device".to_owned(), Value::Map(Map::new()))]);
        Value::Map(desk.proven_with("sign-in", login, &wrong, other, challenge))
    };
    let guesses = |n: usize| (0..n).map(|_| attempt(&desk, "ada", &wrong)).collect::<Vec<_>>();
    // None of these is a guess at the passphrase of ada.
    let empties = (0..60).flat_map(|n| {
        [empty("sign-in", "ada"), empty("sign-up", "ada"), foreign("ada"), {
            empty("sign-in", &n.to_string())
        }]
    });
    let first = statuses(&running, empties).await;
    assert_eq!(tally(&first), BTreeMap::from([(400, 180), (503, 60)]));
    assert_eq!(statuses(&running, guesses(7)).await, [401, 401, 401, 401, 401, 429, 429]);
    // A flood of made-up logins, with challenges of their own: the count of ada stays, and the network has had enough.
    let flood = (0..320).map(|n| attempt(&desk, &format!("login-{n}"), &wrong)).collect::<Vec<_>>();
    let flood = statuses(&running, flood).await;
    assert_eq!(tally(&flood), BTreeMap::from([(401, 295), (429, 25)]));
    assert_eq!(statuses(&running, guesses(1)).await, [429]);
    world.clock.advance(14_999);
    assert_eq!(statuses(&running, guesses(1)).await, [429]);
    running.stop().await;
}

/// Sign-ups that are refused by their form count for nothing, and take no count away.
#[tokio::test]
async fn r74_ten_sign_ups_an_hour_are_ten() {
    let world = world();
    let running = serving(&world).await;
    let desk = Desk::new(&world.engine);
    let made = |n: u8| {
        let wraps = vec![Secret::passphrase("one").wrap()];
        Value::Map(desk.signing_up(&format!("login-{n}"), n, wraps, None).unwrap())
    };
    let broken = |n: u8| {
        let Value::Map(mut map) = made(n) else { unreachable!() };
        map.remove("wraps");
        Value::Map(map)
    };
    let requests = (0..30).flat_map(|n| [broken(n), made(n)]);
    let statuses = statuses(&running, requests).await;
    assert_eq!(tally(&statuses), BTreeMap::from([(200, 10), (400, 30), (429, 20)]));
    running.stop().await;
}

/// Guesses have closed a login to its passphrase. A code or a passkey is random: nobody guesses it, so it opens all the same.
#[tokio::test]
async fn r74_a_code_or_a_passkey_signs_in_where_the_passphrase_is_limited() {
    let world = world();
    let running = serving(&world).await;
    let desk = Desk::new(&world.engine);
    let (one, wrong) = (Secret::passphrase("one"), Secret::passphrase("wrong"));
    let (code, key) = (Secret::code("c"), Secret::passkey("k"));
    desk.sign_up("ada", 1, &[&one, &code, &key], None).unwrap();
    let guesses: Vec<_> = (0..5).map(|_| attempt(&desk, "ada", &wrong)).collect();
    assert_eq!(statuses(&running, guesses).await, [401; 5]);
    let owner = [&one, &code, &key].map(|secret| attempt(&desk, "ada", secret));
    assert_eq!(statuses(&running, owner).await, [429, 200, 200]);
    // A wrong one of such an id is no guess either, and tells nothing.
    let false_code = Secret { x: wrong.x, ..code.clone() };
    let guesses: Vec<_> = (0..10).map(|_| attempt(&desk, "ada", &false_code)).collect();
    assert_eq!(statuses(&running, guesses).await, [401; 10]);
    assert_eq!(statuses(&running, [attempt(&desk, "ada", &code)]).await, [200]);
    running.stop().await;
}

/// Who only asks has a limit, too: it takes nothing from those who have tokens.
#[tokio::test]
async fn r74_a_stranger_asks_for_three_hundred_challenges_a_minute() {
    let world = world();
    let running = serving(&world).await;
    let start = || {
        map([
            ("p", Value::from(1)),
            ("do", Value::from("start")),
            ("login", Value::from("ada")),
            ("wrap", Value::from("passphrase")),
        ])
    };
    let answers = statuses(&running, (0..310).map(|_| start())).await;
    assert_eq!(tally(&answers), BTreeMap::from([(200, 300), (429, 10)]));
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    let (body, bearer) = (encode(Format::Msgpack, &start()).unwrap(), format!("Bearer {token}"));
    let headers = [MSGPACK, ("Authorization", &*bearer)];
    assert_eq!(request(&running, "POST", "/o/account", &headers, &body).await.status, 200);
    world.clock.advance(60_000);
    assert_eq!(statuses(&running, [start()]).await, [200]);
    running.stop().await;
}

/// Rounds above the usual ones would show that a login has an account, if unknown ones always had the usual ones.
#[test]
fn r74_an_unknown_login_has_the_rounds_of_some_account() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let make = |login: &str, public: u8, rounds: i64| {
        let mut wrap = Secret::passphrase("one").wrap();
        wrap.as_map_mut().unwrap().insert("rounds".into(), Value::from(rounds));
        let request = desk.signing_up(login, public, vec![wrap], None).unwrap();
        desk.ask(&Value::Map(request), None).unwrap();
    };
    let rounds = |login: &str| desk.challenge(login, "passphrase").2;
    let unknown = || (0..200).map(|n| rounds(&format!("nobody-{n}"))).collect::<Vec<_>>();
    assert_eq!(unknown(), [600_000; 200], "of an org without accounts");
    make("ada", 0, 1_000_000);
    assert_eq!(unknown(), [1_000_000; 200]);
    for n in 1..20 {
        make(&format!("login-{n}"), n, if n % 2 == 0 { 1_000_000 } else { 600_000 });
    }
    assert_eq!([rounds("ada"), rounds("login-1"), rounds("login-2")], [1_000_000, 600_000, 1_000_000]);
    let (found, again) = (unknown(), unknown());
    assert_eq!(found, again, "a login has the same rounds each time");
    let many = found.iter().filter(|rounds| **rounds == 1_000_000).count();
    assert!((1..200).contains(&many) && found.iter().all(|rounds| [600_000, 1_000_000].contains(rounds)));
    assert_eq!(desk.challenge("nobody", "code-c").1, "none");
}

/// A stranger's attempts would make the writes of everybody wait for their turns.
#[test]
fn attempts_that_show_nothing_wait_for_no_lock_of_writes() {
    let world = world();
    let mut desk = Desk::new(&world.engine);
    let (one, wrong) = (Secret::passphrase("one"), Secret::passphrase("wrong"));
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    let close = |secret: &Secret| desk.close(("ada", &token), secret);
    let refused: Vec<Code> = world
        .engine
        .write(ORG, |_| {
            // Here the lock of the org is taken. Who waited for it would end in `contention`.
            let sign_ins =
                [("ada", &wrong), ("nobody", &one)].map(|(login, secret)| desk.sign_in(login, secret, None));
            let mut refused: Vec<Error> = sign_ins.into_iter().map(|result| result.unwrap_err()).collect();
            refused.push(close(&wrong).unwrap_err());
            refused.push(desk.change(("ada", &token), &wrong, &[], &[], true).unwrap_err());
            Ok(refused.iter().map(Error::code).collect())
        })
        .unwrap()
        .value;
    assert_eq!(refused, [Code::WrongPassphrase; 4]);
    for (policy, invitation) in
        [(SignUp::Invited, None), (SignUp::Closed, None), (SignUp::Closed, Some("made-up"))]
    {
        desk.sign_up = policy;
        let refused = world.engine.write(ORG, |_| {
            let known = desk.sign_up("ada", 2, &[&wrong], invitation).unwrap_err().code();
            Ok([known, desk.sign_up("bob", 2, &[&wrong], invitation).unwrap_err().code()])
        });
        assert_eq!(refused.unwrap().value, [Code::InvitationNeeded; 2]);
    }
    // The owner's repeat, whose first answer was lost, is still answered.
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    assert!(invite(&world.engine, ORG, "admin").is_ok());
}
