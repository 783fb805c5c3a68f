//! The reference's answers: the results and parts of a reply. Also its maintenance.

use escale::Code;
use escale::codec::{Fault, Format, OpResult, Part, Row, Sub, encode};
use escale::model::{Def, DefKind, Pk};
use escale_server::engine::TRIES_MAX;
use escale_server::settings::WRITE_MS_MAX;

use super::reference::{Asking, Cursor, Doc, Key, Known, Properties, Reference, Sent, State, data, failed};

impl Reference {
    pub fn known_as(&self, asking: &Asking, id: &str) -> Option<&Known> {
        self.known.get(&(asking.org.to_owned(), asking.account.to_owned(), id.to_owned()))
    }

    /// The row of a document, or that it does not exist.
    pub fn row(&self, key: &Key) -> Row {
        let nothing = Row { pk: Pk::parse(&key.2).unwrap(), v: 0, deleted: true, max_life: None, data: None };
        match self.tables.docs.get(key) {
            None => nothing,
            Some(doc) if self.ended(key, doc).is_some() => {
                Row { v: self.ended(key, doc).unwrap(), ..nothing }
            }
            Some(doc) if !doc.is_alive => Row { v: doc.v, ..nothing },
            Some(Doc { v, max_life, map, .. }) => {
                Row { v: *v, deleted: false, max_life: *max_life, data: Some(data(map)), ..nothing }
            }
        }
    }

    /// The kept result. That of a conflict has the row as it is now.
    pub fn known_result(&self, known: &Known, id: &str) -> OpResult {
        let gone = if known.v.is_some() { Code::Forgotten } else { Code::Internal };
        let mut result = known.result.clone().unwrap_or_else(|| failed(id, gone, None));
        if let Some(fault) = &mut result.fault {
            let key = known.met.as_ref().filter(|_| fault.doc.is_some());
            fault.doc = key.map(|key| self.row(key));
        }
        result
    }

    /// The results of a request.
    pub fn operate(&mut self, clock: u64, asking: &Asking, ops: &[Sent]) -> Vec<OpResult> {
        let mut results: Vec<OpResult> = Vec::new();
        self.passed = 0;
        let mut room = self.settings.page_bytes;
        let mut stopped = None;
        // A request here has a few operations while the clock stands: one group, so one commit.
        let written = |of: &Reference| (of.known.len(), of.sessions.clone());
        let before = written(self);
        for op in ops {
            if !results.is_empty() && room == 0 {
                break;
            }
            match self.operate_one(clock, asking, op) {
                Ok(result) => {
                    room = room.saturating_sub(result_bytes(&result));
                    results.push(result);
                }
                Err(why) => {
                    stopped = Some(why);
                    break;
                }
            }
        }
        if written(self) != before {
            self.heads.entry(asking.org.to_owned()).or_default().commits += 1;
        }
        let Some((code, doc)) = stopped else { return results };
        // The fault belongs to the first unknown operation. Known ones after it get their results.
        let first = results.len();
        let (mut fault, mut at) = (Some(failed("", code, doc)), None);
        for (place, op) in ops.iter().enumerate().skip(first) {
            let known = self.known_as(asking, &op.id);
            let is_other = known.is_some_and(|known| known.result.is_some() && known.name != op.act.name());
            if let Some(known) = known.filter(|_| room > 0 && !is_other) {
                let result = self.known_result(known, &op.id);
                room = room.saturating_sub(result_bytes(&result));
                results.push(result);
            } else if known.is_some() && place > first {
                at.map(|at: usize| results.remove(at));
                break;
            } else if let Some(fault) = fault.take() {
                at = Some(results.len());
                let fault = if place == first { fault } else { failed("", Code::Contention, None) };
                results.push(OpResult { id: op.id.clone(), ..fault });
            }
        }
        results
    }

    /// Counts an attempt. Whether it was the last one.
    pub fn is_given_up(&mut self, session: &(String, String), id: &str, code: Code) -> bool {
        if code == Code::OrderHeld || code == Code::Unavailable {
            return false;
        }
        let tried = self.tries.entry(session.clone()).or_default();
        if tried.0 != id {
            *tried = (id.to_owned(), 0);
        }
        tried.1 += 1;
        tried.1 >= TRIES_MAX
    }

    /// The `now` of a reply.
    pub fn tell_now(&mut self, org: &str, clock: u64) -> u64 {
        let head = self.heads.get_mut(org);
        let known = head.as_ref().map_or(self.promised_now, |head| head.promised_now.max(head.highest));
        let now = clock.max(known);
        if now > known + WRITE_MS_MAX / 2 {
            match head {
                Some(head) => (head.promised_now, head.commits) = (now, head.commits + 1),
                None => self.promised_now = now,
            }
        }
        now
    }

    /// The changes of a def after a position, with the bytes stored of each.
    fn changes(&self, org: &str, def: &Def, after: &(u64, String), gone_from: u64) -> Vec<(Change, usize)> {
        let class = def.class().as_str();
        let mut found = Vec::new();
        let is_of_class = |key: &Key| key.0 == org && key.1 == class;
        for (key, doc) in self.tables.docs.iter().filter(|(key, _)| is_of_class(key)) {
            let ended = self.ended(key, doc);
            let (v, state, max_life) = match def.kind() {
                DefKind::Document(own) if own.as_str() == key.2 && ended.is_some() => {
                    (ended.unwrap(), State::Deleted, None)
                }
                DefKind::Document(own) if own.as_str() != key.2 => continue,
                DefKind::Collection(..) => continue,
                _ => (doc.v, if doc.is_alive { State::Alive } else { State::Deleted }, doc.max_life),
            };
            found.push(Change { v, pk: key.2.clone(), state, max_life });
        }
        for ((_, _, pk), (v, state, max_life)) in
            self.tables.links.iter().filter(|((of, own, _), _)| of == org && own == def)
        {
            found.push(Change { v: *v, pk: pk.clone(), state: *state, max_life: *max_life });
        }
        found.retain(|change| (change.v, &change.pk) > (after.0, &after.1));
        found.retain(|change| change.state == State::Alive || change.v >= gone_from);
        found.sort_by(|a, b| (a.v, &a.pk).cmp(&(b.v, &b.pk)));
        let bytes = |change: &Change| match change.state {
            State::Alive => data(&self.map_of(org, class, &change.pk)).as_bytes().len(),
            _ => 0,
        };
        found.into_iter().map(|change| (change.clone(), bytes(&change))).collect()
    }

    fn map_of(&self, org: &str, class: &str, pk: &str) -> Properties {
        self.tables.docs[&(org.to_owned(), class.to_owned(), pk.to_owned())].map.clone()
    }

    /// The part of a def; `None` if there is no room. `cursor` is the text of the reply's own cursor.
    pub fn part(
        &mut self,
        org: &str,
        sub: &Sub,
        now: u64,
        room: &mut usize,
        first: bool,
        cursor: Option<&String>,
    ) -> Option<Part> {
        if *room == 0 && !first {
            return None;
        }
        let faulty = |code| Some(Part { fault: Some(Fault::new(code, "")), ..Part::empty(sub.def.clone()) });
        match (sub.def.class().as_str(), sub.def.kind()) {
            ("Note" | "Asso", _) | ("Adh" | "Sta", DefKind::Document(_) | DefKind::Collection(..)) => {}
            _ => return faulty(Code::UnknownDef),
        }
        let floor = self.floor_of(org, &sub.def);
        let minute = now / 60_000;
        let delta = self.settings.delta_ms;
        let gone_from = |first_now: u64| if sub.v == 0 { first_now.saturating_sub(delta) } else { 0 };
        let is_expired = |change: &Change| change.max_life.is_some_and(|end| end <= minute);
        let (first_now, after, total) = match &sub.cursor {
            None => {
                let from = (sub.v.max(floor), String::new());
                let whole = self.changes(org, &sub.def, &from, gone_from(now));
                let is_row = |change: &Change| {
                    change.state != State::Left && (!is_expired(change) || change.v >= gone_from(now))
                };
                (
                    now,
                    (sub.v, String::new()),
                    whole.iter().filter(|(change, _)| is_row(change)).count() as u64,
                )
            }
            Some(text) => {
                let own = self.cursors.iter().find(|cursor| {
                    cursor.text == *text
                        && cursor.org == org
                        && (&cursor.sub.def, cursor.sub.v) == (&sub.def, sub.v)
                });
                let Some(own) = own else { return faulty(Code::BadCursor) };
                (own.first_now, own.after.clone(), own.total)
            }
        };
        let gone_from = gone_from(first_now);
        let mut part = Part { total: Some(total), ..Part::empty(sub.def.clone()) };
        part.floor = (floor > 0 && sub.v <= floor).then_some(floor);
        let after = after.max((floor, String::new()));
        let (mut used, mut last) = (0, None);
        for (change, bytes) in self.changes(org, &sub.def, &after, gone_from) {
            if used + 48 + bytes > *room && (last.is_some() || !first) {
                *room = 0;
                let after: (u64, String) = last?;
                part.next = cursor.cloned().or(Some("none".to_owned()));
                let text = part.next.clone().unwrap();
                let sub = Sub { cursor: None, ..sub.clone() };
                self.cursors.push(Cursor { text, org: org.to_owned(), sub, first_now, after, total });
                return Some(part);
            }
            used += 48 + bytes;
            let (pk, v) = (Pk::parse(&change.pk).unwrap(), change.v);
            last = Some((v, change.pk.clone()));
            let gone = Row { pk: pk.clone(), v, deleted: true, max_life: None, data: None };
            match change.state {
                State::Left => part.left.push((pk, v)),
                State::Deleted => part.rows.push(gone),
                State::Alive if is_expired(&change) => part.rows.extend((v >= gone_from).then_some(gone)),
                State::Alive => {
                    let data = Some(data(&self.map_of(org, sub.def.class().as_str(), &change.pk)));
                    part.rows.push(Row { deleted: false, max_life: change.max_life, data, ..gone });
                }
            }
        }
        *room = room.saturating_sub(used);
        if sub.v < self.head(org).horizon || sub.v == 0 {
            let all =
                self.changes(org, &sub.def, &(floor, String::new()), 0).into_iter().map(|(change, _)| change);
            let living = all.filter(|change| change.state == State::Alive && !is_expired(change));
            let mut present: Vec<Pk> = living.map(|change| Pk::parse(&change.pk).unwrap()).collect();
            present.sort_unstable();
            *room = room.saturating_sub(present.len() * 25);
            part.present = Some(present);
        }
        Some(part)
    }

    /// Removes everything older than the retention time. Returns how many documents and departures.
    pub fn purge(&mut self, clock: u64) -> u64 {
        let old = clock.saturating_sub(self.settings.results_ms());
        for known in self.known.values_mut().filter(|known| known.at < old) {
            known.result = None;
        }
        let orgs: Vec<String> = self.heads.keys().cloned().collect();
        orgs.iter().map(|org| self.purge_org(org, clock)).sum()
    }

    fn purge_org(&mut self, org: &str, clock: u64) -> u64 {
        let head = self.heads.get_mut(org).unwrap();
        let horizon = head.horizon.max(clock.saturating_sub(self.settings.retention_ms()));
        let is_over = |doc: &Doc| doc.ttl.is_some_and(|ttl| ttl <= clock) && doc.v < horizon;
        let docs = self.tables.docs.iter().filter(|(key, doc)| key.0 == org && is_over(doc));
        let over: Vec<Key> = docs.map(|(key, _)| key.clone()).collect();
        for key in &over {
            let doc = self.tables.docs.remove(key).unwrap();
            for def in doc.defs {
                self.tables.links.remove(&(key.0.clone(), def, key.2.clone()));
            }
        }
        let before = self.tables.links.len();
        let links = &mut self.tables.links;
        links.retain(|(of, ..), (v, state, _)| of != org || *state != State::Left || *v >= horizon);
        let gone = (over.len() + before - links.len()) as u64;
        if gone > 0 {
            (head.horizon, head.commits) = (horizon, head.commits + 1);
        }
        let due = self.tables.trees.iter().filter(|(key, tree)| key.0 == org && tree.due > 0);
        let due: Vec<Key> = due.filter(|(_, tree)| tree.due < horizon).map(|(key, _)| key.clone()).collect();
        gone + due.iter().map(|key| self.purge_tree(key, horizon)).sum::<u64>()
    }

    /// Another collection of notes is declared.
    pub fn declare(&mut self, name: &'static str) {
        self.collections.push((name, false));
        let keys: Vec<Key> = self.tables.docs.keys().cloned().collect();
        for key in keys {
            let doc = self.tables.docs[&key].clone();
            if doc.is_alive {
                let defs = self.defs(&key.1, &doc.map);
                for def in &defs {
                    let link = (key.0.clone(), def.clone(), key.2.clone());
                    self.tables.links.insert(link, (doc.v, State::Alive, doc.max_life));
                }
                self.tables.docs.get_mut(&key).unwrap().defs = defs;
            }
        }
        for head in self.heads.values_mut() {
            head.horizon = head.horizon.max(head.highest + 1);
            head.commits += 1;
        }
    }

    /// The server begins again: attempts are forgotten.
    pub fn restart(&mut self) {
        self.tries.clear();
    }
}

#[derive(Clone)]
struct Change {
    v: u64,
    pk: String,
    state: State,
    max_life: Option<u64>,
}

/// The bytes of a result that can be large.
fn result_bytes(result: &OpResult) -> usize {
    let value = result.ok.as_ref().and_then(|ok| ok.value.as_ref());
    let doc = result.fault.as_ref().and_then(|fault| fault.doc.as_ref()).and_then(|row| row.data.as_ref());
    value.map_or(0, |value| encode(Format::Msgpack, value).unwrap().len())
        + doc.map_or(0, |data| data.as_bytes().len())
}
