//! The reads of a write: documents and trees, as it has left them. A document that is not older than the write ends it: the
//! write begins again above that.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use escale::codec::{Data, Row};
use escale::model::schema::Class;
use escale::model::{Pk, Value, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use crate::engine::records::opened::{Opened, read_document};
use crate::engine::tx::checks::unreadable;
use crate::engine::tx::trees::parent_of;
use crate::engine::tx::write_tx::{Actor, Held, Stored, WriteTx};
use crate::provider::{Document, Place};

impl WriteTx<'_> {
    /// The current document of that class and pk. If there never was one: `deleted`, with version 0.
    pub(in crate::engine) fn row(&mut self, class: &Class, pk: &Pk) -> Result<Row> {
        let at = Place { org: self.org, class: class.name().as_str(), pk: pk.as_str() };
        let nothing = Row { pk: pk.clone(), v: 0, deleted: true, max_life: None, data: None };
        Ok(match self.read(class, at)? {
            None => nothing,
            Some(Stored { ended: Some(floor), .. }) => Row { v: floor, ..nothing },
            Some(Stored { opened, .. }) if opened.document.deleted => Row { v: opened.document.v, ..nothing },
            Some(Stored { opened: Opened { document, data }, .. }) => {
                let (v, max_life) = (document.v, document.max_life);
                let data = Some(Data::from_bytes(&data)?);
                Row { v, deleted: false, max_life, data, ..nothing }
            }
        })
    }

    /// The living document of that class and pk, with its version.
    pub fn get(&mut self, class: &str, pk: &str) -> Result<Option<(Version, BTreeMap<String, Value>)>> {
        let class = self.instance.schema.class(class)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk };
        let stored = self.read(class, at)?;
        match stored.as_ref().and_then(Stored::living) {
            Some(living) => Ok(Some((living.document.v, living.properties().map_err(unreadable)?))),
            None => Ok(None),
        }
    }

    /// The document or tombstone at that place.
    pub(in crate::engine) fn read(&mut self, class: &Class, at: Place) -> Result<Option<Stored>> {
        let found = read_document(self.tx.snapshot(), &self.instance.seal, at)?;
        let Some(opened) = found else { return Ok(None) };
        let document = &opened.document;
        let own = self.own.contains(&(SmolStr::new(at.class), SmolStr::new(at.pk)));
        if document.v >= self.now && !own && !class.is_sequence() {
            self.notes.regressed = self.notes.regressed.max(Some(document.v));
            return Err(Error::new(Code::Contention, "a document is not older than the write"));
        }
        let ended = self.ended(class, document)?;
        Ok(Some(Stored { opened, ended }))
    }

    /// The tree of a parent, as this write has left it.
    pub(in crate::engine) fn tree(&mut self, (class, pk): &Actor) -> Result<&mut Held> {
        match self.trees.entry((class.clone(), pk.clone())) {
            Slot::Occupied(held) => Ok(held.into_mut()),
            Slot::Vacant(free) => {
                let at = Place { org: self.org, class, pk };
                let tree = self.tx.snapshot().tree(at)?.unwrap_or_default();
                let is_timed = !self.instance.schema.class(class)?.is_sequence();
                if is_timed && tree.v >= self.now {
                    self.notes.regressed = self.notes.regressed.max(Some(tree.v));
                    return Err(Error::new(Code::Contention, "a tree is not older than the write"));
                }
                Ok(free.insert(Held { tree, ..Held::default() }))
            }
        }
    }

    /// The floor of its tree, if a stored document is an item below it, so that it does not exist.
    pub(in crate::engine) fn ended(&mut self, class: &Class, document: &Document) -> Result<Option<Version>> {
        let Some(parent) = parent_of(class, &document.shown) else { return Ok(None) };
        let floor = self.tree(&parent)?.tree.floor;
        Ok((document.v < floor).then_some(floor))
    }
}
