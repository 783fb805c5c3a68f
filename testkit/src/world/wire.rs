//! Messages and tasks in transit between clients, server and devices.

use std::collections::BTreeSet;

use escale::codec::{Format, ServerFrame, SyncReply, SyncRequest, decode, encode};
use escale::model::Def;
use escale::sync::{Event, Refusal};
use escale::{Code, Error};

use super::World;
use super::client::Socket;
use super::files::Step;
use crate::backend::{Answer, Asked, Backend, Committed};
use crate::client::Call;

const BYTES_MAX: usize = 32 << 20;

/// Something that arrives later. `life` is the opening of the client that it belongs to.
pub enum Job {
    /// A request reaches the server, which reads its clock.
    Request {
        client: usize,
        life: u64,
        number: u64,
        bytes: Vec<u8>,
    },
    /// The server continues with a request: it opens its snapshot, and answers.
    Answer {
        client: usize,
        life: u64,
        number: u64,
        call: u64,
    },
    Reply {
        client: usize,
        life: u64,
        number: u64,
        bytes: Result<Vec<u8>, Refusal>,
    },
    SocketOpened {
        client: usize,
        life: u64,
        socket: u64,
    },
    SocketClosed {
        client: usize,
        life: u64,
        socket: u64,
    },
    /// A message on a socket reaches the server.
    Said {
        client: usize,
        life: u64,
        socket: u64,
        session: String,
        subs: Vec<Def>,
    },
    Frame {
        client: usize,
        life: u64,
        socket: u64,
        bytes: Vec<u8>,
    },
    /// The server sends a sign of life.
    Alive {
        client: usize,
        life: u64,
        socket: u64,
    },
    /// A call reaches the device.
    Call {
        client: usize,
        life: u64,
        call: Call,
    },
    /// The device has answered.
    Called {
        client: usize,
        life: u64,
        event: Event,
    },
    Wake {
        client: usize,
        life: u64,
    },
    /// A transaction of the server commits.
    Commit {
        transaction: u64,
    },
    /// A client's module for files goes on.
    Files {
        client: usize,
        life: u64,
        step: Step,
    },
    /// The server goes on with a collection of files.
    Collect {
        work: u64,
    },
}

impl Job {
    /// The client that it belongs to.
    pub fn client(&self) -> Option<usize> {
        match self {
            Job::Request { client, .. }
            | Job::Answer { client, .. }
            | Job::Reply { client, .. }
            | Job::SocketOpened { client, .. }
            | Job::SocketClosed { client, .. }
            | Job::Said { client, .. }
            | Job::Frame { client, .. }
            | Job::Alive { client, .. }
            | Job::Call { client, .. }
            | Job::Called { client, .. }
            | Job::Wake { client, .. }
            | Job::Files { client, .. } => Some(*client),
            Job::Commit { .. } | Job::Collect { .. } => None,
        }
    }
}

/// A short description of an event.
pub fn brief(event: &Event) -> String {
    let mut text = match event {
        Event::Replied { number, reply: Ok(reply) } => {
            format!(
                "reply {number} now {} epoch {} {:?}",
                reply.now % 1_000_000,
                reply.epoch.ms() % 1_000_000,
                reply.parts
            )
        }
        Event::Frame { frame: Ok(ServerFrame::Parts(parts)), .. } => format!("pushed {:?}", parts.parts),
        Event::PagesRead { ticket, pages } => {
            format!("pages {ticket}: {}", pages.as_ref().map_or(0, |pages| pages.iter().flatten().count()))
        }
        other => format!("{other:?}"),
    };
    text.truncate(text.char_indices().nth(900).map_or(text.len(), |(at, _)| at));
    text
}

impl<S: Backend> World<S> {
    pub(super) fn is_current(&self, client: usize, life: u64) -> bool {
        self.clients[client].life == life && self.clients[client].machine.is_some()
    }

    /// Milliseconds that a message takes.
    pub(super) fn delay(&mut self) -> u64 {
        if self.chance(self.faults.late) { 200 + self.below(8_000) } else { 1 + self.below(60) }
    }

    pub(super) fn socket(&mut self, client: usize, life: u64, socket: u64) -> Option<&mut Socket> {
        let client = &mut self.clients[client];
        client.socket.as_mut().filter(|s| client.life == life && s.number == socket && s.is_up)
    }

    pub(super) fn carry(&mut self, job: Job) {
        match job {
            Job::Request { client, life, number, bytes } => self.request(client, life, number, &bytes),
            Job::Answer { client, life, number, call } => {
                let answer = self.server.answer(call, self.now);
                self.tell_all();
                match answer {
                    Answer::Reply(Ok(mut reply)) => {
                        self.refuse_withdrawn(call, &mut reply.parts);
                        self.send_reply(client, life, number, &reply);
                    }
                    Answer::Reply(Err(refusal)) => {
                        let at = self.now + self.delay();
                        self.at(at, Job::Reply { client, life, number, bytes: Err(refusal) });
                    }
                    Answer::Later(ms) => {
                        self.at(self.now + ms, Job::Answer { client, life, number, call });
                    }
                    Answer::Never => {}
                }
            }
            Job::Reply { client, life, number, bytes } => {
                if self.is_current(client, life) {
                    let format = self.clients[client].setup.format;
                    let reply = bytes.and_then(|bytes| Ok(decode(format, &bytes, BYTES_MAX)?));
                    self.clients[client].sending.take_if(|sending| *sending == number);
                    self.feed(client, Event::Replied { number, reply });
                }
            }
            Job::SocketOpened { client, life, socket } => {
                if self.socket(client, life, socket).is_some() {
                    self.at(self.now + 5_000, Job::Alive { client, life, socket });
                    self.feed(client, Event::SocketOpened { socket });
                }
            }
            Job::SocketClosed { client, life, socket } => {
                if self.is_current(client, life) {
                    self.clients[client].socket.take_if(|s| s.number == socket);
                    let (code, reason) = match self.below(4) {
                        0 => (1012, format!("closing {}", self.below(3_000))),
                        _ => (1006, String::new()),
                    };
                    self.feed(client, Event::SocketClosed { socket, code, reason });
                }
            }
            Job::Said { client, life, socket, session, subs } => {
                if self.is_current(client, life) {
                    self.clients[client].said_session = session;
                }
                let (live, refused) = self.registration(client, subs);
                if let Some(socket) = self.socket(client, life, socket) {
                    socket.registered = live.iter().cloned().collect();
                    let number = socket.number;
                    let confirmation = self.confirmation(client, live, refused);
                    self.send_frame(client, number, &confirmation);
                }
            }
            Job::Frame { client, life, socket, bytes } => {
                if self.socket(client, life, socket).is_some() {
                    let frame = decode(self.clients[client].setup.format, &bytes, BYTES_MAX);
                    self.feed(client, Event::Frame { socket, frame });
                }
            }
            Job::Alive { client, life, socket } => {
                if self.socket(client, life, socket).is_some() {
                    self.send_frame(client, socket, &ServerFrame::Alive);
                    self.at(self.now + 10_000, Job::Alive { client, life, socket });
                }
            }
            Job::Call { client, life, call } => {
                if self.is_current(client, life) {
                    let store = self.clients[client].store.as_ref().expect("an open store");
                    let event = call.make(store);
                    if let Event::Committed(_) = event {
                        self.clients[client].at_rest.take();
                    }
                    let at = self.now + self.below(30);
                    self.at(at, Job::Called { client, life, event });
                }
            }
            Job::Called { client, life, event } => {
                if self.is_current(client, life) {
                    let state = &mut self.clients[client];
                    match &event {
                        Event::Committed(_) => state.is_writing = false,
                        Event::PagesRead { pages, .. } => {
                            assert!(pages.is_ok(), "an open store");
                            state.reading -= 1;
                        }
                        Event::JournalRead { records, .. } => assert!(records.is_ok(), "an open store"),
                        _ => {}
                    }
                    self.feed(client, event);
                }
            }
            Job::Wake { client, life } => {
                let is_due = self.clients[client].wake_at.is_some_and(|at| at <= self.now);
                if self.is_current(client, life) && is_due {
                    self.clients[client].wake_at = None;
                    self.feed(client, Event::Woke);
                }
            }
            Job::Commit { transaction } => {
                self.server.commit(transaction, self.now);
                self.tell_all();
            }
            Job::Files { client, life, step } => self.carry_file(client, life, step),
            Job::Collect { work } => self.go_on_collecting(work),
        }
    }

    fn request(&mut self, client: usize, life: u64, number: u64, bytes: &[u8]) {
        let format = self.clients[client].setup.format;
        let mut request: SyncRequest = decode(format, bytes, BYTES_MAX).expect("a request of the protocol");
        // Half of the sessions take no references, as if an adapter removed the field (R90).
        request.refs &= client.is_multiple_of(2);
        if let Some(refusal) = self.refusal() {
            let at = self.now + self.delay();
            return self.at(at, Job::Reply { client, life, number, bytes: Err(refusal) });
        }
        request.check().expect("a request that a server takes");
        let instance = self.below(8) as usize;
        let by = self.clients[client].setup.tenant;
        let taken = self.take_withdrawn(client, &mut request.subs);
        let (source, contention) = (&mut self.sources[0], self.contention);
        let mut is_contended = || contention > 0 && source.next_u64() % 255 < u64::from(contention);
        let asked = Asked { by, request, instance, now: self.now };
        let (call, note) = self.server.receive(asked, &mut is_contended);
        if !note.is_empty() {
            note!(self, "server executes for client {client}: {note}");
        }
        self.taken.insert(call, taken);
        self.tell_all();
        self.who = client + 1;
        let at = self.now + self.below(400);
        self.at(at, Job::Answer { client, life, number, call });
    }

    pub(super) fn refusal(&mut self) -> Option<Refusal> {
        let (count, how) = &mut self.refusals;
        *count = count.checked_sub(1)?;
        let (code, retry_after_ms) = match how {
            0 => (Code::Unavailable, Some(2_000)),
            1 => (Code::TooMany, Some(500)),
            2 => (Code::TooLarge, None),
            3 => (Code::ServerError, None),
            4 => (Code::Malformed, None),
            _ => (Code::Timeout, None),
        };
        Some(Refusal { error: Error::new(code, "refused by the model"), retry_after_ms })
    }

    fn send_reply(&mut self, client: usize, life: u64, number: u64, reply: &SyncReply) {
        let state = &self.clients[client];
        let is_cut = !state.network || state.deaf;
        if self.chance(self.faults.loss) || is_cut {
            self.figures.lost += 1;
            return;
        }
        let bytes = encode(self.clients[client].setup.format, reply).expect("a reply");
        if self.chance(self.faults.twice) {
            let at = self.now + self.delay();
            self.at(at, Job::Reply { client, life, number, bytes: Ok(bytes.clone()) });
        }
        let at = self.now + self.delay();
        self.at(at, Job::Reply { client, life, number, bytes: Ok(bytes) });
    }

    /// Sends a frame. Frames are delayed, never reordered, and lost only with their socket.
    pub(super) fn send_frame(&mut self, client: usize, socket: u64, frame: &ServerFrame) {
        let format: Format = self.clients[client].setup.format;
        let bytes = encode(format, frame).expect("a frame");
        let at = self.now + self.delay();
        let life = self.clients[client].life;
        if let Some(socket) = self.socket(client, life, socket) {
            socket.last_frame_at = socket.last_frame_at.max(at);
            let (at, socket) = (socket.last_frame_at, socket.number);
            self.at(at, Job::Frame { client, life, socket, bytes });
        }
    }

    /// The server informs the clients concerned of the new commits.
    pub(super) fn tell_all(&mut self) {
        let who = self.who;
        for committed in self.server.committed() {
            self.tell(&committed);
        }
        self.who = who;
    }

    fn tell(&mut self, committed: &Committed) {
        for client in 0..self.clients.len() {
            if self.clients[client].setup.tenant.org != committed.org {
                continue;
            }
            self.who = client + 1;
            let Some(socket) = self.clients[client].socket.as_ref().filter(|s| s.is_up) else { continue };
            let of = self.clients[client].setup.tenant;
            let may = |def: &&Def| !self.withdrawn.contains(&(of, (*def).clone()));
            let registered: BTreeSet<Def> = socket.registered.iter().filter(may).cloned().collect();
            let concerned = committed.defs.iter().filter(|def| registered.contains(def));
            let defs: Vec<Def> = concerned.cloned().collect();
            let number = socket.number;
            if defs.is_empty() {
                continue;
            }
            let pushed = if self.pushes {
                let instance = self.below(8) as usize;
                let session = self.clients[client].said_session.clone();
                self.server.push(&session, committed, &registered, (instance, self.now))
            } else {
                None
            };
            let hint = |def: Def| (def.clone(), committed.version_of(&def));
            let hints = || ServerFrame::Hints(defs.into_iter().map(hint).collect());
            let frame = pushed.map_or_else(hints, ServerFrame::Parts);
            // R21: a push may be missing, or come after the next one. Numbers show it.
            if self.pushes && !committed.numbers.is_empty() {
                if self.chance(self.faults.loss) {
                    continue;
                }
                if self.chance(self.faults.late) {
                    self.late_pushes.push((client, number, frame));
                    continue;
                }
            }
            self.send_frame(client, number, &frame);
            if self.chance(self.faults.twice) {
                self.send_frame(client, number, &frame);
            }
            let (late, others) =
                std::mem::take(&mut self.late_pushes).into_iter().partition(|(of, ..)| *of == client);
            self.late_pushes = others;
            let late: Vec<(usize, u64, ServerFrame)> = late;
            for (client, number, frame) in late {
                self.send_frame(client, number, &frame);
            }
        }
    }
}
