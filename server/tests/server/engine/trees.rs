//! The reference's trees: parents, their items and floors. Also the acts and defs of a history that concern them.

use escale::codec::Sub;
use escale::model::{Def, DefKind, Name, Value};
use escale_server::clock::Clock;

use super::histories::World;
use super::reference::{Act, Doc, Key, Properties, Reference, Run, State, pk};

/// A parent's floor, and the floor below which items may still be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tree {
    pub floor: u64,
    pub due: u64,
    pub is_known: bool,
}

/// The classes of items.
pub const ITEMS: [&str; 2] = ["Adh", "Sta"];

/// The key property texts of a document, joined.
pub fn id_of(class: &str, map: &Properties) -> String {
    let text = |name: &str| map[name].as_str().unwrap().to_owned();
    match class {
        "Adh" => text("asso") + "/" + &text("num"),
        "Sta" => text("asso"),
        _ => text("id"),
    }
}

/// The key properties of a document with that id.
pub fn key_map(class: &str, id: &str) -> Properties {
    let names: &[&str] = match class {
        "Adh" => &["asso", "num"],
        "Sta" => &["asso"],
        _ => &["id"],
    };
    names.iter().zip(id.split('/')).map(|(name, part)| ((*name).to_owned(), Value::from(part))).collect()
}

/// The key of an item's parent.
pub fn parent(key: &Key, map: &Properties) -> Option<Key> {
    let id = map.get("asso").filter(|_| ITEMS.contains(&&*key.1))?.as_str()?;
    Some((key.0.clone(), "Asso".to_owned(), pk(id).to_string()))
}

impl Reference {
    /// The floor above an item, if it is below that of its tree.
    pub fn ended(&self, key: &Key, doc: &Doc) -> Option<u64> {
        let floor = self.tables.trees.get(&parent(key, &doc.map)?)?.floor;
        (doc.v < floor).then_some(floor)
    }

    pub fn lives(&self, key: &Key, doc: &Doc) -> bool {
        doc.is_alive && self.ended(key, doc).is_none()
    }

    pub fn raise_floor(&mut self, key: &Key, v: u64, is_deleted: bool) {
        let tree = self.tables.trees.entry(key.clone()).or_default();
        if tree.due == 0 && (is_deleted || tree.is_known) {
            tree.due = v;
        }
        (tree.floor, tree.is_known) = (v, true);
    }

    /// A parent ends, and with it the items that the same operation has written.
    pub fn end_items(&mut self, run: &Run, key: &Key) {
        self.raise_floor(key, run.now, true);
        for own in &run.own {
            let doc = self.tables.docs.get_mut(own).unwrap();
            if parent(own, &doc.map).as_ref() != Some(key) || !doc.is_alive {
                continue;
            }
            let names = key_map(&own.1, "/").into_keys().collect::<Vec<_>>();
            doc.map.retain(|name, _| names.contains(name));
            (doc.is_alive, doc.max_life) = (false, None);
            doc.ttl = Some(run.now + self.settings.retention_ms());
            for def in &doc.defs {
                let link = (own.0.clone(), def.clone(), own.2.clone());
                self.tables.links.insert(link, (run.now, State::Deleted, None));
            }
        }
        for class in ITEMS {
            let def = Def::collection_hashed(&Name::new(class).unwrap(), &Name::new("in").unwrap(), &key.2);
            let fed = (key.0.clone(), class.to_owned(), key.2.clone());
            self.tables.feed.push((fed, run.now, [def].into()));
        }
    }

    /// The floor of the tree whose items a def tells of; 0 for any other def.
    pub fn floor_of(&self, org: &str, def: &Def) -> u64 {
        match def.kind() {
            DefKind::Collection(name, hash) if name.as_str() == "in" => {
                let key = (org.to_owned(), "Asso".to_owned(), hash.to_string());
                self.tables.trees.get(&key).map_or(0, |tree| tree.floor)
            }
            _ => 0,
        }
    }

    /// Removes the items that ended with a parent, in one commit: there are few.
    pub fn purge_tree(&mut self, key: &Key, horizon: u64) -> u64 {
        let before = self.tables.trees[key];
        let is_due = |own: &Key, doc: &Doc| parent(own, &doc.map).as_ref() == Some(key) && doc.v < before.due;
        let docs = self.tables.docs.iter().filter(|(own, doc)| is_due(own, doc));
        let ended: Vec<Key> = docs.map(|(own, _)| own.clone()).collect();
        for own in &ended {
            let doc = self.tables.docs.remove(own).unwrap();
            for def in doc.defs {
                self.tables.links.remove(&(own.0.clone(), def, own.2.clone()));
            }
        }
        let lives = self.tables.docs.get(key).map(|parent| parent.is_alive);
        let due = if before.due < before.floor { before.floor } else { 0 };
        let is_over = due == 0 && lives.is_none();
        let is_changed = is_over || due > 0 || lives == Some(true);
        if is_over {
            self.tables.trees.remove(key);
        } else if is_changed {
            self.tables.trees.get_mut(key).unwrap().due = due;
        }
        let head = self.heads.get_mut(&key.0).unwrap();
        if !ended.is_empty() || is_over {
            head.horizon = horizon;
        }
        if !ended.is_empty() || is_changed {
            head.commits += 1;
        }
        // The next floor may be due as well.
        let again = (1..horizon).contains(&due);
        ended.len() as u64 + if again { self.purge_tree(key, horizon) } else { 0 }
    }
}

impl World {
    /// A write of a parent or of an item.
    pub fn tree_act(&mut self, org: &str) -> Act {
        let (asso, num) = (self.chance.pick(&["p", "p", "q"]), self.chance.pick(&["1", "2", "3", "4", "5"]));
        let item = format!("{asso}/{num}");
        let (class, id, puts) = match self.chance.below(16) {
            0..3 => ("Asso", asso, true),
            3..11 => ("Adh", &*item, true),
            11 => ("Sta", asso, true),
            12 | 13 => ("Adh", &*item, false),
            14 => ("Sta", asso, false),
            _ => ("Asso", asso, false),
        };
        let expected = self.expected(org, class, id);
        if !puts {
            return Act::Delete(class, id.to_owned(), expected);
        }
        let mut data = key_map(class, id);
        let text = self.chance.pick(&[
            "",
            "some words",
            "words of an item, so many that a page of some hundred bytes cannot hold many such items",
        ]);
        data.insert("text".into(), text.into());
        if class == "Adh" && self.chance.is(15) {
            let minute = self.clock.now_ms() / 60_000 + self.chance.below(1_500);
            data.insert("maxLife".into(), Value::from(minute as i64));
        }
        Act::Put(class, data, expected)
    }

    pub fn tree_defs(&mut self) -> Vec<Def> {
        let pk = pk(self.chance.pick(&["p", "p", "q"]));
        let text = [format!("Asso@{pk}"), format!("Adh/in@{pk}"), format!("Sta/in@{pk}")];
        let place = self.chance.below(3) as usize;
        text.iter().cycle().skip(place).take(3).map(|text| text.parse().unwrap()).collect()
    }
}

/// The parent that a def tells of with its neighbours.
pub fn tree_of(sub: &Sub) -> Option<String> {
    match (sub.def.class().as_str(), sub.def.kind()) {
        ("Asso", DefKind::Document(pk)) => Some(pk.to_string()),
        (_, DefKind::Collection(name, hash)) if name.as_str() == "in" => Some(hash.to_string()),
        _ => None,
    }
}
