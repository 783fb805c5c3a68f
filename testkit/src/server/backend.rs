//! Makes the model a server of the world.

use std::collections::BTreeSet;

use escale::codec::{OpResult, ServerParts};
use escale::model::{Def, Epoch, Pk};

use super::{Call, Committed, Entry, Habits, ModelServer, Write};
use crate::backend::{Answer, Asked, Backend, Tenant};
use crate::plan::Plan;
use crate::schema::Map;

impl Backend for ModelServer {
    fn open(plan: &Plan, random: u64, now: u64) -> Self {
        ModelServer::new(Habits::of(random), plan.instances, now)
    }

    fn describe(&self) -> String {
        format!("{:?}", self.habits)
    }

    fn begin_with(&mut self, writes: &[Write]) {
        let v = self.db.epoch.ms();
        self.db.write(v, writes);
    }

    fn receive(&mut self, asked: Asked, is_contended: &mut dyn FnMut() -> bool) -> (u64, String) {
        let Asked { by, request, instance, now } = asked;
        let (mut results, mut note) = (Vec::new(), String::new());
        if !request.ops.is_empty() {
            let (executed, commits) = self.operate(by.account, &request, (instance, now), is_contended);
            note = format!("{executed:?}");
            results = executed;
            self.told_of.extend(commits);
        }
        let promised_now = self.tell_now(instance, now);
        let epoch = self.db.epoch.clone();
        self.last_call += 1;
        self.calls
            .insert(self.last_call, Call { account: by.account, request, results, epoch, promised_now });
        (self.last_call, note)
    }

    fn answer(&mut self, call: u64, _: u64) -> Answer {
        let Some(Call { account, request, results, epoch, promised_now }) = self.calls.remove(&call) else {
            return Answer::Never;
        };
        // A server that was restored meanwhile has forgotten the caller.
        if !request.ops.is_empty() && epoch != self.db.epoch {
            return Answer::Never;
        }
        let results = self.complete(account, &request.ops, &results);
        Answer::Reply(Ok(self.reply(&request, results, promised_now)))
    }

    fn committed(&mut self) -> Vec<Committed> {
        std::mem::take(&mut self.told_of)
    }

    fn push(
        &mut self,
        session: &str,
        of: &Committed,
        registered: &BTreeSet<Def>,
        (instance, now): (usize, u64),
    ) -> Option<ServerParts> {
        let promised_now = self.tell_now(instance, now);
        Some(self.pushed(session, of, registered, promised_now))
    }

    fn begin(&mut self, _: usize, instance: usize, now: u64, writes: Vec<Write>) -> u64 {
        self.begin_write(instance, now, writes)
    }

    fn commit(&mut self, transaction: u64, now: u64) {
        let committed = self.commit_write(transaction, now);
        self.told_of.extend(committed);
    }

    fn open_transactions(&self) -> usize {
        self.open.len()
    }

    fn skew(&mut self, instance: usize, of_255: u8) {
        let count = self.instances.len();
        self.instances[instance % count].ahead_ms = u64::from(of_255) * self.limits.skew_ms / 255;
    }

    /// The model has no processes.
    fn restart(&mut self, _: usize) {
        self.calls.clear();
    }

    fn fail_commit(&mut self) {}

    fn set_back(&mut self, ms: u64) {
        self.set_back = ms;
    }

    fn heal(&mut self) {
        self.set_back = 0;
        for instance in &mut self.instances {
            instance.ahead_ms = 0;
        }
    }

    fn change_cursor_key(&mut self) {
        self.cursor_key += 1;
    }

    fn forget(&mut self, but_ms: u64, now: u64) {
        self.forget_all_but(but_ms, now);
    }

    fn back_up(&mut self) {
        self.backups.push(self.db.clone());
    }

    fn restore(&mut self, now: u64) -> bool {
        self.put_back(now)
    }

    fn renew(&mut self, now: u64) {
        self.renew_from(self.db.clone(), now);
    }

    fn epoch(&self, _: usize) -> &Epoch {
        &self.db.epoch
    }

    fn highest(&self, _: usize) -> u64 {
        self.db.highest
    }

    fn has_past(&self) -> bool {
        !self.past.is_empty()
    }

    fn promised_now(&self) -> u64 {
        self.db.promised_now
    }

    fn history(&self, _: usize, epoch: &Epoch) -> Option<&[Entry]> {
        if *epoch == self.db.epoch {
            return Some(&self.db.history);
        }
        self.past.get(epoch).map(Vec::as_slice)
    }

    fn epochs(&self) -> Vec<Epoch> {
        self.past.keys().chain([&self.db.epoch]).cloned().collect()
    }

    fn living(&self, _: usize, def: &Def, now: u64) -> Vec<(&Pk, u64, &Map)> {
        self.db.members(def, now).map(|(key, stored)| (&key.1, stored.v, &stored.data)).collect()
    }

    fn result(&self, of: Tenant, id: &str) -> Option<&OpResult> {
        self.db.operations.results.get(&(of.account, id.to_owned()))
    }

    fn results(&self, of: Tenant, id: &str) -> Vec<&OpResult> {
        let all = self.past_results.iter().chain([&self.db.operations.results]);
        let key = (of.account, id.to_owned());
        all.filter_map(|results| results.get(&key)).collect()
    }

    fn executed(&self) -> Vec<(Tenant, &str)> {
        let of = |account| Tenant { org: 0, account };
        self.db.operations.executed.iter().map(|(account, id)| (of(*account), id.as_str())).collect()
    }
}
