//! Opens a database for an instance: compares the schema with the one in it, checks the site key, and renews the epoch if
//! the watermark requires it (R8).

use std::collections::BTreeMap;
use std::sync::Arc;

use escale::model::Version;
use escale::model::schema::{Class, Schema};
use escale::{Code, Error, Result};

use crate::clock::Clock;
use crate::engine::effects::file_references::{references_differ, refile};
use crate::engine::instance::epochs::{WRITE_WAIT, each_head, next_epoch, renew_all};
use crate::engine::records::counter::{
    Counted, Counter, NamedCounter, lacks_files, put_counter, quotas_differ,
};
use crate::engine::records::opened::{Opened, read_document};
use crate::engine::records::record::{result_pk, result_place};
use crate::engine::records::system::{SystemRecord, open_record};
use crate::engine::tx::shown;
use crate::engine::tx::trees::{item_classes, parent_of};
use crate::mark::{Mark, Reached};
use crate::provider::{Document, Head, Maintenance, Place, Provider, Site, Tree};
use crate::rights::Rights;
use crate::seal::Seal;
use crate::settings::Settings;

/// The text that the stored seal check must open to. If it does, the site key is the right one.
const SEAL_CHECK: &[u8] = b"escale-server site key, with rows";
/// That of earlier versions, which sealed documents without their rows.
const SEAL_CHECK_WITHOUT_ROWS: &[u8] = b"escale-server site key";
const SEAL_PLACE: Place = Place { org: "", class: "", pk: "" };

/// Documents converted at a time when the schema or the site key changes.
const WALK: usize = 500;

/// The parameters of opening an instance.
pub struct Opening {
    /// The schema of the documents.
    pub schema: Schema,
    /// The numeric settings.
    pub settings: Settings,
    /// The site key, or none.
    pub seal: Seal,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Converts the database to this schema and site key, and renews its epochs if necessary. Returns the schema's
/// generation. Also whether a site key was given for the first time, so that the file may still contain data
/// in clear.
pub(in crate::engine) fn adopt(
    provider: &dyn Provider,
    mark: &Mark,
    opening: &Opening,
    name: u64,
) -> Result<(u64, bool)> {
    let mut tx = provider.maintain(WRITE_WAIT)?;
    let mut site = tx.snapshot().site()?;
    let before = site.clone();
    if site.server.is_none() {
        // A new database: there is nothing to renew.
        site.server = tx.snapshot().server()?.map(|server| server.id);
    }
    let was_clear = adopt_seal(tx.as_mut(), &mut site, &opening.seal)?;
    adopt_schema(tx.as_mut(), &mut site, opening)?;
    let is_recounted = adopt_counters(tx.as_mut(), opening)?;
    let mut reached = Reached { epoch: site.last_epoch.clone(), commits: site.commits };
    if let Some(why) = mark.contradicts(&reached) {
        tracing::warn!("{why}; its epochs are renewed, and every session loads its collections again");
        reached.epoch = next_epoch(&site, mark, (opening.clock.now_ms(), name))?;
        renew_all(tx.as_mut(), &mut site, &reached.epoch)?;
    }
    let mut highest = site.promised_now;
    each_head(tx.as_mut(), |_, _, head: Head| {
        highest = highest.max(head.highest).max(head.promised_now);
        Ok(())
    })?;
    if site == before && !is_recounted {
        drop(tx);
    } else {
        tx.put_site(&site)?;
        reached.commits = tx.commit()?;
    }
    mark.write(&reached);
    let ahead = highest.saturating_sub(opening.clock.now_ms());
    if ahead > 60_000 {
        tracing::warn!(
            seconds = ahead / 1_000,
            "the clock is behind what the database holds; versions go on from there"
        );
    }
    Ok((site.generation, was_clear))
}

fn adopt_seal(tx: &mut dyn Maintenance, site: &mut Site, seal: &Seal) -> Result<bool> {
    let bad = |what: &str| Err(Error::new(Code::BadOption, what));
    if !seal.is_sealing() {
        if site.seal_check.is_empty() {
            return Ok(false);
        }
        return bad("the database is sealed: give its key with --site-key");
    }
    let was_clear = site.seal_check.is_empty();
    match seal.open(SEAL_PLACE, 0, &site.seal_check) {
        Ok(text) if text == SEAL_CHECK => return Ok(false),
        Ok(text) if text == SEAL_CHECK_WITHOUT_ROWS => {}
        _ if was_clear => {}
        _ => return bad("the database is sealed with another key than the one of --site-key"),
    }
    // A thief who empties the check, or puts an earlier one back, could otherwise have records of his own sealed as
    // genuine ones.
    let is_new = tx.snapshot().heads("", 1)?.is_empty() && tx.walk(None, 1)?.is_empty();
    if !seal.may_adopt() && !is_new {
        return bad(if was_clear {
            "the database is in clear: --seal seals all of it under --site-key. If it was sealed before, somebody has \
                altered it: restore a backup"
        } else {
            "the database was sealed by an earlier version: --seal seals its documents with their rows. If it was \
                served by this version before, somebody has altered it: restore a backup"
        });
    }
    site.seal_check = seal.close(SEAL_PLACE, 0, SEAL_CHECK)?;
    if !is_new {
        // Instances that run meanwhile would store documents as before.
        site.generation += 1;
    }
    each_document(tx, |tx, found| {
        let (at, document) = (found.place(), found.document.clone());
        let data = seal.open_earlier(at, &document, was_clear)?;
        tx.put_document(at, &seal.close_document(at, document, &data)?)
    })?;
    if was_clear {
        seal_operations(tx, seal)?;
        tracing::info!("all data is sealed with the site key from now on");
    } else {
        tracing::info!("all documents are sealed with their rows from now on");
    }
    Ok(was_clear)
}

/// Seals the journal and the results that were in clear.
fn seal_operations(tx: &mut dyn Maintenance, seal: &Seal) -> Result<()> {
    let close = |at: Place, v, bytes: &[u8]| {
        if !Seal::is_clear(bytes) {
            return Ok(None);
        }
        seal.close(at, v, &seal.open_or_clear(at, v, bytes)?).map(Some)
    };
    let mut last = 0;
    while let Some(number) =
        tx.rewrite_actions((last, WALK), &|actor, v, bytes| match Place::of_actor(actor) {
            Some(at) => close(at, v, bytes),
            None => Err(Error::new(Code::StorageFailed, "the journal holds an actor that is no document")),
        })?
    {
        last = number;
    }
    last = 0;
    while let Some(number) = tx.rewrite_results((last, WALK), &|org, account, operation| {
        let pk = result_pk(account, &operation.id);
        close(result_place(org, &pk), operation.seq, &operation.result)
    })? {
        last = number;
    }
    Ok(())
}

/// Replaces the stored schema by a compatible newer one, which begins a generation (R38). If collections or
/// indexes differ, memberships are rebuilt from the data. Departures that were never recorded can then only be
/// conveyed by `present`, so the horizon of each org moves up to here (R6).
fn adopt_schema(tx: &mut dyn Maintenance, site: &mut Site, opening: &Opening) -> Result<()> {
    let text = opening.schema.to_json();
    if site.schema == text {
        return Ok(());
    }
    if !site.schema.is_empty() {
        let older = Schema::from_json(&site.schema)
            .map_err(|e| Error::new(Code::StorageFailed, e.detail()).at("the schema in the database"))?;
        opening.schema.check_releases(&older).map_err(|e| e.at("the schema in the database"))?;
        if shown::differs(&older, &opening.schema) {
            rebuild(tx, opening, &older)?;
            each_head(tx, |tx, org, head| {
                let horizon = head.horizon.max(head.highest + 1);
                tx.put_head(org, &Head { horizon, commits: head.commits + 1, ..head })
            })?;
            tracing::info!("the schema changed: memberships and indexes are made again");
        }
        let differs = |class: &&Class| references_differ(&older, class);
        if opening.schema.classes().iter().any(|class| differs(&class))
            && tx.snapshot().files().has_files()?
        {
            refer_again(tx, opening, &older)?;
        }
        let (was, rights) = (Rights::of(&older)?, Rights::of(&opening.schema)?);
        let counts_files = |class: &&Class| rights.quota(class.name().as_str()).is_some() && differs(class);
        if quotas_differ(&was, &rights) || opening.schema.classes().iter().any(|class| counts_files(&class)) {
            recount(tx, opening, &rights)?;
        }
    }
    site.schema = text;
    site.generation += 1;
    Ok(())
}

fn rebuild(tx: &mut dyn Maintenance, opening: &Opening, older: &Schema) -> Result<()> {
    each_document(tx, |tx, found| {
        let Ok(class) = opening.schema.class(&found.class) else { return Ok(()) };
        let at = found.place();
        if !found.document.deleted {
            let Opened { mut document, data } = Opened::of(&opening.seal, at, found.document.clone())?;
            let map = escale::codec::Data::from_bytes(&data)?.to_map()?;
            let (_, fresh) = shown::of(class, &map)?;
            shown::replace(tx, class, at, &document, &fresh)?;
            document.shown = fresh;
            let document = opening.seal.close_document(at, document, &data)?;
            tx.put_document(at, &document)?;
            if older.class(&found.class).is_err() {
                join_tree(tx, (class, &opening.seal), at, &document)?;
            }
            if class.is_sequence() && class.has_items() {
                raise_horizon(tx, (older, &opening.schema), at)?;
            }
        }
        Ok(())
    })
}

/// Makes the references of the documents whose classes declare other files now.
fn refer_again(tx: &mut dyn Maintenance, opening: &Opening, older: &Schema) -> Result<()> {
    let now = opening.clock.now_ms();
    let decides = !Rights::of(&opening.schema)?.are_empty();
    each_document(tx, |tx, found| {
        let class = opening.schema.class(&found.class).ok().filter(|class| references_differ(older, class));
        let Some(class) = class.filter(|_| !found.document.deleted) else { return Ok(()) };
        let at = found.place();
        let map = Opened::of(&opening.seal, at, found.document.clone())?.properties()?;
        // A class that was in no schema for a while is taken as it is: nothing was written in it.
        let asked = decides.then(|| older.class(&found.class).unwrap_or(class));
        refile(tx, (class, asked), at, &map, (&opening.settings, now))
    })
}

/// Counts all documents again if a program wrote the counters that counted no files. Returns whether it did.
fn adopt_counters(tx: &mut dyn Maintenance, opening: &Opening) -> Result<bool> {
    let mut is_old = false;
    each_head(tx, |tx, org, _| {
        is_old = is_old || lacks_files(tx.snapshot(), &opening.seal, org)?;
        Ok(())
    })?;
    if is_old {
        recount(tx, opening, &Rights::of(&opening.schema)?)?;
    }
    Ok(is_old)
}

/// Counts all documents again, because other classes have quotas now. The limits stay.
fn recount(tx: &mut dyn Maintenance, opening: &Opening, rights: &Rights) -> Result<()> {
    let mut counters: BTreeMap<(String, String), (Counter, Version)> = BTreeMap::new();
    each_document(tx, |_, found| {
        let (at, document) = (found.place(), found.document.clone());
        if found.class == NamedCounter::CLASS {
            let NamedCounter { of, counter: stored, .. } = open_record(&opening.seal, at, document)?;
            let (counter, v) = counters.entry((found.org.clone(), of)).or_default();
            (counter.documents_max, counter.bytes_max) = (stored.documents_max, stored.bytes_max);
            *v = found.document.v.max(*v);
        } else if let Some(quota) = rights.quota(&found.class).filter(|_| !found.document.deleted) {
            let class = opening.schema.class(&found.class)?;
            let counted = Counted::stored((class, quota), &Opened::of(&opening.seal, at, document)?)?;
            for of in counted.names() {
                let (counter, v) = counters.entry((found.org.clone(), of.to_owned())).or_default();
                counter.add(&counted);
                *v = found.document.v.max(*v);
            }
        }
        Ok(())
    })?;
    for ((org, of), (counter, v)) in &counters {
        put_counter(tx, &opening.seal, (org, of, *v), counter)?;
    }
    Ok(())
}

/// Adds an item to its tree, if its class was in no schema for a while. Parents ended meanwhile without it, so an item
/// without a living parent is removed, or one from an earlier life of its parent.
fn join_tree(
    tx: &mut dyn Maintenance,
    (class, seal): (&Class, &Seal),
    at: Place,
    document: &Document,
) -> Result<()> {
    let Some((class, pk)) = parent_of(class, &document.shown) else { return Ok(()) };
    let parent = Place { org: at.org, class: &class, pk: &pk };
    let mut tree = tx.snapshot().tree(parent)?.unwrap_or_default();
    let lives = read_document(tx.snapshot(), seal, parent)?.is_some_and(|parent| !parent.document.deleted);
    if !lives || document.v < tree.floor {
        return tx.remove_shown(at, document);
    }
    (tree.items, tree.v) = (tree.items + 1, tree.v.max(document.v));
    tx.put_tree(parent, &tree)
}

/// Raises the horizon of a tree of the clock `sequence` above all its numbers. A class of it was in no schema for a
/// while, and its tombstones may have been purged without that.
fn raise_horizon(tx: &mut dyn Maintenance, (older, newer): (&Schema, &Schema), at: Place) -> Result<()> {
    let mut classes = item_classes(newer, at.class).map(|class| class.name().as_str()).chain([at.class]);
    if classes.all(|class| older.class(class).is_ok()) {
        return Ok(());
    }
    let Some(tree) = tx.snapshot().tree(at)? else { return Ok(()) };
    // A session that knows all numbers asks from the one behind.
    tx.put_tree(at, &Tree { horizon: tree.n + 2, ..tree })
}

fn each_document(
    tx: &mut dyn Maintenance,
    mut visit: impl FnMut(&mut dyn Maintenance, &crate::provider::Walked) -> Result<()>,
) -> Result<()> {
    let mut after = None;
    loop {
        let found = tx.walk(after, WALK)?;
        for one in &found {
            visit(tx, one)?;
        }
        match found.last() {
            Some(last) => after = Some((last.org.clone(), last.class.clone(), last.pk.clone())),
            None => return Ok(()),
        }
    }
}
