//! Attackers of a real server from outside: each repeats one attack until the end, as fast as it is answered. They need few
//! bytes, or a stranger's rights, or an account's own. No answer of the server ends them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use escale::codec::{Format, Op, SyncRequest, encode};
use escale::model::{Pk, Value};
use escale_server::engine::sha_of;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::operating::op;

pub const SCHEMA: &str = r#"{
    "Note": { "key": ["id"], "quota": { "by": "owner" }, "collections": { "owner": { "key": ["owner"], "mutable": true } },
              "indexes": { "words": "string[]" } },
    "Paper": { "key": ["id"], "properties": { "files": "file[]" }, "rights": { "read": { "own": "owner" } } },
    "Closed": { "key": ["id"], "rights": { "create": "admin", "update": "admin", "delete": "admin" } },
    "Gone": { "key": ["id"] }
}"#;

/// Accounts with a token of their own: `a0` to `a39`. Those above 29 may only read.
pub const ACCOUNTS: usize = 40;

/// A caller that waits so long for an answer or a byte begins again.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn tokens() -> String {
    let role = |n: usize| if n < 30 { "write" } else { "read" };
    let one =
        |n: usize| format!(r#""a{n}": {{"account": "a{n}", "orgs": ["o", "p"], "role": "{}"}}"#, role(n));
    let honest = r#""honest": {"account": "honest", "orgs": ["o"], "role": "write"},
        "root": {"account": "root", "orgs": ["o"], "role": "admin"}"#;
    format!("{{{}, {honest}}}", (0..ACCOUNTS).map(one).collect::<Vec<_>>().join(","))
}

/// How large the attacks are.
#[derive(Clone, Copy)]
pub struct Size {
    /// Objects, and documents that reference each of them.
    pub objects: usize,
    pub papers: usize,
    /// Deleted documents.
    pub gone: usize,
    /// Sockets, connections that say nothing, bodies and uploads that do not arrive.
    pub sockets: usize,
    pub silent: usize,
    pub slow: usize,
}

/// An attack under way.
#[derive(Clone)]
pub struct Attack {
    pub address: SocketAddr,
    pub size: Size,
    pub is_over: Arc<AtomicBool>,
    /// Bytes of whole requests, which alone may be stored.
    pub sent: Arc<AtomicU64>,
    /// Bytes of sockets, and of requests that do not arrive or whose answers are not read.
    pub unpaid: Arc<AtomicU64>,
    pub statuses: Arc<std::sync::Mutex<BTreeMap<(&'static str, u16), u64>>>,
}

pub fn text(text: impl ToString) -> Value {
    Value::from(&*text.to_string())
}

fn args_of(class: &str, data: Vec<(&str, Value)>) -> Value {
    Value::from([
        ("class", text(class)),
        ("data", Value::Map(data.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())),
    ])
}

/// The bytes of a request to sync.
pub fn body(session: &str, ops: Vec<Op>) -> Vec<u8> {
    encode(Format::Msgpack, &SyncRequest { ops, ..SyncRequest::of(session) }).unwrap()
}

fn object(n: usize) -> Vec<u8> {
    format!("object {n:03}").into_bytes()
}

/// A document that names all objects.
pub fn paper(id: &str, owner: &str, objects: usize) -> Value {
    let reference = |n: usize| {
        let bytes = object(n);
        Value::from([("sha", text(sha_of(&bytes))), ("size", Value::from(bytes.len() as i64))])
    };
    let files = Value::Array((0..objects).map(reference).collect());
    args_of("Paper", vec![("id", text(id)), ("owner", text(owner)), ("files", files)])
}

/// So many operations in one.
pub fn batch(ops: impl Iterator<Item = (&'static str, Value)>) -> Value {
    let ops = ops.map(|(name, args)| [("name", text(name)), ("args", args)].into());
    Value::from([("ops", Value::Array(ops.collect()))])
}

pub fn put(class: &str, id: &str) -> Value {
    args_of(class, vec![("id", text(id)), ("owner", text("honest"))])
}

pub fn key(class: &str, id: &str) -> Value {
    Value::from([("class", text(class)), ("key", Value::Array(vec![text(id)]))])
}

impl Attack {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The line and the header of a request.
    pub fn head(method: &str, path: &str, token: Option<&str>, from: &str, length: usize) -> Vec<u8> {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/msgpack\r\n\
             X-Forwarded-For: {from}\r\n{bearer}Content-Length: {length}\r\n\r\n"
        )
        .into_bytes()
    }

    /// Sends bytes over a connection of their own, and reads the answer to its end. The status; none without an answer.
    pub async fn ask(&self, kind: &'static str, bytes: &[u8]) -> Option<u16> {
        let status = tokio::time::timeout(PATIENCE, async {
            let mut stream = TcpStream::connect(self.address).await.ok()?;
            // The server may close before it has read everything.
            let _ = stream.write_all(bytes).await;
            self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
        });
        let status = status.await.ok().flatten();
        *self.statuses.lock().unwrap().entry((kind, status.unwrap_or(0))).or_default() += 1;
        status
    }

    /// A request to sync of an account.
    pub async fn sync(&self, kind: &'static str, org: &str, token: &str, body: &[u8]) -> Option<u16> {
        let head = Attack::head("POST", &format!("/{org}/sync"), Some(token), "10.9.9.9", body.len());
        self.ask(kind, &[&head, body].concat()).await
    }

    /// Prepares the data that the attacks are about. Nothing of it is counted as sent.
    pub async fn prepare(&self) {
        let Size { objects, papers, gone, .. } = self.size;
        for n in 0..objects {
            let bytes = object(n);
            let head = Attack::head(
                "PUT",
                &format!("/o/file/{}", sha_of(&bytes)),
                Some("a0"),
                "10.9.9.9",
                bytes.len(),
            );
            assert_eq!(self.ask("prepare", &[head, bytes].concat()).await, Some(200));
        }
        for n in 0..papers {
            let args = paper(&n.to_string(), "a0", objects);
            let ops = vec![op(&format!("paper {n}"), n as u64 + 1, "doc.put", args)];
            assert_eq!(self.sync("prepare", "o", "a0", &body("papers", ops)).await, Some(200));
        }
        let large = args_of(
            "Note",
            vec![("id", text("large")), ("owner", text("a1")), ("text", text("x".repeat(900_000)))],
        );
        assert_eq!(
            self.sync("prepare", "o", "a1", &body("large", vec![op("large", 1, "doc.put", large)])).await,
            Some(200)
        );
        for n in 0..gone / 500 {
            let of = |name, args: fn(&str, &str) -> Value| {
                batch((0..500).map(move |at| (name, args("Gone", &format!("{n}-{at}")))))
            };
            let ops = vec![
                op(&format!("come {n}"), 2 * n as u64 + 1, "batch", of("doc.put", put)),
                op(&format!("gone {n}"), 2 * n as u64 + 2, "batch", of("doc.delete", key)),
            ];
            assert_eq!(self.sync("prepare", "o", "a2", &body("gone", ops)).await, Some(200));
        }
        self.sent.store(0, Ordering::Relaxed);
        self.statuses.lock().unwrap().clear();
    }

    /// A list that names all objects of another account, and a document that references them.
    pub async fn names_of_others(self, n: usize) {
        let digest =
            |n: usize| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(sha_of(&object(n))).unwrap();
        let list: Vec<u8> = (0..self.size.objects).flat_map(digest).collect();
        let token = format!("a{}", 3 + n);
        let path = format!("/o/file/{}?list={}", sha_of(&list), self.size.objects << 20);
        let head = Attack::head("PUT", &path, Some(&token), "10.9.9.9", list.len());
        let mut seq = 0;
        while !self.is_over() {
            self.ask("list", &[&head[..], &list].concat()).await;
            seq += 1;
            let args = paper("theirs", &token, self.size.objects);
            let ops = vec![op(&format!("names {n} {seq}"), seq, "doc.put", args)];
            self.sync("references", "o", &token, &body(&format!("names {n}"), ops)).await;
        }
    }

    /// Requests of the account endpoint that cost a stranger nothing: without a challenge, with a made-up one, or for one.
    pub async fn empty_attempts(self) {
        let mut n = 0_u64;
        while !self.is_over() {
            n += 1;
            let name = ["sign-in", "start", "sign-up", "start", "invite"][n as usize % 5];
            let login = if n.is_multiple_of(3) { "honest".to_owned() } else { n.to_string() };
            let mut map = vec![
                ("p", Value::from(1)),
                ("do", text(name)),
                ("login", text(login)),
                ("wrap", text("passphrase")),
            ];
            if n.is_multiple_of(2) {
                map.extend([("challenge", Value::Bytes(vec![7; 64])), ("proof", Value::Bytes(vec![7; 32]))]);
            }
            let map = Value::Map(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
            let bytes = encode(Format::Msgpack, &map).unwrap();
            let head = Attack::head("POST", "/o/account", None, &format!("10.1.{}.1", n % 200), bytes.len());
            self.ask("account", &[head, bytes].concat()).await;
        }
    }

    /// Tokens that nobody was given.
    pub async fn made_up_tokens(self) {
        let mut n = 0;
        while !self.is_over() {
            n += 1;
            let token =
                base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("a made-up token {n:016}"));
            self.sync("made up", "o", &token, &body("s", Vec::new())).await;
        }
    }

    /// Bodies of strangers and of accounts, and uploads, of which a byte comes every second. They begin again once they end.
    pub async fn slow_body(self, n: usize) {
        let (method, path, token) = match n % 3 {
            0 => ("POST", "/o/account".to_owned(), None),
            1 => ("POST", "/o/sync".to_owned(), Some(format!("a{}", 5 + n % 8))),
            _ => ("PUT", format!("/o/file/{}", sha_of(&[n as u8])), Some(format!("a{}", 5 + n % 8))),
        };
        let head = Attack::head(method, &path, token.as_deref(), &format!("10.2.{}.1", n % 4), 60_000);
        while !self.is_over() {
            let Ok(mut stream) = TcpStream::connect(self.address).await else { continue };
            let _ = stream.write_all(&head).await;
            self.unpaid.fetch_add(head.len() as u64, Ordering::Relaxed);
            let mut answer = [0; 64];
            while !self.is_over() && stream.write_all(b"x").await.is_ok() {
                self.unpaid.fetch_add(1, Ordering::Relaxed);
                if let Ok(read) = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut answer)).await
                {
                    let status = read
                        .ok()
                        .and_then(|n| std::str::from_utf8(answer.get(9..12.min(n))?).ok()?.parse().ok());
                    *self.statuses.lock().unwrap().entry(("slow", status.unwrap_or(0))).or_default() += 1;
                    break;
                }
            }
        }
    }

    /// Connections that say nothing, or begin a header.
    pub async fn silent(self, n: usize) {
        let said =
            if n.is_multiple_of(2) { &b""[..] } else { b"POST /o/sync HTTP/1.1\r\nHost: h\r\nX-Slow: " };
        while !self.is_over() {
            let Ok(mut stream) = TcpStream::connect(self.address).await else { continue };
            let _ = stream.write_all(said).await;
            self.unpaid.fetch_add(said.len() as u64, Ordering::Relaxed);
            let mut byte = [0; 64];
            while !self.is_over() {
                if tokio::time::timeout(Duration::from_secs(1), stream.read(&mut byte)).await.is_ok() {
                    break;
                }
            }
        }
    }

    /// Opens a socket, from the address that most attackers come from.
    async fn connect(&self) -> Option<WebSocketStream<MaybeTlsStream<TcpStream>>> {
        let mut request = format!("ws://{}/o/live", self.address).into_client_request().unwrap();
        request.headers_mut().insert("x-forwarded-for", "10.9.9.9".parse().unwrap());
        Some(tokio_tungstenite::connect_async(request).await.ok()?.0)
    }

    /// A socket that follows a thousand names, and asks for other ones again and again.
    pub async fn socket(self, n: usize) {
        let said = [0, 1].map(|list| {
            let defs = (0..1_000).map(|at| format!("\"Note@{:0>54}\"", format!("{list}-{at}")));
            let defs = defs.collect::<Vec<_>>().join(",");
            format!(r#"{{"token":"a{}","session":"s{n}","subs":[{defs}]}}"#, 13 + n % 4)
        });
        let mut round = 0;
        while !self.is_over() {
            let Some(mut socket) = self.connect().await else { continue };
            // Two lists of names in turn: each message gives up one and takes up the other.
            while !self.is_over() {
                round += 1;
                self.unpaid.fetch_add(said[round % 2].len() as u64, Ordering::Relaxed);
                if socket.send(Message::text(said[round % 2].clone())).await.is_err() {
                    break;
                }
                // Every eighth floods. The others hold their names.
                let until = tokio::time::Instant::now()
                    + Duration::from_secs(if n.is_multiple_of(8) { 0 } else { 20 });
                if let Ok(Some(Ok(Message::Close(_))) | None) =
                    tokio::time::timeout_at(until, socket.next()).await
                {
                    break;
                }
            }
        }
    }

    /// A socket that follows a thousand documents which their owner alone may read. The first caller writes one of them again
    /// and again: each write may decide over the right of every socket.
    pub async fn doubts(self, n: usize) {
        let id = |at: usize| format!("doubted {at}");
        let mut seq = 0;
        while n == 0 && !self.is_over() {
            seq += 1;
            let args = args_of("Paper", vec![("id", text(id(0))), ("owner", text("a11")), ("n", text(seq))]);
            let ops = vec![op(&format!("doubt {seq}"), seq, "doc.put", args)];
            self.sync("doubts", "o", "a11", &body("doubts", ops)).await;
        }
        let pk = |at: usize| Pk::from_key(&[&id(at)]).unwrap();
        let defs = (0..1_000).map(|at| format!("\"Paper@{}\"", pk(at))).collect::<Vec<_>>().join(",");
        let said = format!(r#"{{"token":"a11","session":"d{n}","subs":[{defs}]}}"#);
        while !self.is_over() {
            let Some(mut socket) = self.connect().await else { continue };
            self.unpaid.fetch_add(said.len() as u64, Ordering::Relaxed);
            if socket.send(Message::text(said.clone())).await.is_err() {
                continue;
            }
            while !self.is_over() {
                let frame = tokio::time::timeout(Duration::from_secs(1), socket.next()).await;
                if let Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) = frame {
                    break;
                }
            }
        }
    }

    /// One def that is named a thousand times, over deleted documents. Every other caller does not wait for the answer.
    pub async fn repeated_defs(self, n: usize) {
        let subs = vec![r#"["Gone",1]"#; 1_000].join(",");
        let said = format!(r#"{{"p":1,"session":"s","subs":[{subs}]}}"#);
        let token = format!("a{}", 17 + n % 4);
        let head =
            String::from_utf8(Attack::head("POST", "/o/sync", Some(&token), "10.9.9.9", said.len())).unwrap();
        let bytes = [head.replace("msgpack", "json").as_bytes(), said.as_bytes()].concat();
        while !self.is_over() {
            if n.is_multiple_of(2) {
                self.ask("defs", &bytes).await;
            } else if let Ok(mut stream) = TcpStream::connect(self.address).await {
                let _ = stream.write_all(&bytes).await;
                self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                // An attacker of a few megabytes a second, and not a flood of the network.
                drop(tokio::time::timeout(Duration::from_millis(10), stream.read(&mut [0; 1])).await);
            }
        }
    }

    /// Sixty patches of a large document, then conflicts with it.
    pub async fn patches_and_conflicts(self) {
        let mut seq = 0;
        while !self.is_over() {
            let mut next = |name: &str, args: Value| {
                seq += 1;
                op(&format!("patch {seq}"), seq, name, args)
            };
            let mut patch = |n: i64| {
                let args = [
                    ("class", text("Note")),
                    ("key", Value::Array(vec![text("large")])),
                    ("set", Value::from([("n", Value::from(n))])),
                ];
                next("doc.patch", args.into())
            };
            let ops: Vec<Op> = (0..60).map(&mut patch).collect();
            self.sync("patches", "o", "a1", &body("patches", ops)).await;
            let mut conflict = || {
                let mut args = put("Note", "large");
                args.as_map_mut().unwrap().insert("ifVersion".into(), Value::from(1));
                next("doc.put", args)
            };
            let ops: Vec<Op> = (0..3).map(|_| conflict()).collect();
            self.sync("conflicts", "o", "a1", &body("patches", ops)).await;
        }
    }

    /// Operations without the right to write: by the role, by the rules of a class.
    pub async fn without_right(self) {
        let mut n = 0_u64;
        while !self.is_over() {
            n += 1;
            let (token, class) = if n.is_multiple_of(2) { ("a35", "Note") } else { ("a21", "Closed") };
            let session = format!("{n}{}", "s".repeat(900));
            let ops = (1..=100)
                .map(|seq| op(&format!("right {n} {seq}"), seq, "doc.put", put(class, "x")))
                .collect();
            self.sync("no right", "o", token, &body(&session, ops)).await;
        }
    }

    /// As many small operations as a request has, which push the clock of an org.
    pub async fn many_operations(self, org: &'static str, token: &'static str) {
        let mut seq = 0;
        while !self.is_over() {
            let ops = (1..=400).map(|n| {
                op(&format!("many {}", seq + n), seq + n, "doc.put", put("Note", &(n % 20).to_string()))
            });
            let bytes = body("many", ops.collect());
            if self.sync("many", org, token, &bytes).await == Some(200) {
                // Those that were not executed come again under their numbers, and the others have known ids.
                seq += 100;
            }
        }
    }

    /// Messages that are deep, or that grow in memory, or have lists of very many short values.
    pub async fn bombs(self) {
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        let maps = Value::Map([("m".to_owned(), Value::Null)].into());
        let growing =
            args_of("Note", vec![("id", text("grows")), ("maps", Value::Array(vec![maps; 300_000]))]);
        let growing = body("grows", vec![op("grows", 1, "doc.put", growing)]);
        let mut seq = 0;
        while !self.is_over() {
            self.sync("bombs", "o", "a22", &deep).await;
            self.sync("bombs", "o", "a22", &growing).await;
            self.sync("bombs", "o", "a22", &vec![0x91; 1 << 20]).await;
            seq += 1;
            let words = Value::Array((0..2_000).map(|n| text(n + seq * 7)).collect());
            let args = args_of("Note", vec![("id", text(seq)), ("words", words)]);
            let ops = vec![op(&format!("words {seq}"), seq as u64, "doc.put", args)];
            self.sync("words", "o", "a23", &body("words", ops)).await;
        }
    }

    /// Callers that ask for much and read none of it.
    pub async fn unread(self, n: usize) {
        let said = br#"{"p":1,"session":"s","subs":[["Note",0],["Gone",1]]}"#;
        let head = String::from_utf8(Attack::head(
            "POST",
            "/o/sync",
            Some(&format!("a{}", 24 + n % 4)),
            "10.9.9.9",
            said.len(),
        ))
        .unwrap();
        let bytes = [head.replace("msgpack", "json").as_bytes(), said].concat();
        while !self.is_over() {
            let Ok(mut stream) = TcpStream::connect(self.address).await else { continue };
            let _ = stream.write_all(&bytes).await;
            self.unpaid.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            // It holds the connection, and reads nothing.
            drop(tokio::time::timeout(Duration::from_secs(2), std::future::pending::<()>()).await);
        }
    }
}
