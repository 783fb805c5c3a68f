//! The listener for operators: health, counts, and the end of an instance (R45).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use escale::codec::{Format, SyncRequest};
use escale_server::http::Running;
use escale_server::settings::Settings;

use crate::support::client::*;
use crate::support::operating::{op, operating, put_args};
use crate::support::world::*;

async fn served(world: &World) -> Running {
    serve(world, |options| options.admin = Some("127.0.0.1:0".into())).await
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let Answer { status, body, .. } = exchange(address, request.as_bytes()).await;
    (status, String::from_utf8(body).unwrap())
}

/// The value of a count.
fn count(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_instance_is_ready_until_it_drains_and_answers_all_the_same() {
    let world = operating();
    put(&world.engine, note("a", "one")).unwrap();
    let running = served(&world).await;
    let admin = running.admin.unwrap();
    assert_eq!(get(admin, "/livez").await, (200, "alive\n".into()));
    assert_eq!(get(admin, "/readyz").await, (200, "ready\n".into()));
    running.drain();
    assert_eq!(get(admin, "/readyz").await, (503, "draining: the instance stops\n".into()));
    assert_eq!(get(admin, "/livez").await.0, 200);
    let pull = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;
    assert_eq!(post_json(&running, "/o/sync", pull).await.status, 200, "those who come are served");
    // Strangers do not learn anything of this.
    for path in ["/livez", "/readyz", "/metrics"] {
        let (status, body) = get(running.address, path).await;
        assert!(status == 404 && body.contains("not_found"), "{path}: {status} {body}");
    }
    running.stop().await;
}

#[tokio::test]
async fn an_instance_whose_schema_was_replaced_is_not_ready() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = served(&world).await;
    let admin = running.admin.unwrap();
    let newer = SCHEMA.replacen("\"Log\"", "\"More\": { \"key\": [\"id\"] }, \"Log\"", 1);
    let other =
        crate::support::items::open_schema(world.folder.path(), &world.clock, Settings::default(), &newer);
    drop(other);
    let (status, body) = get(admin, "/readyz").await;
    assert!(
        status == 503 && body.starts_with("unavailable: another instance has a newer schema"),
        "{status} {body}"
    );
    running.stop().await;
}

#[tokio::test]
async fn the_counts_follow_requests_operations_sockets_and_hints() {
    let world = operating();
    let running = served(&world).await;
    let admin = running.admin.unwrap();
    let send = |id: &str, seq| {
        let request =
            SyncRequest { ops: vec![op(id, seq, "doc.put", put_args("a", "one"))], ..SyncRequest::of("s") };
        String::from_utf8(escale::codec::encode(Format::Json, &request).unwrap()).unwrap()
    };
    let mut socket = listen(&running, "/o/live", &[def("Note")]).await;
    assert_eq!(post_json(&running, "/o/sync", &send("one", 1)).await.status, 200);
    assert!(matches!(hear(&mut socket).await, Ok((_, escale::codec::ServerFrame::Hints(_)))));
    assert_eq!(post_json(&running, "/o/sync", "no json").await.status, 400);
    let (status, text) = get(admin, "/metrics").await;
    assert!(status == 200 && text.ends_with("# EOF\n"), "{text}");
    assert_eq!(count(&text, "escale_requests_total{route=\"sync\",status=\"200\"}") as u64, 1);
    assert_eq!(count(&text, "escale_requests_total{route=\"sync\",status=\"400\"}") as u64, 1);
    assert_eq!(count(&text, "escale_operations_total{end=\"ok\"}") as u64, 1);
    assert_eq!(count(&text, "escale_sockets") as u64, 1);
    assert!(count(&text, "escale_hints_total") >= 1.0 && count(&text, "escale_commits_total") >= 1.0);
    // The write waited for its turn, was executed and committed; each is counted once.
    let commits = count(&text, "escale_commits_total");
    for seconds in ["wait", "write", "commit"] {
        assert!(count(&text, &format!("escale_{seconds}_seconds_count")) >= commits, "{text}");
    }
    assert!(count(&text, "escale_write_seconds_sum") > 0.0);
    assert_eq!(count(&text, "escale_renewals_total") as u64, 0);
    assert!(
        !text.contains("Note") && !text.contains("\"o\""),
        "no label tells about documents or orgs: {text}"
    );
    drop(socket);
    running.stop().await;
}

/// Lines of this process's log. Each test looks for lines of its own.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_lines_that_a_request_causes_carry_its_trace() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let log = Log::default();
    let to = log.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || to.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test takes the log");
    let world = operating();
    let running = served(&world).await;
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    for (session, header) in [("s1", Some(("traceparent", parent.as_str()))), ("s2", None)] {
        let sent = SyncRequest { ops: vec![op(session, 1, "panic", "")], ..SyncRequest::of(session) };
        let body = escale::codec::encode(Format::Json, &sent).unwrap();
        let headers: Vec<_> = [JSON].into_iter().chain(header).collect();
        assert_eq!(request(&running, "POST", "/o/sync", &headers, &body).await.status, 200);
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    // Other tests write to the same log.
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(TRACE)).collect();
    assert!(lines.len() == 1 && lines[0].contains("an operation panicked"), "{lines:?}");
    running.stop().await;
}

#[tokio::test]
async fn r45_sockets_close_over_the_time_of_the_drain() {
    const SOCKETS: usize = 40;
    let world = world();
    let drain = Duration::from_millis(600);
    let running = serve(&world, |options| options.drain = drain).await;
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        sockets.push(listen(&running, "/o/live", &[def("Note")]).await);
    }
    let began = std::time::Instant::now();
    let ends: Vec<_> = sockets
        .into_iter()
        .map(|mut socket| {
            tokio::spawn(async move {
                let closed = loop {
                    if let Err(closed) = hear(&mut socket).await {
                        break closed;
                    }
                };
                // At 400 pulls a second, 40 sessions come back within 100 ms (R43).
                let spread = closed.1.strip_prefix("closing ").and_then(|ms| ms.parse::<u64>().ok());
                assert!(closed.0 == 1012 && spread.is_some_and(|ms| ms <= 100), "{closed:?}");
                began.elapsed()
            })
        })
        .collect();
    running.stop().await;
    let mut first = drain;
    let mut last = Duration::ZERO;
    for end in ends {
        let after = end.await.unwrap();
        (first, last) = (first.min(after), last.max(after));
    }
    // With 40 sockets, all in one half of the time is a chance of one in some 10^12.
    assert!(last > first + drain / 4, "from {first:?} to {last:?}");
}
