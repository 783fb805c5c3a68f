//! Replies, page by page (docs/protocol.md), and pushed parts.

use std::collections::BTreeSet;

use escale::Code;
use escale::codec::{Data, Fault, OpResult, Part, Row, ServerParts, Sub, SyncReply, SyncRequest};
use escale::model::{Def, DefKind, Pk};

use super::{Committed, Database, Habits, ModelServer, Stored};
use crate::schema::{Key, is_sequence, tree_of_def};

/// One row or departure.
enum Change<'a> {
    Row(&'a Stored),
    Gone,
    Left,
}

struct Cursor {
    /// The `now` of the first page, or its `n` on the clock `sequence`.
    first_now: u64,
    v: u64,
    pk: String,
}

impl Cursor {
    fn text(&self, key: u64) -> String {
        format!("{key}|{}|{}|{}", self.first_now, self.v, self.pk)
    }

    fn parse(text: &str, key: u64) -> Option<Self> {
        let mut parts = text.split('|');
        let mut number = || parts.next()?.parse::<u64>().ok();
        if number()? != key {
            return None;
        }
        let (first_now, v) = (number()?, number()?);
        Some(Cursor { first_now, v, pk: parts.next()?.to_owned() })
    }
}

/// R90: takes the data of each row that an earlier part has.
fn refer(parts: &mut [Part]) {
    let mut sent = std::collections::BTreeSet::new();
    for part in parts {
        let class = part.def.class().clone();
        let of = |row: &Row| (class.clone(), row.pk.clone(), row.v);
        let alive = |row: &&mut Row| row.data.is_some() && !row.deleted;
        part.rows
            .iter_mut()
            .filter(alive)
            .filter(|row| sent.contains(&of(row)))
            .for_each(|row| row.data = None);
        sent.extend(part.rows.iter().filter(|row| row.data.is_some()).map(of));
    }
}

impl ModelServer {
    /// The reply to a request, from a snapshot of this point in time. `now` was read before (R4).
    pub fn reply(&self, request: &SyncRequest, results: Vec<OpResult>, now: u64) -> SyncReply {
        let mut room = self.habits.page_rows;
        let mut parts = Vec::new();
        for group in request.subs.chunk_by(|one, other| {
            let tree = tree_of_def(&one.def);
            tree.is_some() && tree == tree_of_def(&other.def)
        }) {
            let before = parts.len();
            for sub in group {
                if room == 0 && !self.habits.empty_part_when_full {
                    break;
                }
                parts.push(self.part(sub, now, &mut room));
            }
            // R18: the neighbours of one tree come all in one reply, or none of them, unless they are the first.
            let is_whole =
                parts.len() - before == group.len() && parts[before..].iter().all(|part| part.next.is_none());
            if group.len() > 1 && before > 0 && !is_whole {
                parts.truncate(before);
                break;
            }
            if parts.len() - before < group.len() {
                break;
            }
        }
        if request.refs {
            refer(&mut parts);
        }
        SyncReply {
            seq: self.seq(&request.session),
            results,
            ..SyncReply::of(self.db.epoch.clone(), now, self.limits.delta_ms, parts)
        }
    }

    fn part(&self, sub: &Sub, now: u64, room: &mut usize) -> Part {
        let mut part = Part::empty(sub.def.clone());
        let tree = tree_of_def(&sub.def);
        let numbered = tree.clone().filter(|_| is_sequence(sub.def.class()));
        let of_tree = |tree: &Key| self.db.trees.get(tree).copied().unwrap_or_default();
        part.n = numbered.as_ref().map(|tree| of_tree(tree).v);
        // R21: a number that was asked is known.
        let since = sub.v + u64::from(part.n.is_some());
        let cursor = match &sub.cursor {
            None => Cursor { first_now: part.n.unwrap_or(now), v: since, pk: String::new() },
            Some(text) => match Cursor::parse(text, self.cursor_key) {
                Some(cursor) => cursor,
                None => {
                    part.fault = Some(Fault::new(Code::BadCursor, "a cursor of another answer"));
                    part.n = None;
                    return part;
                }
            },
        };
        let gone_from = match (sub.v, self.habits.tells_gone_on_whole) {
            (0, false) if numbered.is_some() => cursor.first_now + 1,
            (0, false) => cursor.first_now.saturating_sub(self.limits.delta_ms),
            _ => 0,
        };
        let tree = tree.filter(|_| matches!(sub.def.kind(), DefKind::Collection(..)));
        let floor = tree.map_or(0, |tree| of_tree(&tree).floor);
        part.floor = Some(floor).filter(|floor| *floor > 0 && sub.v <= *floor);
        let changes = self.db.changes(&sub.def, since, gone_from, now);
        if self.habits.tells_total {
            part.total = Some(changes.len() as u64);
        }
        let mut rest = changes.into_iter().filter(|(v, pk, _)| (*v, pk.as_str()) > (cursor.v, &cursor.pk));
        let mut last = (cursor.v, cursor.pk.clone());
        for (v, pk, change) in rest.by_ref() {
            if *room == 0 {
                part.next = Some(Cursor { v: last.0, pk: last.1, ..cursor }.text(self.cursor_key));
                return part;
            }
            *room -= 1;
            last = (v, pk.as_str().to_owned());
            match change {
                Change::Left => part.left.push((pk, v)),
                Change::Gone => part.rows.push(tombstone(pk, v)),
                Change::Row(stored) => part.rows.push(row(pk, stored)),
            }
        }
        let horizon = numbered.map_or(self.db.horizon, |tree| of_tree(&tree).horizon);
        if self.needs_present((sub.v, since), &cursor, horizon) {
            part.present = Some(self.db.members(&sub.def, now).map(|(key, _)| key.1.clone()).collect());
        }
        part
    }

    fn needs_present(&self, (asked, since): (u64, u64), cursor: &Cursor, horizon: u64) -> bool {
        let Habits { tells_gone_on_whole, present_on_whole, .. } = self.habits;
        match asked {
            // Departures since the first page was sent, unless they are forgotten meanwhile.
            0 => present_on_whole || !tells_gone_on_whole || cursor.first_now < horizon,
            _ => since < horizon,
        }
    }

    /// The message that a socket pushes to a client registered for these defs: the documents as they are now. On the
    /// clock `sequence`, it has every def of a tree (R21).
    pub fn pushed(&self, session: &str, of: &Committed, registered: &BTreeSet<Def>, now: u64) -> ServerParts {
        let numbered = |def: &&Def| tree_of_def(def).is_some_and(|tree| of.numbers.contains_key(&tree));
        let defs = registered.iter().filter(|def| numbered(def) || of.defs.contains(def));
        let parts = defs.map(|def| {
            let mut part = Part::empty(def.clone());
            if let Some(tree) = tree_of_def(def).filter(|tree| of.numbers.contains_key(tree)) {
                let from = of.numbers[&tree] - 1;
                let (n, floor) = (self.db.trees[&tree].v, self.db.trees[&tree].floor);
                (part.from, part.n) = (Some(from), Some(n));
                let is_items = matches!(def.kind(), DefKind::Collection(..));
                part.floor = Some(floor).filter(|floor| is_items && *floor > from);
                for (v, pk, change) in self.db.changes(def, from + 1, 0, now) {
                    match change {
                        Change::Left => part.left.push((pk, v)),
                        Change::Gone => part.rows.push(tombstone(pk, v)),
                        Change::Row(stored) => part.rows.push(row(pk, stored)),
                    }
                }
                return part;
            }
            for key in of.keys.iter().filter(|key| key.0 == *def.class()) {
                let Some(stored) = self.db.docs.get(key) else { continue };
                match self.db.departures.get(&(def.clone(), key.1.clone())) {
                    Some(v) => part.left.push((key.1.clone(), *v)),
                    None if !stored.defs.contains(def) => {}
                    None if stored.deleted || stored.is_expired(now) => {
                        part.rows.push(tombstone(key.1.clone(), stored.v));
                    }
                    None => part.rows.push(row(key.1.clone(), stored)),
                }
            }
            part
        });
        ServerParts {
            epoch: self.db.epoch.clone(),
            now,
            delta: self.limits.delta_ms,
            seq: self.seq(session),
            parts: parts.collect(),
        }
    }
}

impl Database {
    /// Rows and departures with `v` >= `since`, ascending by (v, pk). Deletions and departures only from
    /// `gone_from`.
    ///
    /// A document whose life has ended is sent as a deletion: a session with an older version, which has
    /// another end, must learn of it.
    fn changes(&self, def: &Def, since: u64, gone_from: u64, now: u64) -> Vec<(u64, Pk, Change<'_>)> {
        let mut changes: Vec<(u64, Pk, Change)> = self
            .docs
            .iter()
            .filter(|(key, stored)| key.0 == *def.class() && stored.v >= since && stored.defs.contains(def))
            .map(|(key, stored)| {
                let is_gone = stored.deleted || stored.is_expired(now);
                (stored.v, key.1.clone(), if is_gone { Change::Gone } else { Change::Row(stored) })
            })
            .collect();
        if let DefKind::Document(pk) = def.kind() {
            // An item that is requested alone, and ended with its parent (R17).
            let floor = self.ended.get(&(def.class().clone(), pk.clone())).filter(|floor| **floor >= since);
            changes.extend(floor.map(|floor| (*floor, pk.clone(), Change::Gone)));
        }
        let left = self.departures.iter().filter(|((of, _), v)| of == def && **v >= since);
        changes.extend(left.map(|((_, pk), v)| (*v, pk.clone(), Change::Left)));
        changes.retain(|(v, _, change)| matches!(change, Change::Row(_)) || *v >= gone_from);
        changes.sort_by(|a, b| (a.0, a.1.as_str()).cmp(&(b.0, b.1.as_str())));
        changes
    }
}

fn tombstone(pk: Pk, v: u64) -> Row {
    Row { pk, v, deleted: true, max_life: None, data: None }
}

fn row(pk: Pk, stored: &Stored) -> Row {
    let data = Data::from_map(&stored.data).expect("the data of the tests");
    Row { pk, v: stored.v, deleted: false, max_life: stored.max_life, data: Some(data) }
}
