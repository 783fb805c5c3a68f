//! No caller can block the server: slow headers, too many requests at once; and the server's shutdown.

use std::time::Duration;

use escale::codec::{Format, ServerFrame};
use escale_server::http::Proxies;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::client::*;
use crate::support::world::*;

const PULL: &str = r#"{"p":1,"session":"s","subs":[]}"#;

#[tokio::test]
async fn a_header_that_does_not_come_is_not_waited_for() {
    let world = world();
    let running = serve(&world, |options| options.header_max = Duration::from_millis(100)).await;
    for part in ["", "POST /o/sync HT", "POST /o/sync HTTP/1.1\r\nHost: h\r\nX: "] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(part.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "the server hangs up by itself after {part:?}");
    }
    let mut socket = connect(&running, "/o/live", &[]).await;
    assert_eq!(
        hear(&mut socket).await.unwrap_err(),
        (1008, "timeout".into()),
        "nor a socket's first message"
    );
    running.stop().await;
}

#[tokio::test]
async fn too_many_requests_are_sent_away_with_a_time_to_come_back() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    for (requests_max, status, code) in [((0, 9), 429, "too_many"), ((9, 0), 503, "unavailable")] {
        let running = serve(&world, |options| options.requests_max = requests_max).await;
        let answer = post_json(&running, "/o/sync", PULL).await;
        assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (status, "1"));
        assert_eq!(answer.fault().code, code);
        assert!(answer.fault().kind.is_retryable());
        running.stop().await;
    }
    let running = serve(&world, |options| options.sockets_max = (1, 9)).await;
    let first = listen(&running, "/o/live", &[def("Note")]).await;
    let mut second = connect(&running, "/o/live", &[]).await;
    say(&mut second, Format::Json, None, &[]).await;
    let (code, reason) = hear(&mut second).await.unwrap_err();
    assert!(code == 4429 && reason.starts_with("too_many "), "{code} {reason}");
    drop(first);
    running.stop().await;
}

#[tokio::test]
async fn the_callers_of_a_trusted_proxy_are_counted_one_by_one() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    for (trusted, second_is_let_in) in [(true, true), (false, false)] {
        let running = serve(&world, |options| {
            options.sockets_max = (1, 9);
            if trusted {
                options.proxies = Proxies::new(&["127.0.0.0/8".into()]).unwrap();
            }
        })
        .await;
        let mut sockets = Vec::new();
        for caller in ["1.1.1.1", "2.2.2.2"] {
            let mut socket = connect(&running, "/o/live", &[("x-forwarded-for", caller)]).await;
            say(&mut socket, Format::Json, None, &[]).await;
            sockets.push((hear(&mut socket).await.is_ok(), socket));
        }
        let let_in: Vec<bool> = sockets.iter().map(|(is_in, _)| *is_in).collect();
        assert_eq!(let_in, [true, second_is_let_in]);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_socket_that_talks_too_much_is_closed() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let mut socket = connect(&running, "/o/live", &[]).await;
    for _ in 0..101 {
        say(&mut socket, Format::Json, None, &[]).await;
    }
    let closed = loop {
        if let Err(closed) = hear(&mut socket).await {
            break closed;
        }
    };
    assert_eq!(closed, (4429, "too_many".into()));
    running.stop().await;
}

/// Where all connections are taken, a silent one leaves before one whose request is on its way.
#[tokio::test]
async fn connections_over_the_cap_take_the_place_of_a_silent_one() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| options.connections_max = 2).await;
    let mut first = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "POST /o/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        PULL.len()
    );
    first.write_all(head.as_bytes()).await.unwrap();
    // The server asked for the body, so the request was admitted.
    let mut asked = [0; 25];
    first.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    for _ in 0..5 {
        let mut silent = TcpStream::connect(running.address).await.unwrap();
        assert_eq!(post_json(&running, "/o/sync", PULL).await.status, 200);
        assert!(matches!(silent.read(&mut [0]).await, Ok(0) | Err(_)), "the silent one was closed");
    }
    first.write_all(PULL.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    first.read_to_end(&mut answer).await.unwrap();
    assert_eq!(parse(&answer).status, 200);
    running.stop().await;
}

/// Ten times as many connections as places say nothing, or send half a header, or open a socket without a
/// first message. Each honest caller is still answered at once.
#[tokio::test]
async fn whoever_says_nothing_yields_to_whoever_comes() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| options.connections_max = 8).await;
    let mut held = Vec::new();
    let mut sockets = Vec::new();
    for n in 0..80 {
        match n % 3 {
            0 => sockets.push(connect(&running, "/o/live", &[]).await),
            kind => {
                let mut stream = TcpStream::connect(running.address).await.unwrap();
                let said: &[u8] = if kind == 1 { b"" } else { b"POST /o/sync HTTP/1.1\r\nHost: h\r\n" };
                stream.write_all(said).await.unwrap();
                held.push(stream);
            }
        }
        if n % 8 == 7 {
            assert_eq!(post_json(&running, "/o/sync", PULL).await.status, 200);
        }
    }
    // A socket that was admitted is no stranger, however long it is silent.
    let mut socket = listen(&running, "/o/live", &[def("Note")]).await;
    for _ in 0..30 {
        held.push(TcpStream::connect(running.address).await.unwrap());
        assert_eq!(post_json(&running, "/o/sync", PULL).await.status, 200);
    }
    let v = put(&world.engine, note("b", "one")).unwrap().unwrap();
    assert_eq!(hints(&mut socket).await, [(def("Note"), v)]);
    let first = hear(&mut sockets[0]).await.unwrap_err();
    assert!(first == (4429, "too_many".into()) || first.0 == 0, "{first:?}");
    running.stop().await;
}

#[tokio::test]
async fn signs_of_life_come_by_themselves() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| options.alive_every = Duration::from_millis(20)).await;
    let mut socket = listen(&running, "/o/live", &[def("Note")]).await;
    for _ in 0..3 {
        assert_eq!(hear(&mut socket).await.unwrap(), (Format::Msgpack, ServerFrame::Alive));
    }
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_says_goodbye() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let address = running.address;
    let mut socket = listen(&running, "/o/live", &[def("Note")]).await;
    let idle = TcpStream::connect(address).await.unwrap();
    let (closed, ()) = tokio::join!(hear(&mut socket), running.stop());
    let (code, reason) = closed.unwrap_err();
    assert!(code == 1012 && reason.starts_with("closing "), "{code} {reason}");
    assert!(TcpStream::connect(address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn a_base_path_stands_before_the_org() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| options.base = "/api/v1/".into()).await;
    assert_eq!(post_json(&running, "/api/v1/o/sync", PULL).await.status, 200);
    assert_eq!(post_json(&running, "/o/sync", PULL).await.status, 404);
    listen(&running, "/api/v1/o/live", &[def("Note")]).await;
    running.stop().await;
}
