//! A light session: a socket with subscriptions, and a pull for each hint. It keeps the highest version of each def and
//! no documents, so that thousands of them fit into one process. Its requests, delays and order of work are those of a
//! session.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use escale::codec::{Format, LiveRequest, ServerFrame, Sub, SyncReply, SyncRequest, decode, encode};
use escale::model::Def;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::support::chance::Chance;
use crate::support::client::{PATIENCE, parse};

/// The bounds of a session's delays (docs/protocol.md, "Behaviour of a session").
const DELAY_MS: (u64, u64) = (100, 30_000);

/// How a session learned of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    Hint,
    Push,
    Pull,
}

/// An event of a session.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Its subscriptions are confirmed.
    Live,
    /// All its defs were pulled after that.
    Current,
    /// It learned that a def, by its place among the subscriptions, has this version.
    Heard { def: usize, v: u64, by: By },
    /// The server refused a request with that status, or closed the socket with that code.
    Refused(u16),
}

/// An event, the number of its session, and its time.
pub type Noted = (usize, Event, Instant);

/// A session's number, its address, token and subscriptions.
#[derive(Clone)]
pub struct Plan {
    pub number: usize,
    pub address: SocketAddr,
    pub token: String,
    pub subs: Vec<Def>,
}

type Pulled = Pin<Box<dyn Future<Output = Result<SyncReply, u16>> + Send>>;

/// Follows its defs for ever. After a failure it comes back by the delays of a session.
pub async fn follow(plan: Plan, events: UnboundedSender<Noted>) {
    let mut follower = Follower { pulled: BTreeMap::new(), asked: BTreeMap::new(), plan, events };
    let mut chance = Chance::of(follower.plan.number as u64);
    let mut failures = 0;
    loop {
        if follower.listen(&mut failures).await.is_none() {
            return;
        }
        wait(delay(&mut chance, &mut failures)).await;
    }
}

fn delay(chance: &mut Chance, failures: &mut u32) -> Duration {
    let bound = DELAY_MS.0.saturating_mul(1 << (*failures).min(20)).min(DELAY_MS.1);
    *failures += 1;
    Duration::from_millis(chance.below(bound + 1))
}

/// A session's own delay, as the protocol has it.
async fn wait(delay: Duration) {
    let _ = tokio::time::timeout(delay, pending::<()>()).await;
}

struct Follower {
    plan: Plan,
    /// The highest version of each def that a pull has brought.
    pulled: BTreeMap<usize, u64>,
    /// The version from which each def is asked.
    asked: BTreeMap<usize, u64>,
    events: UnboundedSender<Noted>,
}

impl Follower {
    /// One socket, from its opening to its end; none if nobody takes the events any more.
    async fn listen(&mut self, failures: &mut u32) -> Option<()> {
        let Some(mut socket) = open(&self.plan).await else { return Some(()) };
        let (mut needed, mut pulling): (BTreeMap<usize, u64>, Option<Pulled>) = Default::default();
        let (mut is_current, mut refusals) = (false, 0);
        let mut chance = Chance::of(self.plan.number as u64 + 1_000_000);
        loop {
            if pulling.is_none() && !needed.is_empty() {
                let asked = std::mem::take(&mut needed);
                let wait = if refusals == 0 { Duration::ZERO } else { delay(&mut chance, &mut refusals) };
                pulling = Some(self.pull(asked.into_keys().collect(), wait));
            }
            tokio::select! {
                frame = hear(&mut socket) => match frame {
                    Ok(ServerFrame::Live { live, head, .. }) => {
                        assert_eq!(live.len(), self.plan.subs.len());
                        *failures = 0;
                        self.note(Event::Live)?;
                        // R43: this server keeps its epoch.
                        let has_missed = |at: &usize| {
                            let known = self.asked.get(at).copied().unwrap_or(0);
                            head.as_ref().is_none_or(|(_, highest)| known <= *highest)
                        };
                        needed.extend((0..self.plan.subs.len()).filter(has_missed).map(|at| (at, 0)));
                        if needed.is_empty() && pulling.is_none() && !is_current {
                            is_current = true;
                            self.note(Event::Current)?;
                        }
                    }
                    Ok(ServerFrame::Hints(hints)) => for (def, v) in hints {
                        let at = self.place(&def);
                        self.heard(at, v, By::Hint)?;
                        needed.insert(at, v);
                    },
                    Ok(ServerFrame::Parts(pushed)) => for part in pushed.parts {
                        let at = self.place(&part.def);
                        let v = part.rows.iter().map(|row| row.v).max();
                        self.heard(at, v.expect("a pushed row"), By::Push)?;
                    },
                    Ok(ServerFrame::Alive) => {}
                    Err(code) => {
                        if code != 0 {
                            self.note(Event::Refused(code))?;
                        }
                        return Some(());
                    }
                },
                pulled = of(&mut pulling) => {
                    pulling = None;
                    match pulled {
                        Ok(reply) => {
                            refusals = 0;
                            self.take(&reply)?;
                            if needed.is_empty() && !is_current {
                                is_current = true;
                                self.note(Event::Current)?;
                            }
                        }
                        Err(status) => {
                            refusals += 1;
                            self.note(Event::Refused(status))?;
                            needed.extend((0..self.plan.subs.len()).map(|at| (at, 0)));
                        }
                    }
                }
            }
        }
    }

    fn place(&self, def: &Def) -> usize {
        self.plan.subs.iter().position(|sub| sub == def).expect("a def that it follows")
    }

    fn pull(&self, defs: Vec<usize>, wait: Duration) -> Pulled {
        let sub = |at: &usize| Sub {
            def: self.plan.subs[*at].clone(),
            v: self.asked.get(at).copied().unwrap_or(0),
            cursor: None,
        };
        let subs = defs.iter().map(sub).collect();
        let (address, token) = (self.plan.address, self.plan.token.clone());
        let request = SyncRequest { subs, ..SyncRequest::of(format!("session-{}", self.plan.number)) };
        Box::pin(async move {
            self::wait(wait).await;
            ask(address, &token, &request).await
        })
    }

    fn take(&mut self, reply: &SyncReply) -> Option<()> {
        for part in &reply.parts {
            assert!(part.next.is_none() && part.fault.is_none(), "{part:?}");
            let at = self.place(&part.def);
            self.asked.insert(at, reply.now - reply.delta);
            if let Some(v) = part.rows.iter().map(|row| row.v).max() {
                self.heard(at, v, By::Pull)?;
            }
        }
        Some(())
    }

    /// Notes a version. Pulls bring the rows of the last seconds again; only a new version counts.
    fn heard(&mut self, def: usize, v: u64, by: By) -> Option<()> {
        if by == By::Pull && self.pulled.insert(def, v).is_some_and(|before| before >= v) {
            return Some(());
        }
        self.note(Event::Heard { def, v, by })
    }

    fn note(&self, event: Event) -> Option<()> {
        self.events.send((self.plan.number, event, Instant::now())).ok()
    }
}

async fn of(pulling: &mut Option<Pulled>) -> Result<SyncReply, u16> {
    match pulling {
        Some(pulled) => pulled.await,
        None => pending().await,
    }
}

/// A socket with its first message sent; none if there is no server.
async fn open(plan: &Plan) -> Option<WebSocketStream<TcpStream>> {
    let stream = TcpStream::connect(plan.address).await.ok()?;
    // Thousands of these are in this process.
    let config = WebSocketConfig::default().read_buffer_size(4 << 10);
    let url = format!("ws://{}/o/live", plan.address);
    let opened = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await;
    let (mut socket, _) = opened.ok()?;
    let message = LiveRequest {
        token: Some(plan.token.clone()),
        session: format!("session-{}", plan.number),
        subs: plan.subs.clone(),
    };
    let bytes = encode(Format::Msgpack, &message).unwrap();
    socket.send(Message::Binary(bytes.into())).await.ok()?;
    Some(socket)
}

/// The next frame, or the code of the close; 0 if there was none.
async fn hear(socket: &mut WebSocketStream<TcpStream>) -> Result<ServerFrame, u16> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Binary(bytes))) => {
                return Ok(decode(Format::Msgpack, &bytes, usize::MAX).unwrap());
            }
            Some(Ok(Message::Close(Some(frame)))) => return Err(frame.code.into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(_) | Err(_)) | None => return Err(0),
        }
    }
}

/// The answer to a request, or the status of its refusal; 0 if there was no answer.
pub async fn ask(address: SocketAddr, token: &str, request: &SyncRequest) -> Result<SyncReply, u16> {
    ask_in("o", address, token, request).await
}

/// The same in an org.
pub async fn ask_in(
    org: &str,
    address: SocketAddr,
    token: &str,
    request: &SyncRequest,
) -> Result<SyncReply, u16> {
    let body = encode(Format::Msgpack, request).unwrap();
    let head = format!(
        "POST /{org}/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: {}\r\nContent-Length: {}\r\n\r\n",
        Format::Msgpack.content_type(),
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&[head.as_bytes(), &body].concat()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| 0u16)?.map_err(|_| 0u16)?;
    if !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        return Err(0);
    }
    let answer = parse(&answer);
    if answer.status != 200 {
        return Err(answer.status);
    }
    decode(Format::Msgpack, &answer.body, usize::MAX).map_err(|_| 0)
}
