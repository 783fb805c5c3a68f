//! Documents that are not there (R100): who may hear even that. The others get the answer of a closed document. So they do
//! not learn that there is one, that there was one, or when that changed.

use std::collections::BTreeMap;

use escale::Result;
use escale::model::schema::Class;
use smol_str::SmolStr;

use crate::engine::records::record::Properties;
use crate::provider::Shown;
use crate::rights::{Asker, Related, Rule, Subject};

/// The part that is known of a document that is not there.
pub(in crate::engine) struct Gone<'a> {
    pub(in crate::engine) class: &'a Class,
    pub(in crate::engine) pk: &'a str,
    /// Its key, if a tombstone or the caller names it.
    pub(in crate::engine) key: Option<&'a Properties>,
    /// The collections that held it, by the `shaS` of their values.
    held: Option<&'a BTreeMap<SmolStr, Vec<SmolStr>>>,
}

impl<'a> Gone<'a> {
    /// One of which nothing was ever stored. The caller may know its key.
    pub(in crate::engine) fn never(class: &'a Class, pk: &'a str, key: Option<&'a Properties>) -> Self {
        Gone { class, pk, key, held: None }
    }

    /// One that left a tombstone with that key.
    pub(in crate::engine) fn tombstone(
        class: &'a Class,
        pk: &'a str,
        key: &'a Properties,
        shown: &'a Shown,
    ) -> Self {
        Gone { class, pk, key: Some(key), held: Some(&shown.links) }
    }

    /// Whether a rule holds for it by its key alone, or by a collection that showed its end.
    pub(in crate::engine) fn is_shown(
        &self,
        rule: &Rule,
        asker: Asker,
        related: &mut dyn Related,
    ) -> Result<bool> {
        if rule.holds(asker, Subject::Class, related)? {
            return Ok(true);
        }
        if let Some(key) = self.key
            && rule.holds(asker, Subject::Shared(key), related)?
        {
            return Ok(true);
        }
        // The pk of a key of one property is the hash of its value. That of these two classes is not.
        if let [property] = self.class.key()
            && !matches!(self.class.name().as_str(), "Org" | "Hdr")
            && rule.holds(asker, Subject::Hash { property, hash: self.pk, is_of_list: false }, related)?
        {
            return Ok(true);
        }
        for collection in self.class.collections() {
            let [property] = collection.key() else { continue };
            let hashes = self.held.and_then(|held| held.get(collection.name().as_str()));
            for hash in hashes.into_iter().flatten() {
                let is_of_list = collection.is_list();
                if rule.holds(asker, Subject::Hash { property, hash, is_of_list }, related)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
