//! In the middle of a history: a session that has read all of the device, or written all to it, equals one that is
//! opened at that moment. A later poll would make up for a mistake here, so the end of the history would not show it.

use super::*;
use escale::journal::PendingOp;
use escale::memory::Memory;

/// The documents that a def holds, and the collections. Subscriptions may wait for the leader, so `only` has the
/// collections that both sessions have.
fn shared(
    memory: &Memory,
    only: &BTreeSet<Def>,
) -> (String, BTreeMap<String, String>, BTreeMap<Def, String>) {
    let documents = memory.documents().filter_map(|(key, document)| {
        let defs: Vec<&Def> = document.defs.iter().filter(|def| only.contains(def)).collect();
        let shown = || (format!("{key:?}"), format!("{:?} {:?} {defs:?}", document.at, document.max_life));
        (!defs.is_empty()).then(shown)
    });
    let collections = memory.collections().filter(|(def, _)| only.contains(def)).map(|(def, c)| {
        let members: BTreeMap<_, _> = c.set.members().collect();
        let marks: BTreeMap<_, _> = c.set.marks().collect();
        (def.clone(), format!("{:?} {} {:?} {members:?} {marks:?}", c.set.v(), c.ready, c.load))
    });
    (format!("{:?}", memory.epoch()), documents.collect(), collections.collect())
}

fn by_id(tab: &Tab) -> BTreeMap<String, PendingOp> {
    tab.machine.operations().iter().map(|(op, _)| (op.state.issued.id.clone(), (*op).clone())).collect()
}

impl World {
    /// The device answers one session as long as it asks, while the others and the network rest.
    pub(super) fn come_in_step(&mut self, number: usize) {
        if self.tab(number).is_frozen {
            return;
        }
        self.tab(number).arrived.push_back(Event::Tab(TabEvent::Poll));
        for _ in 0..100 {
            let tab = self.tab(number);
            if tab.tasks.is_empty() && tab.arrived.is_empty() {
                break;
            }
            self.work(number);
            self.deliver(number);
            self.wake(number);
        }
        self.check_in_step(number);
    }

    /// Checks a session that is in step with the device, if it is.
    fn check_in_step(&mut self, number: usize) {
        let stored = self.stored;
        let Some(tab) = self.tabs[number].as_ref().filter(|tab| tab.is_in_step(stored)) else { return };
        let opened = Tab::open_as(&self.device, 1, &self.releases[number], self.limits);
        let Ok((opened, damage)) = opened else {
            assert!(self.plan.releases, "the store opens");
            return;
        };
        if damage.any() {
            return;
        }
        self.in_step += 1;
        let has = |tab: &Tab| tab.machine.memory().collections().map(|(def, _)| def.clone()).collect();
        let (here, there): (BTreeSet<Def>, BTreeSet<Def>) = (has(tab), has(&opened));
        let both = here.intersection(&there).cloned().collect();
        let role = if tab.machine.is_following() { "follows" } else { "leads" };
        let [own, stored] = [tab, &opened].map(|tab| shared(tab.machine.memory(), &both));
        assert_eq!(own, stored, "R7: tab {number}, which {role}, differs from the stored state");
        let (own, stored) = (by_id(tab), by_id(&opened));
        // Its application has decided about some, and the leader does not know yet. Others may depend on these.
        let is_decided = |id: &String| tab.machine.is_following() && tab.ended.contains_key(id);
        let has_decided = stored.keys().any(|id| is_decided(id) && !own.contains_key(id));
        for (id, op) in &stored {
            match own.get(id) {
                Some(known) if !has_decided => {
                    assert_eq!(known.state, op.state, "tab {number}, which {role}")
                }
                Some(_) => {}
                None => assert!(is_decided(id), "tab {number}, which {role}, does not know {op:?}"),
            }
        }
        // One that the leader has not taken in yet has no record. A leader writes one once its data has been read.
        let is_own = |op: &PendingOp| op.record.is_none() || tab.issued.contains(&op.state.issued.id);
        let may_lack = |op: &PendingOp| if tab.machine.is_following() { is_own(op) } else { !op.saved };
        let mut other = own.values().filter(|op| !stored.contains_key(&op.state.issued.id) && !may_lack(op));
        let other = other.next().map(|op| &op.state);
        assert_eq!(other, None, "tab {number}, which {role}, has an operation that is not stored");
    }
}
