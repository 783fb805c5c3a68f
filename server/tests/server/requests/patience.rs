//! Time limits: for a body, for a request, and for a reader that reads nothing. The tests set short limits,
//! and wait for the server's own reaction.
#![allow(clippy::result_large_err)] // as in the engine

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use escale::Kind;
use escale::codec::{Format, LiveRequest, SyncReply, SyncRequest, encode};
use escale::model::Value;
use escale_server::settings::Settings;
use futures_util::SinkExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use crate::support::client::*;
use crate::support::operating::{op, operating};
use crate::support::world::*;

const SHORT: Duration = Duration::from_millis(150);
const PULL: &str = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;

/// A caller with little buffer space for data that it does not read.
async fn narrow(address: std::net::SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(address).await.unwrap()
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| options.body_max = SHORT).await;
    let head = "POST /o/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let cut = &PULL[..PULL.len() - 1];
    for body in [
        format!("Content-Length: {}\r\n\r\n", PULL.len()),
        format!("Content-Length: {}\r\n\r\n{cut}", PULL.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{cut}\r\n", cut.len()),
    ] {
        let answer = exchange(running.address, format!("{head}{body}").as_bytes()).await;
        let fault = answer.fault();
        assert_eq!((answer.status, fault.code.as_str(), fault.kind), (408, "timeout", Kind::X), "{body}");
    }
    assert_eq!(post_json(&running, "/o/sync", PULL).await.status, 200);
    running.stop().await;
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_without_its_end() {
    let World { folder, clock, engine } = operating();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let wait = move |tx: &mut escale_server::engine::OperationTx<'_>, _: &Value| {
        ends.lock().unwrap().recv().unwrap();
        tx.put("Note", note("late", "one"))?;
        Ok(None)
    };
    let engine = Arc::into_inner(engine).unwrap().operation("wait", wait).unwrap();
    let world = World { folder, clock, engine: Arc::new(engine) };
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| options.request_max = SHORT).await;
    let request = SyncRequest { ops: vec![op("late", 1, "wait", Value::Null)], ..SyncRequest::of("s") };
    let body = String::from_utf8(encode(Format::Json, &request).unwrap()).unwrap();
    let answer = post_json(&running, "/o/sync", &body).await;
    assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (503, "1"));
    assert_eq!(answer.fault().code, "unavailable");
    // It still works, in one of the places for requests. A request that only reads is answered meanwhile.
    let reply: SyncReply = post_json(&running, "/o/sync", PULL).await.json();
    assert_eq!((ids(&reply.parts[0]), reply.seq), (vec!["a".to_owned()], 0));
    end.send(()).unwrap();
    let answer = loop {
        // The answer arrives in time once the earlier request has ended.
        let answer = post_json(&running, "/o/sync", &body).await;
        if answer.status == 200 {
            break answer;
        }
        assert_eq!(answer.status, 503);
    };
    let reply: SyncReply = answer.json();
    assert!(reply.results[0].ok.is_some() && reply.seq == 1, "{:?}", reply.results);
    assert_eq!(
        pull(&world.engine, &def("Note"), 0).rows.len(),
        2,
        "it was executed once: nobody let it run again"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_reader_of_nothing_is_dropped() {
    // More than the system buffers for a reader that does not read.
    let world = world_with(Settings { page_bytes: 16 << 20, ..Settings::default() });
    for n in 0..14 {
        let mut large = note(&n.to_string(), "one");
        large.insert("text".into(), Value::from(&*"x".repeat(1_000_000)));
        put(&world.engine, large).unwrap();
    }
    let running = serve(&world, |options| {
        options.stall_max = SHORT;
        options.connections_max = 1;
    })
    .await;
    let mut lazy = narrow(running.address).await;
    let request = format!(
        "POST /o/sync HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{PULL}",
        PULL.len()
    );
    lazy.write_all(request.as_bytes()).await.unwrap();
    // There is one place: it becomes free when the lazy reader is dropped.
    let answer = tokio::time::timeout(PATIENCE, post_json(&running, "/o/sync", PULL)).await.expect("a place");
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() > 14_000_000);
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, lazy.read_to_end(&mut rest)).await.expect("its end");
    assert!(rest.len() < answer.body.len(), "it got no more than the system had taken");
    running.stop().await;
}

#[tokio::test]
async fn a_socket_that_reads_nothing_is_dropped() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |options| {
        options.send_max = SHORT;
        options.sockets_max = (1, 1);
    })
    .await;
    let url = format!("ws://{}/o/live", running.address);
    let stream = narrow(running.address).await;
    let (mut lazy, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    // Each message is answered with a fault for each def, which nobody reads.
    let subs = (0..1_000).map(|n| def(&format!("{}{n}", "Unknown".repeat(8)))).collect();
    let message = LiveRequest { token: None, session: "s".into(), subs };
    let message = Message::Binary(encode(Format::Msgpack, &message).unwrap().into());
    let talk = tokio::spawn(async move {
        for _ in 0..100 {
            if lazy.send(message.clone()).await.is_err() {
                break;
            }
        }
        lazy
    });
    let lazy = talk.await.unwrap();
    // There is one place: it becomes free when the lazy reader is dropped. Only the place itself shows that.
    let place = async {
        loop {
            let mut socket = connect(&running, "/o/live", &[]).await;
            say(&mut socket, Format::Json, None, &[]).await;
            match hear(&mut socket).await {
                Ok(_) => break,
                Err(closed) => assert_eq!(closed, (4429, "too_many".into())),
            }
        }
    };
    tokio::time::timeout(PATIENCE, place).await.expect("a place");
    drop(lazy);
    running.stop().await;
}
