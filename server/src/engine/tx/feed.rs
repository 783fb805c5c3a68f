//! Rows of the feed. A document of a list collection may be in thousands of defs, and a write of a few bytes concerns all of
//! them. So a row names the defs that such a document has left, and its reader looks up the others.

use std::collections::BTreeMap;

use escale::Result;
use escale::model::Version;
use smol_str::SmolStr;

use crate::engine::instance::context::Instance;
use crate::provider::{FeedRow, Place, Shown};

/// Memberships up to which a row has all of them.
const MEMBERSHIPS_MAX: usize = 64;

/// The collection whose name says that the document has further memberships. No collection has this name.
const AND_ITS_OWN: &str = "+";

/// The row of a write that led from these memberships to those.
pub(in crate::engine) fn feed_row((at, v): (Place, Version), old: &Shown, new: &Shown) -> FeedRow {
    let count = |shown: &Shown| shown.links.values().map(Vec::len).sum::<usize>();
    let is_short = count(old) + count(new) <= MEMBERSHIPS_MAX;
    let mut links = BTreeMap::new();
    for (collection, hashes) in &old.links {
        let kept = new.links.get(collection).map_or(&[][..], Vec::as_slice);
        let named = hashes.iter().filter(|hash| is_short || kept.binary_search(hash).is_err());
        links.insert(collection.clone(), named.cloned().collect());
    }
    if is_short {
        add(&mut links, &new.links);
    } else {
        links.insert(AND_ITS_OWN.into(), Vec::new());
    }
    FeedRow { org: at.org.into(), class: at.class.into(), pk: at.pk.into(), v, links }
}

/// The row with all memberships that its document had before the write or has now. Errors: those of the database.
pub fn whole_row(instance: &Instance, mut row: FeedRow) -> Result<FeedRow> {
    if row.links.remove(AND_ITS_OWN).is_some() {
        // A membership that has ended since is in a later row.
        let at = Place { org: &row.org, class: &row.class, pk: &row.pk };
        if let Some(document) = instance.provider.read()?.document(at)? {
            add(&mut row.links, &document.shown.links);
        }
    }
    Ok(row)
}

fn add(to: &mut BTreeMap<SmolStr, Vec<SmolStr>>, links: &BTreeMap<SmolStr, Vec<SmolStr>>) {
    for (collection, hashes) in links {
        let listed = to.entry(collection.clone()).or_default();
        let fresh: Vec<SmolStr> = hashes.iter().filter(|hash| !listed.contains(hash)).cloned().collect();
        listed.extend(fresh);
    }
}
