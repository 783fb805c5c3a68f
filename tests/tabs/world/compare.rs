//! The end of a history: all tabs and the device equal the server, and each write was executed once.

use super::*;
use escale_testkit::world::compare::state;

impl World {
    /// The memory of each tab is the stored state, whether the tab has written or followed it (R7).
    fn compare_memories(&mut self) {
        let (reopened, _) = self.reopened(0);
        let stored = state(reopened.machine.memory());
        let pending: Vec<String> =
            reopened.machine.operations().iter().map(|(op, _)| format!("{:?}", op.state)).collect();
        assert!(pending.is_empty(), "they would come back after an opening: {pending:?}");
        for (number, tab) in self.tabs.iter().enumerate() {
            let Some(tab) = tab else { continue };
            assert!(
                tab.machine.is_following() || tab.machine.memory().is_clean(),
                "the leader has written all"
            );
            assert_eq!(state(tab.machine.memory()), stored, "tab {number} differs from the stored state");
            let epochs = [&tab.machine, &reopened.machine].map(|machine| machine.memory().epoch());
            assert_eq!(epochs[0], epochs[1], "R8: tab {number} is in another epoch");
            let lost = [&tab.machine, &reopened.machine].map(|machine| sorted(machine.lost_by_server()));
            assert_eq!(lost[0], lost[1], "R8: tab {number} knows of other losses");
        }
    }

    /// Nothing keeps a document that no subscription holds, once no operation stands on it (R2).
    pub(super) fn let_go(&mut self) {
        let now = self.now;
        for (number, tab) in self.tabs.iter_mut().enumerate() {
            let Some(tab) = tab else { continue };
            let defs: Vec<Def> = tab.machine.memory().collections().map(|(def, _)| def.clone()).collect();
            for def in defs {
                tab.feed(Event::Unsubscribe(def), now);
            }
            let left = tab.machine.memory().documents().count();
            assert_eq!(left, 0, "R2: tab {number} keeps what nothing holds");
        }
    }

    pub(super) fn compare(&mut self) {
        self.compare_memories();
        let once = self.executed();
        assert_eq!(
            once.len(),
            self.server.db.operations.executed.len(),
            "R11: an operation was executed twice"
        );
        for id in &self.saved {
            let result = self.server.db.operations.results.get(&(0, id.clone()));
            let is_refused = result.is_some_and(|result| result.fault.is_some());
            let is_done = once.contains(id) || is_refused || self.decided.contains(id);
            assert!(is_done, "R10: {id} was told to be saved, and the server never met it");
        }
        let adds = |counter: usize| {
            let stored = &self.server.db.docs[&key(counter)];
            stored.data.get("n").and_then(Value::as_f64).map_or(0, |n| n as i64)
        };
        let want: Vec<i64> = (0..COUNTERS).map(adds).collect();
        if !self.plan.is_wild && !self.plan.releases {
            assert_eq!(want.iter().sum::<i64>() as usize, once.len(), "each addition counts once");
        }
        for number in 0..self.tabs.len() {
            let now = self.now;
            if self.tabs[number].is_none() {
                continue;
            }
            let status = self.tab(number).machine.status();
            self.compare_rights(number);
            let is_fine = status.storage == StorageState::Ok && status.pending == 0;
            assert!(is_fine, "tab {number}: {status:?}");
            assert!(
                !status.leads || (status.phase == Phase::Live && status.error.is_none()),
                "tab {number}: {status:?}"
            );
            assert_eq!(self.tab(number).awaited, 0, "tab {number} still waits for what it reads");
            let left: Vec<String> = self
                .tab(number)
                .machine
                .operations()
                .iter()
                .map(|(op, _)| format!("{:?}", op.state))
                .collect();
            assert!(left.is_empty(), "tab {number} still waits for {left:?}");
            let ids = self.tab(number).machine.list(&Def::class_of(&name("Doc"))).map(|(ids, ..)| ids);
            let Some(ids) = ids else { panic!("tab {number} is not subscribed") };
            self.tab(number).rows = None;
            self.tab(number).feed(Event::Read { ticket: 2, ids }, now);
            self.settle();
            let rows: BTreeMap<_, _> = self.tab(number).rows.take().expect("an answer").into_iter().collect();
            let stored: BTreeMap<_, _> = (0..DOCS)
                .filter_map(|doc| Some((doc, self.server.db.docs.get(&key(doc)).filter(|s| !s.deleted)?)))
                .map(|(doc, stored)| ((0, key(doc).1), stored.data.clone()))
                .collect();
            assert_eq!(rows, stored, "R9: tab {number} is not in step");
            let tab = self.tabs[number].as_ref().expect("open");
            for id in &tab.issued {
                let end = tab.ended.get(id);
                assert!(end.is_some(), "tab {number} was never told how {id} ended");
                let is_settled = tab.saved.contains(id) || end.is_some_and(|end| end.is_err());
                assert!(is_settled, "tab {number} was never told whether {id} is saved");
            }
            for id in &tab.refused {
                assert!(tab.ended.contains_key(id), "tab {number} lists {id} as refused for ever");
            }
        }
        self.compare_reports();
        self.compare_locals();
        self.let_go();
    }

    /// The operations that the server has executed.
    fn executed(&self) -> BTreeSet<&String> {
        self.server.db.operations.executed.iter().map(|(_, id)| id).collect()
    }

    /// The reports of all tabs, also of those that have ended.
    fn reports(&self) -> impl Iterator<Item = (&str, &Told)> {
        self.told.iter().chain(self.tabs.iter().flatten().map(|tab| &tab.told)).flat_map(Reports::all)
    }

    /// The operation, the amendments of it, those of these, and so on: by applications, and by policies as the tabs reported.
    fn amendments_of(&self, id: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut next = vec![id.to_owned()];
        while let Some(id) = next.pop() {
            next.extend(self.amendments.get(&id).into_iter().flatten().cloned());
            next.extend(self.reports().filter(|(of, _)| *of == id).filter_map(|(_, told)| match told {
                Told::Amended(by) => Some(by.clone()),
                _ => None,
            }));
            next.retain(|id| !found.contains(id));
            found.insert(id);
        }
        found
    }

    /// All tabs report the same end of each operation, and it is that of the server.
    fn compare_reports(&self) {
        let results = &self.server.db.operations.results;
        let once = self.executed();
        let mut ends: BTreeMap<&str, &Told> = BTreeMap::new();
        for (id, told) in self.reports().filter(|(id, _)| !self.locals.ids.contains(*id)) {
            let result = results.get(&(0, id.to_owned()));
            let ok = result.and_then(|result| result.ok.as_ref());
            let fault = result.and_then(|result| result.fault.as_ref());
            // By the class's policy, or because an operation that it stands on was given up.
            let of_policy = |code: &Code| *code == Code::VersionConflict && ok.is_none();
            // It stands on an operation that another tab had discarded when the leader took it in.
            let is_held = |code: &Code| *code == Code::OrderHeld && result.is_none();
            // Several tabs have decided about one refused operation, and the server never met this amendment.
            let is_too_late = |code: &Code| *code == Code::NotFound && result.is_none();
            // The database that said it is gone, or that record was swept.
            let may_forget = self.plan.sweeps || self.plan.drops;
            let is_gone = |code: &Code| *code == Code::Forgotten && may_forget;
            // The local parts of a batch have ids that no application knows.
            let is_part = self.plan.has_locals && !self.locals.issued.contains(id);
            if is_part && *told == Told::Ended(Ok((0, None))) {
                continue;
            }
            let is_right = match told {
                Told::Saved => true,
                Told::Refused(code) => {
                    let is_it = fault.is_some_and(|fault| fault.code == code.as_str());
                    is_it || of_policy(code) || is_held(code)
                }
                Told::Ended(Ok((v, value))) => ok.is_some_and(|ok| (ok.v, &ok.value) == (*v, value)),
                Told::Ended(Err(code)) => {
                    let is_it = fault.is_some_and(|fault| fault.code == code.as_str());
                    let mut instead = self.amendments.get(id).into_iter().flatten();
                    let is_amended = instead.any(|new| results.contains_key(&(0, new.clone())));
                    let is_it = (is_it || is_held(code)) && !is_amended;
                    is_it || of_policy(code) || is_too_late(code) || is_gone(code)
                }
                Told::Amended(_) => ok.is_none(),
            };
            assert!(is_right, "{id}: a tab was told {told:?}, and the server has {result:?}");
            if told.is_end() && *told != Told::Ended(Err(Code::Forgotten)) {
                let other = ends.insert(id, told).unwrap_or(told);
                let is_same = match (other, told) {
                    // A tab that was away learns of the last of several amendments, each of the one before. Or a leader
                    // resolved a conflict and was deposed before it had written that, or two tabs decided: one is executed.
                    (Told::Amended(one), Told::Amended(two)) => {
                        let is_executed = |id: &String| once.contains(id);
                        let [one, two] = [one, two].map(|id| self.amendments_of(id));
                        !one.is_disjoint(&two) || ![one, two].iter().all(|all| all.iter().any(is_executed))
                    }
                    _ => other == told,
                };
                assert!(is_same, "{id} was told to have ended in two ways: {other:?}, {told:?}");
            }
        }
    }
}

fn sorted(ids: &[String]) -> BTreeSet<&String> {
    ids.iter().collect()
}
