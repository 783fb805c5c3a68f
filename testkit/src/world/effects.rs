//! The driver's part: carries out a machine's effects, and checks that it keeps its promises.

use escale::codec::encode;
use escale::sync::{Effect, Event, Mode, Refusal};
use escale::{Code, Error};

use super::World;
use super::client::Socket;
use super::wire::Job;
use crate::backend::Backend;
use crate::client::{Call, Duty};

/// Milliseconds after which the driver aborts a request.
const REQUEST_TIMEOUT_MS: u64 = 60_000;

impl<S: Backend> World<S> {
    pub(super) fn carry_out(&mut self, client: usize, effect: Effect) {
        let life = self.clients[client].life;
        let machine = self.clients[client].machine.as_ref().expect("an open client");
        match Duty::of(effect, machine) {
            Duty::Device(call) => self.call(client, call),
            Duty::Network(effect) => self.reach_out(client, effect),
            Duty::Timer(mono) => {
                let at = mono.map(|mono| mono + self.clients[client].mono_base);
                self.clients[client].wake_at = at;
                if let Some(at) = at {
                    assert!(at > self.now, "a wish to be woken in the past");
                    self.at(at, Job::Wake { client, life });
                }
            }
            Duty::Application(effect) => self.report(client, effect),
        }
    }

    /// A call reaches the device after a while.
    fn call(&mut self, client: usize, call: Call) {
        let state = &mut self.clients[client];
        let life = state.life;
        assert_ne!(state.mode, Mode::Incognito, "a call to the device in incognito");
        match &call {
            Call::Commit(batch) => {
                assert!(!std::mem::replace(&mut state.is_writing, true), "two batches in flight");
                state.commits += 1;
                let fails = state.fail_commits.checked_sub(1).map(|left| state.fail_commits = left).is_some();
                let code = if state.fails_full { Code::StorageFull } else { Code::StorageFailed };
                note!(
                    self,
                    "client {client} > commit {} puts, {} deletes{}",
                    batch.puts.len(),
                    batch.deletes.len(),
                    if fails { ", which fails" } else { "" }
                );
                let at = self.now + self.below(50);
                if fails {
                    self.clients[client].ledger.may_forget_discards = true;
                    let event = call.failed(Error::new(code, "the device of the model"));
                    self.at(at, Job::Called { client, life, event });
                } else {
                    self.at(at, Job::Call { client, life, call });
                }
            }
            Call::Pages { .. } | Call::Journal { .. } => {
                let at = self.now + self.below(30);
                self.at(at, Job::Call { client, life, call });
            }
            Call::Reopen(_) => panic!("this device closes under nobody: tests/faults has those that do"),
            Call::Poll { .. } | Call::State { .. } | Call::Inbox { .. } => {
                panic!("a session alone on its device has no others")
            }
        }
    }

    fn reach_out(&mut self, client: usize, effect: Effect) {
        let life = self.clients[client].life;
        let mode = self.clients[client].mode;
        match effect {
            Effect::Send { number, request, .. } => {
                assert_ne!(mode, Mode::Avion, "a request in avion");
                let ops: Vec<_> =
                    request.ops.iter().map(|op| (op.seq, &op.name, &op.id, &op.after)).collect();
                note!(self, "client {client} > request {number} {ops:?} {:?}", request.subs);
                self.check_sent(client, &request);
                self.check_files_sent(client, &request);
                let format = self.clients[client].setup.format;
                let bytes = encode(format, &request).expect("a request");
                let state = &mut self.clients[client];
                assert_eq!(state.sending.replace(number), None, "R5: two requests in flight");
                state.sends += 1;
                self.send(client, number, bytes);
            }
            Effect::CancelSend(number) => {
                self.clients[client].sending.take_if(|sending| *sending == number);
            }
            Effect::OpenSocket(socket) => {
                assert_ne!(mode, Mode::Avion, "a socket in avion");
                let state = &self.clients[client];
                let is_whole = state.network && !state.mute && !state.deaf;
                let is_up = is_whole && !self.chance(self.faults.loss);
                self.clients[client].socket = Some(Socket { number: socket, is_up, ..Socket::default() });
                let at = self.now + self.delay();
                if is_up {
                    self.at(at, Job::SocketOpened { client, life, socket });
                } else {
                    self.at(at, Job::SocketClosed { client, life, socket });
                }
            }
            Effect::Say { socket, request } => {
                assert_ne!(mode, Mode::Avion, "a word in avion");
                let at = self.now + self.delay();
                self.at(at, Job::Said { client, life, socket, session: request.session, subs: request.subs });
            }
            Effect::CloseSocket(socket) => {
                self.clients[client].socket.take_if(|s| s.number == socket);
            }
            other => panic!("this server asks for no token: {other:?}"),
        }
    }

    fn report(&mut self, client: usize, effect: Effect) {
        match effect {
            Effect::Answer { ticket, rows } => {
                assert!(self.clients[client].awaited.remove(&ticket), "an answer that nobody awaits");
                self.check_rows(client, &rows.expect("a device that reads"));
            }
            Effect::Matched { ticket, ids } => {
                assert!(self.clients[client].awaited.remove(&ticket), "an answer that nobody awaits");
                match ids {
                    Ok(ids) => self.check_answer(client, ticket, ids),
                    // The query was within a def that the client is not subscribed to.
                    Err(error) if !self.clients[client].asked.contains_key(&ticket) => {
                        assert_eq!(error.code(), Code::BadOption)
                    }
                    Err(error) => panic!("a device that reads: {error}"),
                }
            }
            Effect::Changed { .. } | Effect::StatusChanged => {}
            Effect::Files { needed } => self.need_files(client, needed),
            Effect::Tab(_) => panic!("a session alone on its device has no others"),
            effect => self.told_of_op(client, effect),
        }
    }

    fn send(&mut self, client: usize, number: u64, bytes: Vec<u8>) {
        let life = self.clients[client].life;
        let refused = |code| Err(Refusal::from(Error::new(code, "no answer")));
        if !self.clients[client].network {
            let job = Job::Reply { client, life, number, bytes: refused(Code::Offline) };
            return self.at(self.now + 1, job);
        }
        let late = Job::Reply { client, life, number, bytes: refused(Code::Timeout) };
        self.at(self.now + REQUEST_TIMEOUT_MS, late);
        if self.chance(self.faults.loss) || self.clients[client].mute {
            self.figures.lost += 1;
            return;
        }
        if self.chance(self.faults.twice) {
            let at = self.now + self.delay();
            self.at(at, Job::Request { client, life, number, bytes: bytes.clone() });
        }
        let at = self.now + self.delay();
        self.at(at, Job::Request { client, life, number, bytes });
    }

    /// The application reads documents.
    pub(super) fn read(&mut self, client: usize, ids: Vec<u32>) -> u64 {
        let state = &mut self.clients[client];
        state.last_ticket += 2;
        let ticket = state.last_ticket;
        state.awaited.insert(ticket);
        self.feed(client, Event::Read { ticket, ids });
        ticket
    }
}
