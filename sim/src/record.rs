//! A record of the server's commits. The checks compare sessions with it, not with the server's own replies.

use std::collections::{BTreeMap, BTreeSet};

use escale::codec::{Data, OpResult};
use escale::model::{Def, DefKind, Epoch, Name, Pk, Value};
use escale::{Code, Error, Result};
use escale_server::engine::read_result;
use escale_server::provider::{Document, FeedRow, Operation, Place, Tree};
use escale_server::seal::Seal;

use escale_testkit::backend::{Committed, Entry, Tenant};
use escale_testkit::schema::{Key, Map};

/// The writes of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Written {
    puts: Vec<(String, Entry)>,
    /// The floors of trees, by org and parent (R17).
    floors: Vec<(String, Pk, u64)>,
    /// Lines of the feed, which announces commits to listening sessions.
    pub feed: Vec<FeedRow>,
    /// Org, account, operation.
    pub operations: Vec<(String, String, Operation)>,
    /// The highest `now` that was sent.
    pub promised_now: Option<u64>,
}

/// The contents of the database during one epoch.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Every write, by org.
    pub history: BTreeMap<usize, Vec<Entry>>,
    /// The current documents and tombstones.
    docs: BTreeMap<(usize, Key), Entry>,
    /// The results of operations.
    pub results: BTreeMap<(Tenant, String), OpResult>,
    /// The executed operations, in order.
    pub executed: Vec<(Tenant, String)>,
}

/// The contents of the database in each of the epochs of its orgs.
#[derive(Debug)]
pub struct Record {
    /// The contents in the current epochs.
    pub life: Life,
    /// The epoch of each org.
    pub epochs: Vec<Epoch>,
    /// The contents in earlier epochs, as they were in the end, by org and epoch.
    pub past: BTreeMap<(usize, Epoch), Life>,
    /// The highest `now` that was sent.
    pub promised_now: u64,
}

/// The bytes of a stored value after its first byte, which says that the value is not sealed.
fn in_clear(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_first() {
        Some((0, data)) => Ok(data),
        _ => Err(Error::new(Code::Internal, "the simulation keeps data in clear")),
    }
}

impl Written {
    /// Records a document. Errors: `not_unique` for a poisoned one, as if an index already had its value.
    pub fn put(&mut self, at: Place, document: &Document) -> Result<()> {
        let map = Data::from_bytes(in_clear(&document.data)?)?.to_map()?;
        if map.contains_key("poison") {
            return Err(Error::new(Code::NotUnique, "poisoned"));
        }
        let (class, pk) = (Name::new(at.class)?, Pk::parse(at.pk)?);
        let mut defs = BTreeSet::new();
        if !document.deleted {
            defs.extend([Def::class_of(&class), Def::document(&class, &pk)]);
            for (collection, hashes) in &document.shown.links {
                let collection = Name::new(collection)?;
                defs.extend(hashes.iter().map(|hash| Def::collection_hashed(&class, &collection, hash)));
            }
        }
        let data = if document.deleted { Map::new() } else { map };
        let entry = Entry { key: (class, pk), v: document.v, defs, data, max_life: document.max_life };
        self.puts.push((at.org.to_owned(), entry));
        Ok(())
    }

    /// Records a tree. The tests have one class of parents.
    pub fn tree(&mut self, at: Place, tree: &Tree) -> Result<()> {
        self.floors.push((at.org.to_owned(), Pk::parse(at.pk)?, tree.floor));
        Ok(())
    }
}

impl Life {
    /// The files that living documents reference, by org and hash.
    pub fn references(&self) -> Vec<(usize, &str)> {
        let mut found = Vec::new();
        for ((org, _), entry) in self.docs.iter().filter(|(_, entry)| !entry.defs.is_empty()) {
            let files = entry.data.get("files").and_then(Value::as_array);
            let shas = files.into_iter().flatten().filter_map(|file| file.as_map()?.get("sha")?.as_str());
            found.extend(shas.map(|sha| (*org, sha)));
        }
        found
    }

    /// The items of a parent below a floor do not exist any more (R17).
    fn end_items(&mut self, org: usize, parent: &Pk, floor: u64) {
        let is_item = |def: &Def| matches!(def.kind(), DefKind::Collection(name, hash) if name.as_str() == "in" && hash == parent.as_str());
        for ((of, _), entry) in &mut self.docs {
            if *of == org && entry.v < floor && entry.defs.iter().any(is_item) {
                *entry = Entry {
                    v: floor,
                    defs: BTreeSet::new(),
                    data: Map::new(),
                    max_life: None,
                    ..entry.clone()
                };
                self.history.entry(org).or_default().push(entry.clone());
            }
        }
    }
}

impl Record {
    /// The record of a new database, which that many orgs will use.
    pub fn new(epoch: &Epoch, orgs: usize) -> Self {
        let epochs = vec![epoch.clone(); orgs];
        Record { life: Life::default(), epochs, past: BTreeMap::new(), promised_now: 0 }
    }

    /// Records a commit. Gives the notifications for listening sessions, document by document.
    pub fn note(&mut self, written: Written) -> Vec<Committed> {
        self.promised_now = self.promised_now.max(written.promised_now.unwrap_or(0));
        for (org, entry) in written.puts {
            let org = org_number(&org);
            self.life.docs.insert((org, entry.key.clone()), entry.clone());
            self.life.history.entry(org).or_default().push(entry);
        }
        for (org, parent, floor) in written.floors {
            self.life.end_items(org_number(&org), &parent, floor);
        }
        for (org, account, operation) in written.operations {
            let tenant = Tenant { org: org_number(&org), account: account_number(&account) };
            let result = read_result(&Seal::clear(), (&org, &account), &operation).expect("a result");
            if operation.v.is_some() {
                self.life.executed.push((tenant, operation.id.clone()));
            }
            self.life.results.insert((tenant, operation.id), result);
        }
        written.feed.iter().map(committed).collect()
    }

    /// The database was put back from a copy. Without a new epoch, it may have lost nothing.
    pub fn put_back(&mut self, epochs: &[Epoch], life: Life) {
        if self.epochs == epochs {
            assert_eq!(
                self.life.history.values().map(Vec::len).sum::<usize>(),
                life.history.values().map(Vec::len).sum::<usize>(),
                "R8: the database was put back, and its epochs are the same"
            );
            return;
        }
        for (org, epoch) in epochs.iter().enumerate() {
            self.enter(org, epoch.clone());
        }
        self.life = life;
    }

    /// An org has begun an epoch.
    pub fn enter(&mut self, org: usize, epoch: Epoch) {
        assert!(epoch > self.epochs[org], "R8: {epoch:?} follows {:?} in org {org}", self.epochs[org]);
        let ended = std::mem::replace(&mut self.epochs[org], epoch);
        self.past.insert((org, ended), self.life.clone());
    }

    /// Every write of an org in an epoch.
    pub fn history(&self, org: usize, epoch: &Epoch) -> Option<&[Entry]> {
        let life =
            if *epoch == self.epochs[org] { &self.life } else { self.past.get(&(org, epoch.clone()))? };
        Some(life.history.get(&org).map(Vec::as_slice).unwrap_or_default())
    }

    /// The living members of a def.
    pub fn living(&self, org: usize, def: &Def, now: u64) -> Vec<(&Pk, u64, &Map)> {
        let docs = self.life.docs.iter().filter(|((of, _), entry)| *of == org && entry.defs.contains(def));
        let living = docs.filter(|(_, entry)| entry.max_life.is_none_or(|minutes| minutes * 60_000 > now));
        living.map(|((_, key), entry)| (&key.1, entry.v, &entry.data)).collect()
    }
}

/// The notification for one line of the feed: the document, and the defs that it concerns.
fn committed(row: &FeedRow) -> Committed {
    let (class, pk) = (Name::new(&row.class).expect("a class"), Pk::parse(&row.pk).expect("a pk"));
    let mut defs = vec![Def::class_of(&class), Def::document(&class, &pk)];
    for (collection, hashes) in &row.links {
        let collection = Name::new(collection).expect("a collection");
        defs.extend(hashes.iter().map(|hash| Def::collection_hashed(&class, &collection, hash)));
    }
    let numbers = BTreeMap::new();
    Committed { org: org_number(&row.org), v: row.v, keys: vec![(class, pk)], defs, numbers }
}

fn org_number(org: &str) -> usize {
    let number = org.strip_prefix("org").expect("an org of the simulation");
    if number.is_empty() { 0 } else { number.parse().expect("a number") }
}

fn account_number(account: &str) -> usize {
    account.strip_prefix("account").expect("an account of the simulation").parse().expect("a number")
}
