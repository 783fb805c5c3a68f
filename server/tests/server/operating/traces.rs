//! The export of spans: a small collector of OTLP over HTTP stands in for a real one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use escale::codec::{Format, SyncReply, SyncRequest, decode, encode};

use crate::support::client::parse;
use crate::support::operating::{op, put_args};
use crate::support::world::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Texts of keys, values, orgs, accounts and tokens.
const SECRETS: [&str; 6] =
    ["secret-key", "secret-shelf", "secret-org", "secret-account", "secret-token", "secret-operation"];

/// A message of the protocol's encoding: its fields by their numbers.
struct Message(Vec<(u64, Vec<u8>)>);

impl Message {
    fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let length = match key & 7 {
                0 => {
                    fields.push((key >> 3, varint(&mut bytes).to_be_bytes().to_vec()));
                    continue;
                }
                1 => 8,
                2 => varint(&mut bytes) as usize,
                5 => 4,
                other => panic!("no field of the kind {other} is known"),
            };
            let (value, rest) = bytes.split_at(length);
            fields.push((key >> 3, value.to_vec()));
            bytes = rest;
        }
        Message(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &Vec<u8>> {
        self.0.iter().filter(move |(each, _)| *each == number).map(|(_, value)| value)
    }

    fn messages(&self, number: u64) -> impl Iterator<Item = Message> {
        self.all(number).map(|bytes| Message::read(bytes))
    }

    fn hex(&self, number: u64) -> String {
        self.all(number).flatten().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    fn text(&self, number: u64) -> String {
        String::from_utf8(self.all(number).flatten().copied().collect()).unwrap()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 127) << shift;
        if first & 128 == 0 {
            break;
        }
    }
    value
}

#[derive(Debug)]
struct Exported {
    trace: String,
    id: String,
    parent: String,
    name: String,
    /// The names of its attributes, and those values that are texts.
    attributes: BTreeMap<String, String>,
    events: usize,
}

/// The spans of a request of an export: resources have scopes, and these have spans.
fn spans(body: &[u8]) -> Vec<Exported> {
    let message = Message::read(body);
    let scopes = message.messages(1).flat_map(|resource| resource.messages(2).collect::<Vec<_>>());
    let spans = scopes.flat_map(|scope| scope.messages(2).collect::<Vec<_>>());
    spans
        .map(|span| Exported {
            trace: span.hex(1),
            id: span.hex(2),
            parent: span.hex(4),
            name: span.text(5),
            attributes: span
                .messages(9)
                .map(|each| (each.text(1), each.messages(2).map(|value| value.text(1)).collect()))
                .collect(),
            events: span.all(11).count(),
        })
        .collect()
}

/// Reads requests of an export until the exporter has ended. Returns their bodies.
fn collect(listener: &TcpListener, is_over: impl Fn() -> bool) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        if is_over() {
            break;
        }
        let mut reader = BufReader::new(stream);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).unwrap_or(0) > 0 && !head.ends_with("\r\n\r\n") {}
            for line in head.lines() {
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap();
                }
            }
            if head.is_empty() {
                break;
            }
            assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            bodies.push(body);
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    }
    bodies
}

fn ask(address: &str, traceparent: &str, request: &SyncRequest) -> SyncReply {
    let body = encode(Format::Msgpack, request).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /secret-org/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer secret-token\r\n\
         {traceparent}Content-Type: {}\r\nContent-Length: {}\r\n\r\n",
        Format::Msgpack.content_type(),
        body.len()
    );
    // It bounds a test that fails, and no other.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = parse(&answer);
    assert_eq!(answer.status, 200);
    decode(Format::Msgpack, &answer.body, usize::MAX).unwrap()
}

/// A server with tokens that exports to a collector.
struct Exporting {
    folder: tempfile::TempDir,
    server: Child,
    address: String,
}

impl Drop for Exporting {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Exporting {
    fn start(collector: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("schema.json"), SCHEMA).unwrap();
        let tokens =
            r#"{"secret-token": {"account": "secret-account", "orgs": ["secret-org"], "role": "write"}}"#;
        std::fs::write(folder.path().join("tokens.json"), tokens).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_escale-server"));
        command.args(["serve", "--schema", "schema.json", "--data", "data", "--listen", "127.0.0.1:0"]);
        command.args(["--tokens", "tokens.json", "--otlp", &format!("http://{collector}")]);
        // Nothing that waits for an answer of the collector would end.
        command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");
        let log = File::create(folder.path().join("log")).unwrap();
        command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(log);
        let mut server = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening on http://").expect("the line to wait for").to_owned();
        Exporting { folder, server, address }
    }

    /// Ends the server. Returns its log.
    fn stop(mut self) -> String {
        assert!(Command::new("kill").arg(self.server.id().to_string()).status().unwrap().success());
        assert!(self.server.wait().unwrap().success());
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

#[test]
fn spans_continue_the_callers_trace_and_hold_nothing_of_the_data() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = listener.local_addr().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let collecting = std::thread::spawn(move || collect(&listener, || is_over.load(Ordering::Relaxed)));
    let server = Exporting::start(collector);

    let request = SyncRequest {
        ops: vec![
            op("secret-operation", 1, "doc.put", put_args("secret-key", "secret-shelf")),
            op("secret-operation-2", 2, "panic.secret-operation", ""),
        ],
        subs: vec![sub(&def("Note"), 0)],
        ..SyncRequest::of("s")
    };
    let sampled = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let reply = ask(&server.address, &sampled, &request);
    assert_eq!(reply.parts[0].rows.len(), 1, "{reply:?}");
    // A caller that takes no sample, and one that names no trace.
    let other = "1".repeat(32);
    ask(&server.address, &format!("traceparent: 00-{other}-{PARENT}-00\r\n"), &SyncRequest::of("s"));
    ask(&server.address, "", &SyncRequest::of("s"));

    // The spans that wait are sent at the end.
    let log = server.stop();
    over.store(true, Ordering::Relaxed);
    drop(TcpStream::connect(collector));
    let bodies = collecting.join().unwrap();

    for secret in SECRETS {
        let is_in = |body: &Vec<u8>| body.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!bodies.iter().any(is_in), "{secret} was exported");
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
    let all: Vec<Exported> = bodies.iter().flat_map(|body| spans(body)).collect();
    let of = |name: &str| -> Vec<&Exported> {
        all.iter().filter(|span| span.name == name && span.trace == TRACE).collect()
    };
    let [request] = of("request")[..] else { panic!("{all:#?}\n{log}") };
    assert_eq!(request.parent, PARENT);
    assert_eq!(request.attributes["route"], "sync");
    assert!(request.attributes.contains_key("status"), "{request:?}");
    let ends: Vec<&str> = of("operation").iter().map(|span| &*span.attributes["end"]).collect();
    assert_eq!(ends, ["ok", "A"], "{all:#?}");
    for name in ["pull", "operation", "commit"] {
        let found = of(name);
        assert!(!found.is_empty() && found.iter().all(|span| span.parent == request.id), "{name}: {all:#?}");
    }
    assert!(all.iter().all(|span| span.events == 0 && span.trace != other), "{all:#?}");
    // One request began a trace of its own.
    let own: Vec<_> = all.iter().filter(|span| span.name == "request" && span.trace != TRACE).collect();
    assert!(own.len() == 1 && own[0].parent.is_empty() && own[0].trace.len() == 32, "{all:#?}");
}

#[test]
fn a_collector_that_says_nothing_delays_neither_requests_nor_the_end() {
    // It takes connections, and answers none.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Exporting::start(listener.local_addr().unwrap());
    // More spans than may wait for the collector.
    for _ in 0..1500 {
        ask(&server.address, "", &SyncRequest::of("s"));
    }
    let log = server.stop();
    assert!(log.contains("the last spans were not exported"), "{log}");
}
