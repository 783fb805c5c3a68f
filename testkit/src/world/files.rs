//! A client's module for files, as a model: the bytes on its device, and their way to the server (R24, R26 to R28). It
//! asks which objects the server has, sends the others one by one, and has each file confirmed. It remembers nothing else.

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::SyncRequest;
use escale::journal::files_of;
use escale::model::{Epoch, Value};
use escale::sync::{Event, FileWord, Machine, Mode};

use super::World;
use super::wire::Job;
use crate::backend::Backend;
use crate::files::{FILES, FilesAnswer, FilesCall, FilesStep, FilesWork, number_of, stock};
use crate::schema::{Map, data, key};

/// Milliseconds after which a call has failed.
const CALL_MS_MAX: u64 = 30_000;

/// The answers for which the core parks the operations of a file. After all others the module tries again.
const VERDICTS: [Code; 4] = [Code::NotSupported, Code::QuotaExceeded, Code::BadValue, Code::TooLarge];

/// The files on a device.
#[derive(Clone, Debug, Default)]
pub struct AtHand {
    files: BTreeSet<usize>,
    /// Chunks that the browser has lost.
    lost: BTreeSet<usize>,
}

impl AtHand {
    fn add(&mut self, file: usize) {
        self.files.insert(file);
        for chunk in chunks_of(file) {
            self.lost.remove(&chunk);
        }
    }

    /// Leaves out references to files of which this device lacks bytes.
    pub fn leave_out_lost(&self, data: &mut Map) {
        let Some(Value::Array(files)) = data.get_mut("files") else { return };
        files.retain(|file| {
            let number = files_of(file).first().and_then(|sha| number_of(sha)).expect("a file of the stock");
            self.files.contains(&number) && !chunks_of(number).any(|chunk| self.lost.contains(&chunk))
        });
    }
}

/// The chunks of a file: itself, if it has only one.
fn chunks_of(file: usize) -> impl Iterator<Item = usize> {
    let listed = &stock()[file].chunks;
    listed.iter().copied().chain(listed.is_empty().then_some(file))
}

fn sha(file: usize) -> String {
    stock()[file].sha.clone()
}

/// The subject of a call.
#[derive(Clone, Copy, Debug)]
enum About {
    All,
    /// The confirmation of a file.
    File(usize),
    /// An object of that file.
    Object(usize, usize),
}

/// The module of an open client.
#[derive(Debug, Default)]
pub struct Module {
    needed: Vec<String>,
    /// The words that the core had in this session: the epoch in which the server confirmed each file.
    confirmed: BTreeMap<String, Epoch>,
    /// The files over which the server decides. The device did not hold them, or failed to send them again for an operation
    /// that may have been executed.
    left_to_server: BTreeSet<String>,
    /// The objects that the server has, if this round asked.
    there: Option<BTreeSet<usize>>,
    /// Lists that were sent in this round.
    listed: BTreeSet<usize>,
    /// The call under way, by its number.
    call: Option<(u64, About)>,
    calls: u64,
    /// The next round is arranged.
    is_due: bool,
}

/// A step of a call between a module and a server.
pub enum Step {
    Round,
    Request {
        number: u64,
        call: FilesCall,
    },
    GoOn {
        number: u64,
        work: u64,
    },
    /// None if the call took too long.
    Answered {
        number: u64,
        answer: Option<FilesAnswer>,
    },
}

impl<S: Backend> World<S> {
    pub(super) fn add_files(&mut self, client: usize, doc: usize, bits: u8) {
        self.editions += 1;
        let data = data(doc, None, bits, self.editions);
        let state = &mut self.clients[client];
        if state.machine.is_none() {
            return;
        }
        if state.setup.has_files {
            let numbers: Vec<usize> = files_in(&data).iter().filter_map(|sha| number_of(sha)).collect();
            numbers.into_iter().for_each(|file| state.at_hand.add(file));
        }
        let class = Value::from(key(doc).0.as_str());
        self.issue(client, "doc.put", Value::from([("class", class), ("data", Value::Map(data))]));
    }

    /// R28: bytes stay while an operation needs them that the server has not accepted.
    pub(super) fn drop_file(&mut self, client: usize, file: usize) {
        let state = &mut self.clients[client];
        let Some(machine) = &state.machine else { return };
        let reasons = machine.files(false);
        for (op, _) in machine.operations().into_iter().filter(|(op, _)| op.state.accepted.is_none()) {
            let needs = files_of(&op.state.issued.args);
            let has_reason = needs.iter().all(|sha| reasons.contains(sha));
            assert!(has_reason || !state.setup.has_files, "R28: client {client}, {}", op.state.issued.id);
        }
        if !reasons.contains(&sha(file)) {
            state.at_hand.files.remove(&file);
        }
    }

    pub(super) fn lose_chunk(&mut self, client: usize, file: usize) {
        self.clients[client].at_hand.lost.insert(file);
    }

    /// The core waits for a word on these.
    pub(super) fn need_files(&mut self, client: usize, needed: Vec<String>) {
        note!(self, "client {client} needs {needed:?}");
        let state = &mut self.clients[client];
        assert!(state.setup.has_files, "R24: a word that nobody can give");
        let reasons = state.machine.as_ref().expect("an open client").files(false);
        assert!(needed.iter().all(|sha| reasons.contains(sha)), "R28: client {client} needs {needed:?}");
        state.module.needed = needed;
        self.arrange_round(client, 20);
    }

    fn arrange_round(&mut self, client: usize, within: u64) {
        if !std::mem::replace(&mut self.clients[client].module.is_due, true) {
            let (at, life) = (self.now + self.below(within), self.clients[client].life);
            self.at(at, Job::Files { client, life, step: Step::Round });
        }
    }

    /// Begins again after a while, and trusts no answer of before.
    fn try_later(&mut self, client: usize) {
        let module = &mut self.clients[client].module;
        (module.there, module.listed) = (None, BTreeSet::new());
        self.arrange_round(client, 5_000);
    }

    pub(super) fn carry_file(&mut self, client: usize, life: u64, step: Step) {
        match step {
            Step::Request { number, call } => self.take_files_call(client, life, number, call),
            Step::GoOn { number, work } => self.go_on_with_call(client, life, number, work),
            _ if !self.is_current(client, life) => {}
            Step::Round => {
                self.clients[client].module.is_due = false;
                if self.clients[client].module.call.is_none() {
                    self.go_round(client);
                }
            }
            Step::Answered { number, answer } => {
                let call = self.clients[client].module.call.take_if(|(of, _)| *of == number);
                if let Some((_, about)) = call {
                    self.take_answer(client, about, answer);
                }
            }
        }
    }

    /// Does the next thing that is to be done.
    fn go_round(&mut self, client: usize) {
        let state = &self.clients[client];
        let module = &state.module;
        let Some(first) = module.needed.first() else { return };
        if state.mode == Mode::Avion || !state.network {
            return self.try_later(client);
        }
        let held = |sha: &String| number_of(sha).filter(|file| state.at_hand.files.contains(file));
        if let Some(sha) = module.needed.iter().find(|sha| held(sha).is_none()) {
            return self.give_word(client, vec![sha.clone()], FileWord::Absent);
        }
        let files: Vec<usize> = module.needed.iter().filter_map(held).collect();
        let Some(there) = &module.there else {
            let shas: BTreeSet<usize> =
                files.iter().flat_map(|file| chunks_of(*file).chain([*file])).collect();
            return self.send_call(client, About::All, FilesCall::Have(shas.into_iter().map(sha).collect()));
        };
        let file = number_of(first).expect("a file of the stock");
        let missing = chunks_of(file).find(|chunk| !there.contains(chunk));
        match missing {
            Some(chunk) if state.at_hand.lost.contains(&chunk) => {
                self.give_word(client, vec![sha(file)], FileWord::Failed(Code::LocalDataLost));
            }
            Some(chunk) => self.send_call(client, About::Object(file, chunk), FilesCall::Put(chunk)),
            // The server may have the list as plain bytes, or for the second time.
            None if !stock()[file].chunks.is_empty() && !module.listed.contains(&file) => {
                self.send_call(client, About::Object(file, file), FilesCall::Put(file));
            }
            None => self.send_call(client, About::File(file), FilesCall::Have(vec![sha(file)])),
        }
    }

    fn take_answer(&mut self, client: usize, about: About, answer: Option<FilesAnswer>) {
        let module = &mut self.clients[client].module;
        match (about, answer) {
            (About::All, Some(FilesAnswer::There(epoch, shas))) => {
                let there: BTreeSet<usize> = shas.iter().filter_map(|sha| number_of(sha)).collect();
                // If the core asks again in one epoch, the server may lack the list as such.
                let is_new = |sha: &&String| module.confirmed.get(*sha) != Some(&epoch);
                let confirmed = module.needed.iter().filter(|sha| shas.contains(sha)).filter(is_new);
                let confirmed: Vec<String> = confirmed.cloned().collect();
                module.there = Some(there);
                if confirmed.is_empty() {
                    self.go_round(client)
                } else {
                    self.confirm(client, confirmed, &epoch)
                }
            }
            (About::File(file), Some(FilesAnswer::There(epoch, shas))) if shas.contains(&sha(file)) => {
                self.confirm(client, vec![sha(file)], &epoch);
            }
            (About::Object(file, object), Some(FilesAnswer::Kept)) => {
                module.there.get_or_insert_default().insert(object);
                if file == object {
                    module.listed.insert(file);
                }
                self.figures.uploads += 1;
                self.go_round(client);
            }
            (About::File(file) | About::Object(file, _), Some(FilesAnswer::Refused(code)))
                if VERDICTS.contains(&code) =>
            {
                self.give_word(client, vec![sha(file)], FileWord::Failed(code));
            }
            _ => self.try_later(client),
        }
    }

    fn confirm(&mut self, client: usize, shas: Vec<String>, epoch: &Epoch) {
        self.give_word(client, shas, FileWord::There(epoch.clone()));
    }

    /// Gives the core a word on files for which it still waits.
    fn give_word(&mut self, client: usize, mut shas: Vec<String>, word: FileWord) {
        let state = &mut self.clients[client];
        let machine = &state.machine;
        let may_be_executed = |sha: &String| {
            machine.iter().flat_map(Machine::operations).any(|(op, _)| {
                op.is_waiting() && op.may_be_sent() && files_of(&op.state.issued.args).contains(sha)
            })
        };
        let module = &mut state.module;
        for sha in &shas {
            let is_left_to_server = match &word {
                FileWord::There(epoch) => {
                    module.confirmed.insert(sha.clone(), epoch.clone());
                    false
                }
                FileWord::Absent => true,
                FileWord::Failed(_) => may_be_executed(sha),
            };
            if is_left_to_server {
                module.left_to_server.insert(sha.clone());
            }
        }
        shas.retain(|sha| module.needed.contains(sha));
        module.needed.retain(|sha| !shas.contains(sha));
        self.arrange_round(client, 20);
        if !shas.is_empty() {
            self.feed(client, Event::FilesSettled { shas, word });
        }
    }

    /// Sends a call to the server.
    fn send_call(&mut self, client: usize, about: About, call: FilesCall) {
        note!(self, "client {client} > {call:?}");
        let (life, faults) = (self.clients[client].life, self.faults);
        let module = &mut self.clients[client].module;
        module.calls += 1;
        let number = module.calls;
        module.call = Some((number, about));
        let late = Job::Files { client, life, step: Step::Answered { number, answer: None } };
        self.at(self.now + CALL_MS_MAX, late);
        if self.clients[client].mute || self.chance(faults.loss) {
            self.figures.lost += 1;
            return;
        }
        for _ in 0..if self.chance(faults.twice) { 2 } else { 1 } {
            let at = self.now + self.delay();
            let step = Step::Request { number, call: call.clone() };
            self.at(at, Job::Files { client, life, step });
        }
    }

    /// A call reaches the server, also if its client has ended meanwhile.
    fn take_files_call(&mut self, client: usize, life: u64, number: u64, call: FilesCall) {
        if let Some(refusal) = self.refusal() {
            return self.answer_call(client, life, number, FilesAnswer::Refused(refusal.error.code()));
        }
        let instance = self.below(8) as usize;
        let work = FilesWork::Call(self.clients[client].setup.tenant, call);
        let work = self.server.begin_files(work, instance, self.now);
        let at = self.now + self.below(200);
        self.at(at, Job::Files { client, life, step: Step::GoOn { number, work } });
    }

    fn go_on_with_call(&mut self, client: usize, life: u64, number: u64, work: u64) {
        match self.server.go_on_files(work, self.now) {
            FilesStep::Done(answer) => self.answer_call(client, life, number, answer),
            FilesStep::Later(ms) => {
                self.at(self.now + ms, Job::Files { client, life, step: Step::GoOn { number, work } });
            }
            FilesStep::Never => {}
        }
    }

    fn answer_call(&mut self, client: usize, life: u64, number: u64, answer: FilesAnswer) {
        note!(self, "server answers client {client}: {answer:?}");
        let state = &self.clients[client];
        if !state.network || state.deaf || self.chance(self.faults.loss) {
            self.figures.lost += 1;
            return;
        }
        let at = self.now + self.delay();
        let step = Step::Answered { number, answer: Some(answer) };
        self.at(at, Job::Files { client, life, step });
    }

    pub(super) fn go_on_collecting(&mut self, work: u64) {
        if let FilesStep::Later(ms) = self.server.go_on_files(work, self.now) {
            self.at(self.now + ms, Job::Collect { work });
        }
    }

    /// R24: the server has confirmed each referenced file in the session's epoch or in a later one. It decides over files that
    /// the device did not hold, and over operations that it may have executed.
    pub(super) fn check_files_sent(&self, client: usize, request: &SyncRequest) {
        let state = &self.clients[client];
        let epoch = request.epoch.as_ref();
        for op in request.ops.iter().filter(|_| state.setup.has_files) {
            for sha in files_of(&op.args) {
                let confirmed = state.module.confirmed.get(&sha);
                let is_there = confirmed.is_some_and(|of| epoch.is_none_or(|epoch| of >= epoch));
                let is_left_to_server = state.module.left_to_server.contains(&sha);
                assert!(
                    is_there || is_left_to_server,
                    "R24: {} is sent, and {sha} is {confirmed:?} in {epoch:?}",
                    op.id
                );
            }
        }
    }
}

/// The hashes of the files that the data of a document references.
pub fn files_in(data: &Map) -> Vec<String> {
    data.get("files").map(files_of).unwrap_or_default()
}

const _: () = assert!(FILES == 5, "actions take a file by a number below 5");
