//! Under fire: callers who take places, lines or memory before they have paid for them, or who pay as slowly as they can.
//! Few places stand for many, so that the attacks are small. A trusted proxy gives each caller an address of its own.

use std::fmt::Write as _;

use escale::codec::{FilesReply, Format, ServerFrame};
use escale::model::Value;
use escale_server::accounts::SignUp;
use escale_server::engine::sha_of;
use escale_server::http::{Proxies, Running, ServeOptions, Tokens};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::accounts::support::{Desk, Secret};
use crate::support::client::*;
use crate::support::world::*;

const PULL: &str = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;

/// A server of accounts and tokens, with 4 places for requests and for transfers of each caller, and 8 in all.
async fn serving(world: &World, accounts: usize, change: impl FnOnce(&mut ServeOptions)) -> Running {
    let mut tokens = String::from("{");
    for n in 0..accounts {
        let comma = if n == 0 { "" } else { "," };
        write!(tokens, r#"{comma}"t{n}":{{"account":"a{n}","orgs":["o"],"role":"write"}}"#).unwrap();
    }
    let path = world.folder.path().join("tokens.json");
    std::fs::write(&path, tokens + "}").unwrap();
    serve(world, |options| {
        options.sign_up = Some(SignUp::Open);
        options.tokens = Tokens::from_file(path).unwrap();
        options.proxies = Proxies::new(&["127.0.0.0/8".into()]).unwrap();
        (options.requests_max, options.transfers_max) = ((4, 8), (4, 8));
        change(options);
    })
    .await
}

/// The header of a request whose body is to come. The server asks for the body once it is ready to read it.
fn head(method: &str, path: &str, from: &str, token: Option<&str>, length: usize) -> String {
    let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\n\
         X-Forwarded-For: {from}\r\n{bearer}Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    )
}

/// A request whose body the server waits for: it has one byte of it.
async fn begun(running: &Running, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut asked = [0; 25];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut asked)).await;
    read.expect("the server asks for the body").unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{").await.unwrap();
    stream
}

async fn rest_of(mut stream: TcpStream) -> Answer {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer");
    assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
    parse(&answer)
}

async fn as_account(running: &Running, method: &str, path: &str, token: &str, body: &[u8]) -> Answer {
    let bearer = format!("Bearer {token}");
    request(running, method, path, &[JSON, ("Authorization", &bearer)], body).await
}

/// Three times as many slow bodies as there are places, of strangers and of accounts: everybody else is answered.
#[tokio::test]
async fn bodies_that_do_not_arrive_take_no_place() {
    let world = world();
    let running = serving(&world, 6, |_| {}).await;
    let mut held = Vec::new();
    for n in 0..12 {
        let stranger = head("POST", "/o/account", &format!("10.0.{}.1", n / 4), None, 60_000);
        held.push(begun(&running, &stranger).await);
        let token = format!("t{}", n / 4);
        held.push(begun(&running, &head("POST", "/o/sync", "10.9.9.9", Some(&token), 4_000_000)).await);
        held.push(
            begun(&running, &head("POST", "/o/files", "10.9.9.9", Some(&format!("t{}", 3 + n / 4)), 9)).await,
        );
    }
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    assert_eq!(as_account(&running, "POST", "/o/sync", &token, PULL.as_bytes()).await.status, 200);
    let start = r#"{"p":1,"do":"start","login":"ada","wrap":"passphrase"}"#;
    assert_eq!(post_json(&running, "/o/account", start).await.status, 200, "a stranger signs in, too");
    // Each caller has its own number all the same, before its body is read.
    let mut late = TcpStream::connect(running.address).await.unwrap();
    late.write_all(head("POST", "/o/sync", "10.9.9.9", Some("t0"), 9).as_bytes()).await.unwrap();
    let refused = rest_of(late).await;
    assert_eq!((refused.status, refused.fault().code.as_str()), (429, "too_many"));
    drop(held);
    running.stop().await;
}

/// An owner of one network of IPv6 has 2^64 addresses, and the requests and sockets of one caller.
#[tokio::test]
async fn the_addresses_of_a_network_are_one_caller() {
    let world = world();
    let running = serve(&world, |options| {
        options.proxies = Proxies::new(&["127.0.0.0/8".into()]).unwrap();
        (options.requests_max, options.transfers_max, options.sockets_max) = ((1, 9), (1, 9), (1, 9));
    })
    .await;
    let ours = ["2001:db8:0:1::5", "2001:db8:0:1:6:7:8:9"];
    let other = "2001:db8:0:2::5";
    let file = format!("/o/file/{}", sha_of(b"one"));
    for (method, path) in [("POST", "/o/sync"), ("POST", "/o/files"), ("PUT", &*file)] {
        let held = begun(&running, &head(method, path, ours[0], None, 9)).await;
        let mut late = TcpStream::connect(running.address).await.unwrap();
        late.write_all(head(method, path, ours[1], None, 9).as_bytes()).await.unwrap();
        assert_eq!(rest_of(late).await.status, 429, "{path}");
        drop((begun(&running, &head(method, path, other, None, 9)).await, held));
    }
    let mut sockets = Vec::new();
    for (from, is_let_in) in [(ours[0], true), (ours[1], false), (other, true)] {
        let mut socket = connect(&running, "/o/live", &[("x-forwarded-for", from)]).await;
        say(&mut socket, Format::Json, None, &[]).await;
        assert_eq!(hear(&mut socket).await.is_ok(), is_let_in, "{from}");
        sockets.push(socket);
    }
    running.stop().await;
}

/// All lines of uploads are taken by slow ones of few accounts: uploads and downloads of others go on.
#[tokio::test]
async fn slow_uploads_keep_nobody_out() {
    let world = world();
    let running = serving(&world, 3, |_| {}).await;
    let bytes = b"a file of somebody else";
    let file = format!("/o/file/{}", sha_of(bytes));
    let mut held = Vec::new();
    for n in 0..8 {
        let path = format!("/o/file/{}", sha_of(&[n]));
        let token = format!("t{}", n / 4);
        held.push(begun(&running, &head("PUT", &path, "10.9.9.9", Some(&token), 1 << 20)).await);
    }
    assert_eq!(as_account(&running, "PUT", &file, "t2", bytes).await.status, 200);
    let got = as_account(&running, "GET", &file, "t2", b"").await;
    assert_eq!((got.status, &got.body[..]), (200, &bytes[..]));
    let asked = format!(r#"{{"p":1,"have":["{}"]}}"#, sha_of(bytes));
    let there: FilesReply = as_account(&running, "POST", "/o/files", "t2", asked.as_bytes()).await.json();
    assert_eq!(there.there.len(), 1);
    // One of the slow ones made room: it may come again.
    let mut ended = 0;
    for mut stream in held {
        let mut answer = vec![0; 12];
        if tokio::time::timeout(std::time::Duration::ZERO, stream.read_exact(&mut answer)).await.is_ok() {
            assert_eq!(&answer, b"HTTP/1.1 503");
            ended += 1;
        }
    }
    assert_eq!(ended, 1);
    running.stop().await;
}

/// Replies that nobody reads hold no place. All callers who do not read are of two accounts.
#[tokio::test]
async fn replies_that_are_not_read_take_no_place() {
    let world = world();
    let text = Value::from(&*"x".repeat(900_000));
    for n in 0..4 {
        let mut large = note(&n.to_string(), "one");
        large.insert("text".into(), text.clone());
        put(&world.engine, large).unwrap();
        world.clock.advance(1);
    }
    let running = serving(&world, 3, |options| options.transfers_max = (4, 8)).await;
    let file = format!("/o/file/{}", sha_of(&vec![7; 1 << 20]));
    let put = as_account(&running, "PUT", &file, "t0", &vec![7; 1 << 20]).await;
    assert_eq!(put.status, 200);
    let mut held = Vec::new();
    for n in 0..8 {
        for (method, path, body) in [("POST", "/o/sync", PULL), ("GET", &*file, "")] {
            let lines = format!(
                "{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
                 Authorization: Bearer t{}\r\nContent-Length: {}\r\n\r\n{body}",
                n / 4,
                body.len()
            );
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            stream.write_all(lines.as_bytes()).await.unwrap();
            // Its answer has begun.
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            assert_eq!(&status, b"HTTP/1.1 200");
            held.push(stream);
        }
    }
    assert_eq!(as_account(&running, "POST", "/o/sync", "t2", PULL.as_bytes()).await.status, 200);
    assert_eq!(as_account(&running, "GET", &file, "t2", b"").await.status, 200);
    running.stop().await;
}

/// A def may have a thousand characters, and a socket a thousand defs: their bytes are bounded, and not their number alone.
#[tokio::test]
async fn a_socket_names_sixty_four_kibibytes_of_defs() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let named = |count: usize, length: usize| -> Vec<_> {
        (0..count).map(|n| def(&format!("Note@{n:0>width$}", width = length - "Note@".len()))).collect()
    };
    for (defs_bytes, fits) in [(64 << 10, (64, 1_024)), (100 << 10, (100, 1_024)), (64 << 10, (1_000, 65))] {
        let running = serve(&world, |options| options.defs_bytes_max = defs_bytes).await;
        let mut socket = listen(&running, "/o/live", &named(fits.0, fits.1)).await;
        let mut more = named(fits.0, fits.1);
        more.truncate(fits.0 - 1);
        more.extend(named(1, fits.1 - 3));
        more.extend(named(1, 540));
        say(&mut socket, Format::Json, None, &more).await;
        let closed = loop {
            match hear(&mut socket).await {
                Ok((_, frame)) => assert!(matches!(frame, ServerFrame::Alive), "{frame:?}"),
                Err(closed) => break closed,
            }
        };
        assert_eq!(closed, (1008, "too_large".into()), "{fits:?}");
        running.stop().await;
    }
}
