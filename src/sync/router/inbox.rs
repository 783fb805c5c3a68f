//! The leader's side of the inbox. The leader carries out each request once. It deletes the request's record
//! in the same batch that stores the effect.

use super::dispatch::Router;
use crate::error::{Code, Result};
use crate::journal::{Issued, Wanted, changes_of};
use crate::memory;
use crate::store::RecordKey;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, Inbox};
use crate::sync::outbox::Outbox;
use crate::sync::role::{Fence, Leader, Role, Tabs};

/// The ticket of sweeps whose result this session does not await.
const NOBODY: u64 = 0;

impl Router {
    /// The inbox was read: carries out its requests.
    pub fn take_inbox(&mut self, found: Result<Inbox>) -> Result<()> {
        self.tabs.is_reading_inbox = false;
        let again = std::mem::take(&mut self.tabs.reads_inbox_again);
        let Role::Leader(leader) = &mut self.role else { return Ok(()) };
        // If the device failed, the next "look" message causes another reading.
        let found = found?;
        if self.ctx.generation().is_some_and(|own| own < found.generation) {
            // This session was frozen, or began its generation and then led late. Without a batch to write,
            // it would never have met the fence.
            return self.step_down();
        }
        for (key, wanted) in leader.take_requests(&mut self.ctx, &self.tabs, found.requests) {
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
        if let Role::Leader(leader) = &mut self.role
            && std::mem::take(&mut leader.steps_down)
            && leader.fence == Fence::Own
        {
            return self.step_down();
        }
        Ok(())
    }

    /// Carries out a request: the one in the record `key`, or one of this session if there is no key.
    pub fn take_request(&mut self, key: Option<RecordKey>, wanted: Wanted) -> Result<()> {
        let Router { ctx, outbox, tabs, role: Role::Leader(leader), .. } = self else { return Ok(()) };
        leader.met.extend(key);
        match wanted {
            Wanted::Write(wanted) => return take_write(ctx, outbox, tabs, leader, key, wanted),
            Wanted::Amend { id, new, args } => {
                if !outbox.is_taken_in(&new) {
                    let again = args.clone();
                    match outbox.amend(ctx, &id, new.clone(), args) {
                        Ok(()) => {
                            outbox.table.get_mut(&new).into_iter().for_each(|op| op.is_taken_in = true);
                            leader.from_inbox.extend(key.map(|key| (new.clone(), key)));
                            tabs.untold.push((id.clone(), Effect::Amended { id, by: new }));
                            return Ok(());
                        }
                        // An earlier leader received the refusal and could not write it. The server will
                        // refuse the operation again.
                        Err(error) if error.code() == Code::BadOption => {
                            leader.deferred.push((key, Wanted::Amend { id, new, args: again }));
                            return Ok(());
                        }
                        Err(error) if error.code() == Code::NotFound => outbox.table.refuse(ctx, new, error),
                        Err(_) => {
                            leader.hold(tabs, key, Wanted::Amend { id, new, args: again });
                            return Ok(());
                        }
                    }
                }
            }
            Wanted::Discard(id) => match outbox.table.discard(ctx, &id) {
                Ok(error) => {
                    tabs.untold.push((id.clone(), Effect::Accepted { id, result: Err(error) }));
                }
                Err(error) if error.code() == Code::BadOption => {
                    leader.deferred.push((key, Wanted::Discard(id)));
                    return Ok(());
                }
                // Already amended or discarded, here or in another session: nothing is left of it.
                _ => {}
            },
            Wanted::Subscribe(ref def) | Wanted::Unsubscribe(ref def) | Wanted::Lease(ref def, _)
                if ctx.memory.schema().check_def(def).is_err() =>
            {
                leader.hold(tabs, key, wanted);
                return Ok(());
            }
            Wanted::Subscribe(def) => self.subscribe(def)?,
            Wanted::Unsubscribe(def) => self.unsubscribe(def)?,
            Wanted::Lease(def, lease) => drop(memory::lease(&mut ctx.memory, &def, lease)),
            Wanted::Sweep(retention) => outbox.sweep(NOBODY, retention, true),
            Wanted::Signal(_) => {}
        }
        if let Role::Leader(leader) = &mut self.role {
            leader.done.extend(key);
        }
        Ok(())
    }
}

/// Takes in an operation of another session, or of this one from when it followed.
fn take_write(
    ctx: &mut Ctx,
    outbox: &mut Outbox,
    tabs: &mut Tabs,
    leader: &mut Leader,
    key: Option<RecordKey>,
    wanted: Issued,
) -> Result<()> {
    if outbox.is_taken_in(&wanted.id) {
        leader.done.extend(key);
        return Ok(());
    }
    let Ok(changes) = changes_of(ctx.memory.schema(), &wanted.name, &wanted.args) else {
        leader.hold(tabs, key, Wanted::Write(wanted));
        return Ok(());
    };
    if leader.is_behind_deferred(ctx, &wanted, &changes.unwrap_or_default()) {
        leader.deferred.push((key, Wanted::Write(wanted)));
        return Ok(());
    }
    let id = wanted.id.clone();
    match outbox.table.take_in(ctx, &wanted) {
        Ok(()) => leader.from_inbox.extend(key.map(|key| (id, key))),
        // A change of a local document that is deleted meanwhile.
        Err(error) if error.code() == Code::NotFound => {
            outbox.table.refuse(ctx, id, error);
            leader.done.extend(key);
        }
        // It is saved, and nobody has decided about it: it is tried again.
        Err(error) => {
            leader.deferred.push((key, Wanted::Write(wanted)));
            return Err(error);
        }
    }
    Ok(())
}
