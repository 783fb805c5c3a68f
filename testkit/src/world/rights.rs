//! R22: the server ends the right of an account to a def, and gives it back.

use escale::Code;
use escale::codec::{Fault, Part, ServerFrame, Sub};
use escale::model::Def;

use super::World;
use crate::backend::Backend;

/// Takes the defs that were withdrawn out of a request. Gives their parts of the answer.
pub fn take_withdrawn(subs: &mut Vec<Sub>, is_withdrawn: impl Fn(&Def) -> bool) -> Vec<Part> {
    let (taken, left): (Vec<Sub>, Vec<Sub>) =
        std::mem::take(subs).into_iter().partition(|sub| is_withdrawn(&sub.def));
    *subs = left;
    let fault = || Some(Fault::new(Code::Withdrawn, "withdrawn by the model"));
    taken.into_iter().map(|sub| Part { fault: fault(), ..Part::empty(sub.def) }).collect()
}

impl<S: Backend> World<S> {
    pub(super) fn set_right(&mut self, client: usize, def: Def, is_there: bool) {
        let right = (self.clients[client].setup.tenant, def);
        if is_there {
            self.withdrawn.remove(&right);
        } else {
            self.withdrawn.insert(right);
        }
    }

    fn has_right(&self, client: usize, def: &Def) -> bool {
        !self.withdrawn.contains(&(self.clients[client].setup.tenant, def.clone()))
    }

    /// Takes the defs that were withdrawn out of a request, before a server fills its pages.
    pub(super) fn take_withdrawn(&self, client: usize, subs: &mut Vec<Sub>) -> Vec<Part> {
        take_withdrawn(subs, |def| !self.has_right(client, def))
    }

    /// Adds the answers about the defs that were taken out.
    pub(super) fn refuse_withdrawn(&mut self, call: u64, parts: &mut Vec<Part>) {
        parts.extend(self.taken.remove(&call).unwrap_or_default());
    }

    /// The answer to a registration on a socket.
    pub(super) fn registration(&self, client: usize, subs: Vec<Def>) -> (Vec<Def>, Vec<(Def, Fault)>) {
        let (live, refused): (Vec<Def>, Vec<Def>) =
            subs.into_iter().partition(|def| self.has_right(client, def));
        let fault = || Fault::new(Code::Withdrawn, "withdrawn by the model");
        (live, refused.into_iter().map(|def| (def, fault())).collect())
    }

    /// The confirmation of a registration. Some servers tell the head of the org, which spares pulls, and some spread
    /// these (R43).
    pub(super) fn confirmation(
        &mut self,
        client: usize,
        live: Vec<Def>,
        refused: Vec<(Def, Fault)>,
    ) -> ServerFrame {
        let org = self.clients[client].setup.tenant.org;
        let tells = self.below(3) > 0;
        let head = tells.then(|| (self.server.epoch(org).clone(), self.server.highest(org)));
        let spread = if self.below(3) == 0 { self.below(2_000) } else { 0 };
        ServerFrame::Live { live, refused, head, spread }
    }

    /// After recovery: no session is subscribed to a def that was withdrawn, and the server refuses nothing else.
    pub(super) fn compare_rights(&self, number: usize) {
        let machine = self.clients[number].machine.as_ref().expect("an open client");
        for (def, _) in machine.memory().collections() {
            assert!(self.has_right(number, def), "R22: client {number} is still subscribed to {def}");
        }
        let faults = machine.status().faults;
        let other = faults.iter().find(|(_, error)| error.code() != Code::Withdrawn);
        assert_eq!(other, None, "client {number}");
    }
}
