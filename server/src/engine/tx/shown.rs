//! The columns of a document: the part that the database can see, which is its memberships and the values of
//! its indexes.

use std::collections::{BTreeMap, BTreeSet};

use escale::Result;
use escale::model::schema::{Class, ColumnValue, Columns, Schema};
use escale::model::{Name, Value};
use smol_str::SmolStr;

use crate::provider::{ChangeState, Document, Edit, Entry, EntryValue, Link, Place, Shown};

/// The columns of a document with this data, and their stored form.
pub(in crate::engine) fn of(class: &Class, data: &BTreeMap<String, Value>) -> Result<(Columns, Shown)> {
    let columns = class.columns(data)?;
    let text = |name: &Name| SmolStr::new(name.as_str());
    let links = columns
        .collections
        .iter()
        .filter(|(_, hashes)| !hashes.is_empty())
        .map(|(name, hashes)| (text(name), hashes.clone()))
        .collect();
    let mut entries = Vec::new();
    for (name, value) in &columns.indexes {
        let mut push = |value| entries.push(Entry { index: text(name), value });
        match value {
            ColumnValue::Text(t) => push(EntryValue::Text(t.clone())),
            ColumnValue::Int(i) => push(EntryValue::Int(*i)),
            ColumnValue::Float(f) => push(EntryValue::Float(*f)),
            ColumnValue::List(items) => {
                let distinct: BTreeSet<&String> = items.iter().collect();
                for item in distinct {
                    push(EntryValue::Text(item.clone()));
                }
            }
        }
    }
    Ok((columns, Shown { links, entries }))
}

/// The columns of a document, to be searched. The caller chooses how long its lists are.
pub(in crate::engine) struct Listed<'s> {
    shown: &'s Shown,
    /// Collections, with the hashes under which it is a member.
    pub(in crate::engine) links: BTreeSet<(&'s SmolStr, &'s SmolStr)>,
    /// Indexes of lists, with their texts.
    texts: BTreeSet<(&'s SmolStr, &'s str)>,
}

impl<'s> Listed<'s> {
    /// Those columns.
    pub(in crate::engine) fn of(shown: &'s Shown) -> Self {
        let links = shown.links.iter().flat_map(|(name, hashes)| hashes.iter().map(move |hash| (name, hash)));
        let texts = shown.entries.iter().filter_map(|entry| match &entry.value {
            EntryValue::Text(text) => Some((&entry.index, text.as_str())),
            EntryValue::Int(_) | EntryValue::Float(_) => None,
        });
        Listed { shown, links: links.collect(), texts: texts.collect() }
    }

    /// Whether they have that value of an index.
    pub(in crate::engine) fn has(&self, entry: &Entry) -> bool {
        match &entry.value {
            EntryValue::Text(text) => self.texts.contains(&(&entry.index, text.as_str())),
            EntryValue::Int(_) | EntryValue::Float(_) => self.shown.entries.contains(entry),
        }
    }
}

/// The scope of an index: the org, or empty if the index covers all orgs.
pub(in crate::engine) fn scope<'a>(class: &Class, index: &str, org: &'a str) -> &'a str {
    match class.index(index) {
        Ok(index) if index.is_global() => "",
        _ => org,
    }
}

/// Whether two schemas give the same documents different memberships or indexes.
pub(in crate::engine) fn differs(older: &Schema, newer: &Schema) -> bool {
    newer.classes().iter().any(|class| match older.class(class.name().as_str()) {
        // A new class has no documents, unless it existed before: then they must be processed again.
        Err(_) => true,
        Ok(was) => {
            let collections = |c: &Class| -> Vec<_> {
                c.collections().iter().map(|c| (c.name().clone(), c.key().to_vec(), c.is_list())).collect()
            };
            collections(class) != collections(was)
                || class.indexes() != was.indexes()
                || (class.is_sync() && !was.is_sync())
        }
    })
}

/// Rebuilds the links and entries of a living document as in `fresh`, at the document's version.
pub(in crate::engine) fn replace(
    tx: &mut dyn Edit,
    class: &Class,
    at: Place,
    document: &Document,
    fresh: &Shown,
) -> Result<()> {
    for (collection, hashes) in &document.shown.links {
        for hash in hashes {
            if !fresh.links.get(collection).is_some_and(|kept| kept.contains(hash)) {
                tx.remove_link(at, collection, hash)?;
            }
        }
    }
    for entry in &document.shown.entries {
        // The older schema may have had another scope.
        tx.remove_entry(at, at.org, entry)?;
        tx.remove_entry(at, "", entry)?;
    }
    for (collection, hashes) in &fresh.links {
        for hash in hashes {
            let state = ChangeState::Alive;
            let link = Link { collection, hash, v: document.v, state, max_life: document.max_life };
            tx.put_link(at, &link)?;
        }
    }
    for entry in &fresh.entries {
        tx.put_entry(at, scope(class, &entry.index, at.org), entry)?;
    }
    Ok(())
}
