//! The leader's side of the inbox. The leader carries out each request once. It deletes the request's record
//! in the same batch that stores the effect.

use super::dispatch::Router;
use super::follow::Replay;
use crate::error::{Code, Result};
use crate::journal::{Change, Request, Wanted, WantedWrite, changes_of};
use crate::memory;
use crate::model::{Name, Pk, order};
use crate::store::RecordKey;
use crate::sync::context::Role;
use crate::sync::message::{Effect, Inbox, Write};
use crate::sync::outbox;

/// The ticket of sweeps whose result this session does not await.
const NOBODY: u64 = 0;

impl Router {
    pub fn take_inbox(&mut self, found: Result<Inbox>) -> Result<()> {
        self.tabs.is_reading_inbox = false;
        let again = std::mem::take(&mut self.tabs.reads_inbox_again);
        if self.ctx.is_following() {
            return Ok(());
        }
        let Some(layout) = &self.ctx.layout else { return Ok(()) };
        // If the device failed, the next "look" message causes another reading.
        let found = found?;
        if layout.generation().is_some_and(|own| own < found.generation) {
            // This session was frozen, or began its generation and then led late. Without a batch to write,
            // it would never have met the fence.
            return self.depose();
        }
        let mut requests: Vec<(RecordKey, Request)> = Vec::new();
        for (key, sealed) in found.requests {
            if !layout.is_request(&key) || !self.tabs.met.insert(key) {
                continue;
            }
            match layout.open_request(key, &sealed) {
                Ok(request) => requests.push((key, request)),
                // The session that made the request keeps showing it as not accepted.
                Err(error) => {
                    self.ctx.errors.report(error);
                    self.tabs.done.push(key);
                }
            }
        }
        let deferred = std::mem::take(&mut self.tabs.deferred);
        order::sort_by_key(&mut requests, |(key, request)| (request.stamp, *key));
        let commanded = &self.tabs.commanded;
        let is_outdated = |request: &Request| match &request.wanted {
            Wanted::Subscribe(def) | Wanted::Unsubscribe(def) => {
                commanded.get(def).is_some_and(|own| request.stamp < *own)
            }
            _ => false,
        };
        let (outdated, requests): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|(_, request)| is_outdated(request));
        for (key, request) in outdated {
            self.tabs.done.push(key);
            if let Wanted::Subscribe(def) | Wanted::Unsubscribe(def) = &request.wanted {
                self.ctx.memory.dirty.restate(def);
            }
        }
        let requests = requests.into_iter().map(|(key, request)| (Some(key), request.wanted));
        for (key, wanted) in deferred.into_iter().chain(requests) {
            // A request that cannot be carried out must not block the others. It may come from another
            // version of the application.
            if let Err(error) = self.take_request(key, wanted) {
                self.ctx.errors.report(error);
            }
        }
        match again {
            Some(with_copies) => self.tabs.read_inbox(&mut self.ctx, with_copies),
            // All earlier requests are carried out.
            None => self.tabs.commanded.clear(),
        }
        // The next session in the queue for the lead may understand them.
        if std::mem::take(&mut self.tabs.steps_down) && self.ctx.role == Role::Leader {
            return self.depose();
        }
        Ok(())
    }

    /// Carries out a request: the one in the record `key`, or one of this session if there is no key.
    pub fn take_request(&mut self, key: Option<RecordKey>, wanted: Wanted) -> Result<()> {
        self.tabs.met.extend(key);
        match wanted {
            Wanted::Write(wanted) => return self.replay().take_write(key, wanted),
            Wanted::Amend { id, new, args } => {
                if !self.outbox.is_taken_in(&new) {
                    let again = args.clone();
                    let outbox = &mut self.outbox;
                    let app = &*outbox.application;
                    match outbox::amend(&mut self.ctx, &mut outbox.table, app, &id, new.clone(), args) {
                        Ok(()) => {
                            self.tabs.from_inbox.extend(key.map(|key| (new.clone(), key)));
                            self.tabs.untold.push((id.clone(), Effect::Amended { id, by: new }));
                            return Ok(());
                        }
                        // An earlier leader received the refusal and could not write it. The server will
                        // refuse the operation again.
                        Err(error) if error.code() == Code::BadOption => {
                            self.tabs.deferred.push((key, Wanted::Amend { id, new, args: again }));
                            return Ok(());
                        }
                        Err(error) if error.code() == Code::NotFound => {
                            self.outbox.table.refuse(&mut self.ctx, new, error);
                        }
                        Err(_) => {
                            self.tabs.hold(key, Wanted::Amend { id, new, args: again });
                            return Ok(());
                        }
                    }
                }
            }
            Wanted::Discard(id) => match self.outbox.table.discard(&mut self.ctx, &id) {
                Ok(error) => {
                    self.tabs.untold.push((id.clone(), Effect::Accepted { id, result: Err(error) }));
                }
                Err(error) if error.code() == Code::BadOption => {
                    self.tabs.deferred.push((key, Wanted::Discard(id)));
                    return Ok(());
                }
                // Already amended or discarded, here or in another session: nothing is left of it.
                _ => {}
            },
            Wanted::Subscribe(ref def) | Wanted::Unsubscribe(ref def) | Wanted::Lease(ref def, _)
                if self.ctx.memory.schema().check_def(def).is_err() =>
            {
                self.tabs.hold(key, wanted);
                return Ok(());
            }
            Wanted::Subscribe(def) => self.subscribe(def)?,
            Wanted::Unsubscribe(def) => self.unsubscribe(&def),
            Wanted::Lease(def, lease) => drop(memory::lease(&mut self.ctx.memory, &def, lease)),
            Wanted::Sweep(retention) => self.outbox.sweep(NOBODY, retention, true),
            Wanted::Signal(_) => {}
        }
        self.tabs.done.extend(key);
        Ok(())
    }
}

impl Replay<'_> {
    fn take_write(&mut self, key: Option<RecordKey>, wanted: WantedWrite) -> Result<()> {
        if self.outbox.is_taken_in(&wanted.id) {
            self.tabs.done.extend(key);
            return Ok(());
        }
        let Ok(changes) = changes_of(self.ctx.memory.schema(), &wanted.name, &wanted.args) else {
            self.tabs.hold(key, Wanted::Write(wanted));
            return Ok(());
        };
        if self.is_behind_deferred(&wanted, &changes.unwrap_or_default()) {
            self.tabs.deferred.push((key, Wanted::Write(wanted)));
            return Ok(());
        }
        let id = wanted.id.clone();
        let local = outbox::local_changes(self.ctx.memory.schema(), &wanted.name, &wanted.args)?;
        let keys = wanted.touches.iter().filter_map(|(class, pk)| self.ctx.memory.doc_key(class, pk));
        let (touches, after) = (keys.collect(), wanted.after.clone());
        let (name, args) = (wanted.name.clone(), wanted.args.clone());
        match self.outbox.table.write(self.ctx, Write { id: id.clone(), name, args, touches, after }) {
            Ok(()) => {
                if let Some(op) = self.outbox.table.get_mut(&id) {
                    op.state.at = wanted.at;
                    op.state.base = wanted.base;
                    op.state.bases = wanted.bases;
                    op.state.insists = outbox::places_left(&wanted.insists, &local);
                    op.issued.iter_mut().for_each(|issued| issued.insists = Some(wanted.insists.clone()));
                }
                self.tabs.from_inbox.extend(key.map(|key| (id, key)));
            }
            // A change of a local document that is deleted meanwhile.
            Err(error) if error.code() == Code::NotFound => {
                self.outbox.table.refuse(self.ctx, id, error);
                self.tabs.done.extend(key);
            }
            // It is saved, and nobody has decided about it: it is tried again.
            Err(error) => {
                self.tabs.deferred.push((key, Wanted::Write(wanted)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether a request that waits comes first: it concerns one of the documents, a parent of one, or an operation
    /// that this one names.
    fn is_behind_deferred(&self, wanted: &WantedWrite, changes: &[Change]) -> bool {
        if self.tabs.deferred.is_empty() {
            return false;
        }
        let trees = changes.iter().filter_map(|change| change.tree.as_ref());
        let mut keys: Vec<(Name, Pk)> =
            trees.map(|tree| (self.ctx.memory.class_name(tree), tree.1.clone())).collect();
        keys.extend(wanted.touches.iter().cloned());
        let names = |id: &str| changes.iter().any(|change| change.expects(id));
        self.tabs.deferred.iter().any(|(_, other)| other.blocks(wanted, &keys, names))
    }
}
