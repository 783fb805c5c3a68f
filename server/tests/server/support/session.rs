//! A session as small as the rules allow: R1 to R6 for one def, enough to judge the server by.

use std::collections::BTreeMap;

use escale::codec::{Sub, SyncReply};
use escale::model::{Def, Epoch, Pk};
use escale_server::engine::Engine;

use crate::support::world::ask;

pub struct Session {
    pub def: Def,
    pub v: u64,
    epoch: Option<Epoch>,
    cursor: Option<(String, u64)>,
    /// Version of the link, version of the data and the id in it, end of life.
    links: BTreeMap<Pk, (u64, u64, String, Option<u64>)>,
    marks: BTreeMap<Pk, u64>,
}

impl Session {
    pub fn new(def: &Def) -> Self {
        Session {
            def: def.clone(),
            v: 0,
            epoch: None,
            cursor: None,
            links: BTreeMap::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Sends one request. Returns whether the def is finished.
    pub fn pull_page(&mut self, engine: &Engine) -> bool {
        let cursor = self.cursor.as_ref().map(|(text, _)| text.clone());
        let reply = ask(engine, vec![Sub { def: self.def.clone(), v: self.v, cursor }]);
        self.apply(&reply)
    }

    /// Sends requests until the def is finished.
    pub fn pull(&mut self, engine: &Engine) {
        for _ in 0..1_000 {
            if self.pull_page(engine) {
                return;
            }
        }
        panic!("a pull that does not end");
    }

    pub fn apply(&mut self, reply: &SyncReply) -> bool {
        if self.epoch.as_ref().is_some_and(|epoch| reply.epoch > *epoch) {
            *self = Session { epoch: Some(reply.epoch.clone()), ..Session::new(&self.def) };
            return false;
        }
        self.epoch = Some(reply.epoch.clone());
        let part = &reply.parts[0];
        if part.fault.as_ref().is_some_and(|fault| fault.code == "bad_cursor") {
            self.cursor = None;
            return false;
        }
        assert_eq!(part.fault, None);
        for row in &part.rows {
            if row.deleted {
                self.unlink(&row.pk, row.v);
                continue;
            }
            if self.marks.get(&row.pk).is_some_and(|mark| row.v < *mark) {
                continue;
            }
            let id = row.data.as_ref().unwrap().to_map().unwrap()["id"].as_str().unwrap().to_owned();
            let link = self.links.entry(row.pk.clone()).or_insert((row.v, 0, String::new(), None));
            link.0 = link.0.max(row.v);
            if row.v > link.1 {
                (link.1, link.2, link.3) = (row.v, id, row.max_life);
            }
        }
        for (pk, v) in &part.left {
            assert!(part.rows.iter().all(|row| row.pk != *pk), "in rows and in left");
            self.unlink(pk, *v);
        }
        if let Some(floor) = part.floor {
            // R17: these ended with their parent. No mark is made, because the floor comes again with each reply.
            self.links.retain(|_, link| link.0 >= floor);
        }
        // R21: a number is exact, a time is not (R4).
        let (told, delta) = part.n.map_or((reply.now, reply.delta), |n| (n, 0));
        let first_now = self.cursor.as_ref().map_or(told, |(_, now)| *now);
        if let Some(next) = &part.next {
            assert_eq!(part.present, None);
            self.cursor = Some((next.clone(), first_now));
            return false;
        }
        if let Some(present) = &part.present {
            let gone_below = part.n.map_or(reply.now.saturating_sub(reply.delta), |n| n + 1);
            self.links.retain(|pk, link| present.contains(pk) || link.0 >= gone_below);
        }
        self.cursor = None;
        self.v = self.v.max(first_now.saturating_sub(delta));
        let is_exact = part.n.is_some();
        self.marks.retain(|_, mark| *mark >= self.v + u64::from(is_exact));
        true
    }

    fn unlink(&mut self, pk: &Pk, v: u64) {
        if self.links.get(pk).is_some_and(|link| v >= link.0) {
            self.links.remove(pk);
        }
        let mark = self.marks.entry(pk.clone()).or_insert(v);
        *mark = v.max(*mark);
    }

    /// The ids held at that time, each with the version of its data.
    pub fn held(&self, now: u64) -> BTreeMap<String, u64> {
        self.links
            .values()
            .filter(|link| link.3.is_none_or(|minute| minute * 60_000 > now))
            .map(|link| (link.2.clone(), link.1))
            .collect()
    }
}
