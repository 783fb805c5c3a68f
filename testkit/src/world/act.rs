//! Carries out the actions of a history.

use escale::store::Table;
use escale::sync::{Event, Mode};

use super::World;
use super::query::Asked;
use super::wire::Job;
use crate::backend::{Backend, Write};
use crate::files::{FilesFault, FilesWork};
use crate::plan::Action;
use crate::schema::{self, FLAT, IN_TREES, PHOTO, PHOTOS, data, def, key};

const DAY_MS: u64 = 86_400_000;

/// The DELTA that servers give here.
const DELTA_MS: u64 = 1_801;

impl<S: Backend> World<S> {
    pub fn act(&mut self, action: Action) {
        note!(self, "{action:?}");
        self.who = 0;
        let of = |client: u8, world: &World<S>| usize::from(client) % world.clients.len();
        match action {
            Action::Write { doc, section, tags, life } => {
                let write = self.put(usize::from(doc), section, tags, life);
                self.transact(vec![write]);
            }
            Action::Delete { doc } => self.transact(vec![Write::Delete(key(usize::from(doc)))]),
            Action::WriteMany { from, count, section, tags } => {
                let writes = (0..count).map(|n| match (n % 4, following(usize::from(from), n)) {
                    (3, doc) => Write::Delete(key(doc)),
                    (_, doc) => self.put(doc, section + n, tags.rotate_left(u32::from(n)), 0),
                });
                let writes = writes.collect();
                self.transact(writes);
            }
            Action::Subscribe { client, def: d } => {
                self.feed(of(client, self), Event::Subscribe(def(usize::from(d))));
            }
            Action::Unsubscribe { client, def: d } => {
                self.feed(of(client, self), Event::Unsubscribe(def(usize::from(d))));
            }
            Action::Read { client, def: d } => self.read_def(of(client, self), usize::from(d)),
            Action::Query { client, size, shape } => self.query(of(client, self), Asked::of(size, shape)),
            Action::Wait { ticks } => self.run_for(u64::from(ticks) * 50),
            Action::WaitLong { seconds } => self.run_for(u64::from(seconds) * 1_000),
            Action::Crash { client } => self.crash(of(client, self)),
            Action::CrashAt { client, effects } => {
                let client = of(client, self);
                self.clients[client].crash_in = Some(effects);
            }
            Action::Reopen { client } => self.open(of(client, self)),
            Action::Damage { client, record, how } => self.damage(of(client, self), record, how),
            Action::Mode { client } => self.change_mode(of(client, self)),
            Action::Network { client } => {
                let client = of(client, self);
                let up = !self.clients[client].network;
                self.set_network(client, up);
            }
            Action::Visible { client } => self.feed(of(client, self), Event::Visible),
            Action::CutSocket { client, silent } => self.cut(of(client, self), silent),
            Action::FailCommits { client, count, full } => {
                let client = of(client, self);
                self.clients[client].fail_commits = count;
                self.clients[client].fails_full = full;
            }
            Action::Faults { loss, twice, late } => self.faults = super::Faults { loss, twice, late },
            Action::Refuse { count, how } => self.refusals = (count, how),
            Action::CursorKey => self.server.change_cursor_key(),
            Action::Skew { instance, ahead } => {
                self.server.skew(usize::from(instance), ahead);
            }
            Action::SetBack { seconds } => {
                // Transactions that began by the old clock end first.
                self.finish_transactions();
                self.server.set_back(u64::from(seconds) * 1_000);
            }
            Action::Push { on } => self.pushes = on,
            Action::Forget { seconds } => {
                let keep = 3 * DELTA_MS + u64::from(seconds) * 100;
                self.server.forget(keep, self.now);
            }
            Action::Days { days } => {
                for client in 0..self.clients.len() {
                    self.crash(client);
                }
                self.finish_transactions();
                self.run_for(u64::from(days) * DAY_MS);
                self.server.forget(DAY_MS / 2, self.now);
            }
            Action::BackUp => self.server.back_up(),
            Action::Restore => {
                let is_restored = self.server.restore(self.now);
                self.note_restored(is_restored);
            }
            Action::RestoreFiles => {
                let is_restored = self.server.restore_files(self.now);
                self.note_restored(is_restored);
            }
            Action::Renew => self.server.renew(self.now),
            Action::RestartServer { instance } => self.server.restart(usize::from(instance)),
            Action::FailServer => self.server.fail_commit(),
            Action::Sleep { hours } => self.sleep(hours),
            Action::PowerLoss { client, batches } => self.lose_power(of(client, self), usize::from(batches)),
            Action::Wipe { client } => self.wipe(of(client, self)),
            Action::CopyDevice { client } => self.copy_device(of(client, self)),
            Action::PutBackDevice { client } => self.put_back_device(of(client, self)),
            Action::OneWay { client, mute, deaf } => self.cut_one_way(of(client, self), mute, deaf),
            Action::Op { client, what, doc, arg } => {
                let (name, args) = self.operation(what, doc, arg);
                self.issue(of(client, self), name, args);
            }
            Action::Resolve { client, amends } => self.resolve(of(client, self), amends),
            Action::Sweep { client, how, apply } => self.sweep(of(client, self), how, apply),
            Action::History { client, doc } => self.history_of(of(client, self), doc),
            Action::Contention { of_255 } => self.contention = of_255,
            Action::Right { client, def: d, ends } => {
                let client = of(client, self);
                self.set_right(client, def(usize::from(d)), !ends);
            }
            Action::AddFile { client, doc, files } => {
                self.add_files(of(client, self), usize::from(doc), files)
            }
            Action::DropFile { client, file } => self.drop_file(of(client, self), usize::from(file)),
            Action::LoseChunk { client, file } => self.lose_chunk(of(client, self), usize::from(file)),
            Action::PutLate { minutes, twice } => {
                self.server.inject_file_fault(FilesFault::LatePut { ms: u64::from(minutes) * 60_000, twice });
            }
            Action::DeleteLate { minutes, twice } => {
                self.server
                    .inject_file_fault(FilesFault::LateDelete { ms: u64::from(minutes) * 60_000, twice });
            }
            Action::FilesDown { calls } => self.server.inject_file_fault(FilesFault::Down(calls)),
            Action::Collect { instance } => {
                let work = self.server.begin_files(FilesWork::Collect, usize::from(instance), self.now);
                self.at(self.now + 20, Job::Collect { work });
            }
        }
    }

    fn note_restored(&mut self, is_restored: bool) {
        if is_restored {
            self.was_restored = true;
            self.figures.restores += 1;
            note!(self, "epoch {:?}", self.server.epoch(0));
        }
    }

    fn put(&mut self, doc: usize, section: u8, tags: u8, life: u8) -> Write {
        self.editions += 1;
        let section = Some(usize::from(section % 4)).filter(|section| *section < schema::SECTIONS.len());
        let max_life = (life > 0).then(|| self.now / 60_000 + u64::from(life) - 1);
        Write::Put { key: key(doc), data: data(doc, section, tags, self.editions), max_life }
    }

    fn transact(&mut self, writes: Vec<Write>) {
        let instance = self.below(8) as usize;
        let org = if self.orgs > 1 { self.below(self.orgs) as usize } else { 0 };
        let transaction = self.server.begin(org, instance, self.now, writes);
        // Mostly quick, sometimes late, occasionally beyond the bound.
        let lasts = if self.chance(60) { self.below(1_100) } else { self.below(20) };
        self.at(self.now + lasts, Job::Commit { transaction });
    }

    pub(super) fn finish_transactions(&mut self) {
        while self.server.open_transactions() > 0 {
            self.run_for(200);
        }
    }

    pub(super) fn set_network(&mut self, client: usize, up: bool) {
        self.clients[client].network = up;
        if !up && let Some(socket) = &mut self.clients[client].socket {
            socket.is_up = false;
        }
        self.feed(client, Event::Network(up));
    }

    fn cut(&mut self, client: usize, silent: bool) {
        let life = self.clients[client].life;
        let Some(socket) = &mut self.clients[client].socket else { return };
        socket.is_up = false;
        let socket = socket.number;
        if !silent {
            self.at(self.now + 5, Job::SocketClosed { client, life, socket });
        }
    }

    fn change_mode(&mut self, client: usize) {
        let state = &mut self.clients[client];
        state.mode = match state.mode {
            Mode::Incognito => return,
            Mode::Synced => Mode::Avion,
            Mode::Avion => Mode::Synced,
        };
        let mode = state.mode;
        self.feed(client, Event::SetMode(mode));
    }

    fn read_def(&mut self, client: usize, number: usize) {
        let Some(machine) = &self.clients[client].machine else { return };
        if let Some((ids, _, _)) = machine.list(&def(number)) {
            self.read(client, ids);
        }
    }

    /// Damages a record of a closed client.
    fn damage(&mut self, client: usize, record: u8, how: u8) {
        let state = &mut self.clients[client];
        if state.machine.is_some() || state.setup.incognito {
            return;
        }
        let name = state.store_name();
        let mut was_damaged = false;
        state.device.tamper(&name, |records| {
            let keys: Vec<_> =
                records.keys().filter(|(table, _)| *table != Table::Journal).copied().collect();
            if keys.len() < 2 {
                return;
            }
            was_damaged = true;
            let victim = keys[usize::from(record) % keys.len()];
            let other = keys[(usize::from(record) + 1) % keys.len()];
            match how {
                0 => {
                    let bytes = records.get_mut(&victim).expect("a record");
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 0x10;
                }
                1 => records.get_mut(&victim).expect("a record").truncate(20),
                2 => drop(records.remove(&victim)),
                _ => {
                    let (a, b) = (records[&victim].clone(), records[&other].clone());
                    records.insert(victim, b);
                    records.insert(other, a);
                }
            }
        });
        state.was_damaged |= was_damaged;
    }
}

/// The document that is `n` after another one: of the flat ones, of those in trees, or of those with files.
pub fn following(doc: usize, n: u8) -> usize {
    let (first, count) = match doc {
        0..FLAT => (0, FLAT),
        FLAT..PHOTO => (FLAT, IN_TREES),
        _ => (PHOTO, PHOTOS),
    };
    first + (doc - first + usize::from(n)) % count
}
