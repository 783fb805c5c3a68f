//! Random alterations of a database, and how to take them back.

use std::collections::BTreeMap;
use std::time::Duration;

use escale::model::{Def, Name};
use escale_server::engine::Engine;
use escale_server::provider::{
    ChangeState, Document, Edit, Entry, EntryValue, Link, Maintenance, Place, Tree, Walked,
};

use crate::accounts::support::ORG;
use crate::support::chance::Chance;
use crate::support::world::NOON;

/// The kinds of alterations that docs/security.md names as not noticed. Any other must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of it is noticed by who meets it.
    Noticed,
    /// A document is gone.
    Absent,
    /// A membership is gone or says that it ended, or a document says so and a first pull leaves it out.
    AbsentInPulls,
    /// Another document has the value of an index, or none.
    Index,
    /// A tree has other numbers.
    Tree,
}

/// A membership as the provider tells it.
type Row = (u64, ChangeState, Option<u64>);

/// Where a membership is: class, collection, hash and pk.
type Spot = (String, String, String, String);

/// The rows of an org, and of the documents of another one.
pub struct Tables {
    documents: Vec<Walked>,
    links: BTreeMap<Spot, Row>,
    trees: BTreeMap<(String, String), Tree>,
}

/// Rows that a thief wrote: each with the one before it.
#[derive(Default)]
pub struct Altered {
    documents: Vec<((String, String), Option<Document>)>,
    links: Vec<(Spot, Option<Row>)>,
    entries: Vec<((String, String), Entry, bool)>,
    trees: Vec<((String, String), Option<Tree>)>,
    /// The alterations in words.
    pub words: Vec<String>,
    pub kinds: Vec<Kind>,
}

const WAIT: Duration = Duration::from_secs(5);

fn at((class, pk): &(String, String)) -> Place<'_> {
    Place { org: ORG, class, pk }
}

fn put_link(tx: &mut dyn Edit, (class, collection, hash, pk): &Spot, (v, state, max_life): Row) {
    let link = Link { collection, hash, v, state, max_life };
    tx.put_link(Place { org: ORG, class, pk }, &link).unwrap();
}

impl Tables {
    /// Reads all of them.
    pub fn of(engine: &Engine) -> Self {
        let mut tx = engine.provider().maintain(WAIT).unwrap();
        let mut documents = Vec::new();
        loop {
            let last =
                documents.last().map(|last: &Walked| (last.org.clone(), last.class.clone(), last.pk.clone()));
            let more = tx.walk(last, 100).unwrap();
            if more.is_empty() {
                break;
            }
            documents.extend(more);
        }
        let (mut links, mut trees) = (BTreeMap::new(), BTreeMap::new());
        let own = documents.iter().filter(|one| one.org == ORG);
        let mut hashes: Vec<(String, String, String)> = own
            .clone()
            .flat_map(|one| {
                let of = |(name, hashes): (&_, &Vec<_>)| {
                    let name: &smol_str::SmolStr = name;
                    let of =
                        |hash: &smol_str::SmolStr| (one.class.clone(), name.to_string(), hash.to_string());
                    hashes.iter().map(of).collect::<Vec<_>>()
                };
                one.document.shown.links.iter().flat_map(of).collect::<Vec<_>>()
            })
            .collect();
        hashes.sort();
        hashes.dedup();
        for (class, collection, hash) in hashes {
            let (of, name) = (Name::new(&class).unwrap(), Name::new(&collection).unwrap());
            let def = Def::collection_hashed(&of, &name, &hash);
            let mut note = |change: escale_server::provider::Change| {
                let spot = (class.clone(), collection.clone(), hash.clone(), change.pk);
                links.insert(spot, (change.v, change.state, change.max_life));
                Ok(true)
            };
            tx.snapshot().changes(ORG, &def, (0, ""), 0, &mut note).unwrap();
        }
        for one in own {
            let place = (one.class.clone(), one.pk.clone());
            if let Some(tree) = tx.snapshot().tree(at(&place)).unwrap() {
                trees.insert(place, tree);
            }
        }
        Tables { documents, links, trees }
    }
}

/// Alters some rows at random.
pub fn alter(engine: &Engine, tables: &Tables, chance: &mut Chance) -> Altered {
    let mut altered = Altered::default();
    let mut tx = engine.provider().maintain(WAIT).unwrap();
    for _ in 0..chance.pick(&[1, 1, 1, 2, 3]) {
        match chance.below(20) {
            0..10 => altered.alter_document(tx.as_mut(), tables, chance),
            10..16 => altered.alter_link(tx.as_mut(), tables, chance),
            16..18 => altered.alter_entry(tx.as_mut(), tables, chance),
            _ => altered.alter_tree(tx.as_mut(), tables, chance),
        }
    }
    tx.commit().unwrap();
    altered
}

impl Altered {
    fn note(&mut self, kind: Kind, words: String) {
        self.kinds.push(kind);
        self.words.push(words);
    }

    fn alter_document(&mut self, tx: &mut dyn Maintenance, tables: &Tables, chance: &mut Chance) {
        let own: Vec<&Walked> = tables.documents.iter().filter(|one| one.org == ORG).collect();
        let one = chance.pick(&own);
        let other = &tables.documents[chance.below(tables.documents.len() as u64) as usize];
        let mut place = (one.class.clone(), one.pk.clone());
        let mut document =
            tx.snapshot().document(at(&place)).unwrap().unwrap_or_else(|| one.document.clone());
        let mut kind = Kind::Noticed;
        let past = NOON / 60_000 - 1;
        match chance.below(12) {
            0 | 1 => {
                document.deleted = !document.deleted;
                kind = if document.deleted { Kind::AbsentInPulls } else { Kind::Noticed };
            }
            2 => document.max_life = chance.pick(&[None, Some(past), Some(past + 60), Some(past << 1)]),
            3 => document.ttl = chance.pick(&[None, Some(0), Some(NOON << 1)]),
            4 => document.shown = other.document.shown.clone(),
            5 => document.shown.links.clear(),
            6 => document.shown.entries = vec![entry_of(tables, chance)],
            7 => {
                (document.v, kind) =
                    (chance.pick(&[other.document.v, document.v + 1, 1]), Kind::AbsentInPulls);
            }
            8 => document.data.clone_from(&other.document.data),
            9 => {
                // The whole row of another document, also of another org.
                document = other.document.clone();
                kind = Kind::AbsentInPulls;
            }
            10 => {
                // At a place where there may be none.
                place = (other.class.clone(), format!("{}x", other.pk));
                document = other.document.clone();
            }
            _ => {
                let was = tx.snapshot().document(at(&place)).unwrap();
                tx.remove_document(at(&place)).unwrap();
                self.documents.push((place.clone(), was));
                return self.note(Kind::Absent, format!("{place:?} is gone"));
            }
        }
        self.documents.push((place.clone(), tx.snapshot().document(at(&place)).unwrap()));
        tx.put_document(at(&place), &document).unwrap();
        let Document { v, deleted, max_life, ttl, shown, .. } = &document;
        self.note(kind, format!("{place:?} is {v} {deleted} {max_life:?} {ttl:?} {shown:?}"));
    }

    fn alter_link(&mut self, tx: &mut dyn Maintenance, tables: &Tables, chance: &mut Chance) {
        let links: Vec<(&Spot, &Row)> = tables.links.iter().collect();
        let (spot, row) = chance.pick(&links);
        let ((mut spot, mut row), mut kind) = ((spot.clone(), *row), Kind::Noticed);
        let other = &tables.documents[chance.below(tables.documents.len() as u64) as usize];
        match chance.below(8) {
            0..3 => {
                // Another document becomes a member.
                let of_class: Vec<&Walked> =
                    tables.documents.iter().filter(|one| one.class == spot.0 && one.org == ORG).collect();
                let one = chance.pick(&of_class);
                spot.3.clone_from(&one.pk);
                row = (one.document.v, ChangeState::Alive, one.document.max_life);
                // It may have been one, of whose end this says nothing any more.
                if tables.links.get(&spot).is_some_and(|(_, state, _)| *state != ChangeState::Alive) {
                    kind = Kind::AbsentInPulls;
                }
            }
            3 => row.2 = chance.pick(&[None, Some(NOON / 60_000 - 1), Some(NOON)]),
            4 => (row.0, kind) = (chance.pick(&[other.document.v, row.0 + 1, 1]), Kind::AbsentInPulls),
            5 => {
                // A membership that ended lives again.
                kind = if row.1 == ChangeState::Alive { Kind::Noticed } else { Kind::AbsentInPulls };
                row.1 = ChangeState::Alive;
            }
            6 => {
                (row.1, kind) =
                    (chance.pick(&[ChangeState::Left, ChangeState::Deleted]), Kind::AbsentInPulls);
            }
            _ => {
                self.links.push((spot.clone(), tables.links.get(&spot).copied()));
                tx.remove_link(Place { org: ORG, class: &spot.0, pk: &spot.3 }, &spot.1, &spot.2).unwrap();
                return self.note(Kind::AbsentInPulls, format!("{spot:?} is gone"));
            }
        }
        self.links.push((spot.clone(), tables.links.get(&spot).copied()));
        put_link(tx, &spot, row);
        self.note(kind, format!("{spot:?} is {row:?}"));
    }

    fn alter_entry(&mut self, tx: &mut dyn Maintenance, tables: &Tables, chance: &mut Chance) {
        let notes: Vec<&Walked> =
            tables.documents.iter().filter(|one| one.class == "Note" && one.org == ORG).collect();
        let (one, entry) = (chance.pick(&notes), entry_of(tables, chance));
        let place = (one.class.clone(), one.pk.clone());
        let was = one.document.shown.entries.contains(&entry);
        if was {
            tx.remove_entry(at(&place), ORG, &entry).unwrap();
        } else {
            tx.put_entry(at(&place), ORG, &entry).unwrap();
        }
        self.note(Kind::Index, format!("{place:?} has {entry:?}: {}", !was));
        self.entries.push((place, entry, was));
    }

    fn alter_tree(&mut self, tx: &mut dyn Maintenance, tables: &Tables, chance: &mut Chance) {
        let trees: Vec<_> = tables.trees.iter().collect();
        let (place, tree) = chance.pick(&trees);
        let mut tree = tree.clone();
        let number = chance.pick(&[0, 1, tree.floor + 1, tree.v, NOON]);
        match chance.below(4) {
            0 | 1 => tree.floor = number,
            2 => tree.horizon = number,
            _ => (tree.v, tree.items) = (number, number),
        }
        self.trees.push((place.clone(), tables.trees.get(place).cloned()));
        tx.put_tree(at(place), &tree).unwrap();
        self.note(Kind::Tree, format!("{place:?} is {tree:?}"));
    }

    /// Puts everything back.
    pub fn take_back(self, engine: &Engine) {
        let mut tx = engine.provider().maintain(WAIT).unwrap();
        for (place, was) in self.documents.iter().rev() {
            match was {
                Some(document) => tx.put_document(at(place), document).unwrap(),
                None => tx.remove_document(at(place)).unwrap(),
            }
        }
        for (spot, was) in self.links.into_iter().rev() {
            match was {
                Some(row) => put_link(tx.as_mut(), &spot, row),
                None => {
                    tx.remove_link(Place { org: ORG, class: &spot.0, pk: &spot.3 }, &spot.1, &spot.2)
                        .unwrap();
                }
            }
        }
        for (place, entry, was) in self.entries.iter().rev() {
            if *was {
                tx.put_entry(at(place), ORG, entry).unwrap();
            } else {
                tx.remove_entry(at(place), ORG, entry).unwrap();
            }
        }
        for (place, was) in self.trees.iter().rev() {
            match was {
                Some(tree) => tx.put_tree(at(place), tree).unwrap(),
                None => tx.remove_tree(at(place)).unwrap(),
            }
        }
        tx.commit().unwrap();
    }
}

/// A value of an index that some document has, or none.
fn entry_of(tables: &Tables, chance: &mut Chance) -> Entry {
    let entries = tables.documents.iter().flat_map(|one| one.document.shown.entries.clone());
    let made_up = Entry { index: "mail".into(), value: EntryValue::Text("made up".into()) };
    chance.pick(&entries.chain([made_up]).collect::<Vec<_>>())
}
