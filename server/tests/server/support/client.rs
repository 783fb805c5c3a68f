//! A real instance on a free port, and minimal clients: one request per connection, written byte by byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use escale::codec::{Decode, Fault, Format, LiveRequest, ServerFrame, decode, encode};
use escale::model::{Def, Version};
use escale_server::http::{Running, ServeOptions, Tokens, start};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::world::*;

/// Nothing takes this long. A test that waits longer waits in vain, and fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub async fn serve(world: &World, change: impl FnOnce(&mut ServeOptions)) -> Running {
    let mut options = ServeOptions::new(world.engine.clone(), "127.0.0.1:0");
    change(&mut options);
    start(options).await.unwrap()
}

/// A server of a file of tokens with that text.
pub async fn serve_tokens(world: &World, tokens: &str) -> Running {
    let path = world.folder.path().join("tokens.json");
    std::fs::write(&path, tokens).unwrap();
    serve(world, |options| options.tokens = Tokens::from_file(path).unwrap()).await
}

pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json<T: Decode>(&self) -> T {
        assert_eq!(self.headers["content-type"], "application/json");
        decode(Format::Json, &self.body, usize::MAX).unwrap()
    }

    pub fn fault(&self) -> Fault {
        assert_eq!(self.headers["cache-control"], "no-store");
        let format = Format::from_content_type(&self.headers["content-type"]).unwrap();
        decode(format, &self.body, usize::MAX).unwrap()
    }
}

/// Sends those bytes, and reads the answer to the end of the connection.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer");
    assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
    parse(&answer)
}

pub fn parse(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("an end of the header");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = HashMap::<String, String>::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        let values = headers.entry(name.to_ascii_lowercase()).or_default();
        if !values.is_empty() {
            values.push_str(", ");
        }
        values.push_str(value);
    }
    let body = &answer[end + 4..];
    let is_chunked = headers.get("transfer-encoding").is_some_and(|value| value == "chunked");
    let body = if is_chunked { joined(body) } else { body.to_vec() };
    Answer { status, headers, body }
}

/// A body without the lengths of its chunks.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|w| w == b"\r\n").expect("the length of a chunk");
        let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + length]);
        chunks = &chunks[end + 4 + length..];
    }
}

pub async fn request(
    running: &Running,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    exchange(running.address, &bytes).await
}

pub const JSON: (&str, &str) = ("Content-Type", "application/json");
pub const MSGPACK: (&str, &str) = ("Content-Type", "application/msgpack");

pub async fn post_json(running: &Running, path: &str, body: &str) -> Answer {
    request(running, "POST", path, &[JSON], body.as_bytes()).await
}

pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub async fn connect(running: &Running, path: &str, headers: &[(&'static str, &str)]) -> Socket {
    try_connect(running, path, headers).await.unwrap()
}

pub async fn try_connect(
    running: &Running,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<Socket, u16> {
    let mut request = format!("ws://{}{path}", running.address).into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match tokio_tungstenite::connect_async(request).await {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

pub async fn say<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    format: Format,
    token: Option<&str>,
    subs: &[Def],
) {
    let message = LiveRequest { token: token.map(str::to_owned), session: "s".into(), subs: subs.to_vec() };
    let bytes = encode(format, &message).unwrap();
    let message = match format {
        Format::Msgpack => Message::Binary(bytes.into()),
        Format::Json => Message::Text(String::from_utf8(bytes).unwrap().into()),
    };
    socket.send(message).await.unwrap();
}

/// The next frame, or the code and reason that the socket was closed with.
pub async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
) -> Result<(Format, ServerFrame), (u16, String)> {
    loop {
        let next = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a frame");
        let (format, bytes) = match next {
            Some(Ok(Message::Text(text))) => (Format::Json, text.as_bytes().to_vec()),
            Some(Ok(Message::Binary(bytes))) => (Format::Msgpack, bytes.to_vec()),
            Some(Ok(Message::Close(Some(frame)))) => {
                return Err((frame.code.into(), frame.reason.as_str().to_owned()));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Close(None)) | Err(_)) | None => return Err((0, String::new())),
        };
        return Ok((format, decode(format, &bytes, usize::MAX).unwrap()));
    }
}

/// A socket with confirmed subscriptions to these defs.
pub async fn listen(running: &Running, path: &str, subs: &[Def]) -> Socket {
    let mut socket = connect(running, path, &[]).await;
    say(&mut socket, Format::Msgpack, None, subs).await;
    match hear(&mut socket).await.unwrap() {
        (Format::Msgpack, ServerFrame::Live { live, refused, .. }) => {
            assert_eq!((live.as_slice(), refused.len()), (subs, 0));
        }
        other => panic!("{other:?}"),
    }
    socket
}

/// The next hints; signs of life are skipped.
pub async fn hints(socket: &mut Socket) -> Vec<(Def, Version)> {
    loop {
        match hear(socket).await.unwrap().1 {
            ServerFrame::Hints(hints) => return hints,
            ServerFrame::Alive => {}
            other => panic!("{other:?}"),
        }
    }
}
