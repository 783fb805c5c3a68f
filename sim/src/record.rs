//! What the server did, as it went into the database: the checks compare sessions with this, and not with what the server
//! says of itself.

use std::collections::{BTreeMap, BTreeSet};

use escale::codec::{Data, Format, OpResult, decode};
use escale::model::{Def, Epoch, Name, Pk};
use escale::{Code, Error, Result};
use escale_server::provider::{Document, FeedRow, Operation, Place};

use crate::support::backend::{Committed, Entry, Tenant};
use crate::support::schema::{Key, Map};

/// What one transaction wrote.
#[derive(Clone, Debug, Default)]
pub struct Written {
    puts: Vec<(String, Entry)>,
    /// Lines of the feed.
    pub feed: Vec<FeedRow>,
    /// Org, account, operation.
    pub operations: Vec<(String, String, Operation)>,
    /// The highest `now` told.
    pub told: Option<u64>,
}

/// One life of the database.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Every write, by org.
    pub history: BTreeMap<usize, Vec<Entry>>,
    /// The documents and tombstones as they stand.
    docs: BTreeMap<(usize, Key), Entry>,
    /// What was answered to operations.
    pub results: BTreeMap<(Tenant, String), OpResult>,
    /// What was executed, in order.
    pub executed: Vec<(Tenant, String)>,
}

/// The lives of a database.
#[derive(Debug)]
pub struct Record {
    /// The life under way.
    pub life: Life,
    /// Its epoch.
    pub epoch: Epoch,
    /// Those that ended.
    pub past: BTreeMap<Epoch, Life>,
    /// The highest `now` told.
    pub told: u64,
}

/// What stands in the database before a seal would: the mark of data in clear.
fn in_clear(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.split_first() {
        Some((0, data)) => Ok(data),
        _ => Err(Error::new(Code::Internal, "the simulation keeps data in clear")),
    }
}

impl Written {
    /// Notes a document. Errors: `not_unique` for a poisoned one, as if an index held its value already.
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
}

impl Record {
    /// Of a database that begins.
    pub fn new(epoch: Epoch) -> Self {
        Record { life: Life::default(), epoch, past: BTreeMap::new(), told: 0 }
    }

    /// Notes a commit. Gives what those who listen are to be told, document by document.
    pub fn note(&mut self, written: Written) -> Vec<Committed> {
        self.told = self.told.max(written.told.unwrap_or(0));
        for (org, entry) in written.puts {
            let org = org_number(&org);
            self.life.docs.insert((org, entry.key.clone()), entry.clone());
            self.life.history.entry(org).or_default().push(entry);
        }
        for (org, account, operation) in written.operations {
            let tenant = Tenant { org: org_number(&org), account: account_number(&account) };
            let bytes = in_clear(&operation.result).expect("a result in clear");
            let result: OpResult = decode(Format::Msgpack, bytes, usize::MAX).expect("a result");
            if operation.v.is_some() {
                self.life.executed.push((tenant, operation.id.clone()));
            }
            self.life.results.insert((tenant, operation.id), result);
        }
        written.feed.iter().map(committed).collect()
    }

    /// Another life of the database has begun: as it was, or as a copy was.
    pub fn enter(&mut self, epoch: Epoch, life: Life) {
        if epoch == self.epoch {
            assert_eq!(
                self.life.history.values().map(Vec::len).sum::<usize>(),
                life.history.values().map(Vec::len).sum::<usize>(),
                "R8: the database was put back, and its epoch is the same"
            );
            return;
        }
        assert!(epoch > self.epoch, "R8: {epoch:?} follows {:?}", self.epoch);
        let ended = std::mem::replace(&mut self.life, life);
        self.past.insert(std::mem::replace(&mut self.epoch, epoch), ended);
    }

    /// The living members of a def.
    pub fn living(&self, org: usize, def: &Def, now: u64) -> Vec<(&Pk, u64, &Map)> {
        let docs = self.life.docs.iter().filter(|((of, _), entry)| *of == org && entry.defs.contains(def));
        let living = docs.filter(|(_, entry)| entry.max_life.is_none_or(|minutes| minutes * 60_000 > now));
        living.map(|((_, key), entry)| (&key.1, entry.v, &entry.data)).collect()
    }
}

/// The defs that a line of the feed concerns.
fn committed(row: &FeedRow) -> Committed {
    let (class, pk) = (Name::new(&row.class).expect("a class"), Pk::parse(&row.pk).expect("a pk"));
    let mut defs = vec![Def::class_of(&class), Def::document(&class, &pk)];
    for (collection, hashes) in &row.links {
        let collection = Name::new(collection).expect("a collection");
        defs.extend(hashes.iter().map(|hash| Def::collection_hashed(&class, &collection, hash)));
    }
    Committed { org: org_number(&row.org), v: row.v, keys: vec![(class, pk)], defs }
}

fn org_number(org: &str) -> usize {
    let number = org.strip_prefix("org").expect("an org of the simulation");
    if number.is_empty() { 0 } else { number.parse().expect("a number") }
}

fn account_number(account: &str) -> usize {
    account.strip_prefix("account").expect("an account of the simulation").parse().expect("a number")
}
