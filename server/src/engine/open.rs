//! Opens an engine: compares the schema with the one in the database, checks the site key, and renews the
//! epoch if the watermark requires it (R8).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use escale::model::schema::{Class, Schema};
use escale::model::{Epoch, Version};
use escale::{Code, Error, Result};

use super::database::ReachedHeads;
use super::files::{differ as files_differ, refile, with_files};
use super::maintain::{each_head, renew_all};
use super::operation::Operations;
use super::order::{Pace, Tries};
use super::rights::restrictions::KnownSchedules;
use super::rights::{COUNTERS, Counted, Counter, Hooks, differ, lacks_files, put_counter, stored_counter};
use super::trees::{item_classes, parent_of};
use super::{growth, shown};
use crate::clock::Clock;
use crate::figures::Figures;
use crate::files::{Files, FolderFiles};
use crate::mark::{Mark, Reached};
use crate::provider::{Document, Head, Maintenance, Place, Provider, Site, SqliteProvider, Tree};
use crate::rights::Rights;
use crate::seal::Seal;
use crate::settings::Settings;

/// The database's file name in the data folder.
const DATABASE: &str = "escale.db";

/// The folder of the objects there.
const FILES: &str = "files";

/// How long the opening waits for the writes of another process.
pub(super) const WRITE_WAIT: Duration = Duration::from_secs(5);

/// The text that the stored seal check must open to. If it does, the site key is the right one.
const SEAL_CHECK: &[u8] = b"escale-server site key";
const SEAL_PLACE: Place = Place { org: "", class: "", pk: "" };

/// Documents converted at a time when the schema or the site key changes.
const WALK: usize = 500;

/// The parameters of opening an engine.
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

/// One instance of the server, without its network part. All connections share it.
pub struct Engine {
    pub(super) provider: Box<dyn Provider>,
    /// The store of objects; without one there are no files.
    pub(super) files: Option<Box<dyn Files>>,
    pub(super) mark: Mark,
    pub(super) schema: Schema,
    pub(super) rights: Rights,
    pub(super) hooks: Hooks,
    /// The number of this schema in the database (R38).
    pub(super) generation: u64,
    pub(super) settings: Settings,
    pub(super) seal: Seal,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) operations: Operations,
    pub(super) tries: Tries,
    pub(super) pace: Pace,
    /// The schedules that were read last (R89).
    pub(super) known_schedules: KnownSchedules,
    /// How far the heads had come that were read last.
    pub(super) reached: ReachedHeads,
    /// The instance's figures.
    pub(crate) figures: Figures,
    pub(super) committed: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Engine {
    /// Opens the data folder, or makes it, with its files. Errors: `bad_option`, `schema_mismatch`, `store_too_new`,
    /// `storage_failed`.
    pub fn open(folder: &Path, opening: Opening) -> Result<Self> {
        opening.settings.check()?;
        std::fs::create_dir_all(folder).map_err(|e| {
            Error::new(Code::StorageFailed, format!("cannot make the folder {}: {e}", folder.display()))
        })?;
        let path = folder.join(DATABASE);
        let provider = SqliteProvider::open(&path, &first_site(opening.clock.now_ms())?)?;
        let mark = Mark::beside(&path);
        let files = FolderFiles::open(&folder.join(FILES))?;
        let engine = Engine::over(Box::new(provider), mark, opening, fresh_name()?)?;
        with_files(engine, Box::new(files))
    }

    /// Opens an instance over another database than that of a folder. `name` is the name of an epoch that
    /// begins now. It is random, so that two epochs that begin in the same millisecond differ. Errors: as for
    /// [`Engine::open`].
    pub fn over(provider: Box<dyn Provider>, mark: Mark, mut opening: Opening, name: u64) -> Result<Self> {
        opening.settings.check()?;
        opening.schema = opening.schema.of_server();
        let rights = Rights::of(&opening.schema)?;
        let (generation, was_clear) = adopt(provider.as_ref(), &mark, &opening, name)?;
        if was_clear {
            provider.scrub()?;
        }
        let Opening { schema, settings, seal, clock } = opening;
        let engine = Engine {
            provider,
            files: None,
            mark,
            schema,
            rights,
            hooks: Hooks::default(),
            generation,
            settings,
            seal,
            clock,
            operations: Operations::default(),
            tries: Tries::default(),
            pace: Pace::default(),
            known_schedules: KnownSchedules::default(),
            reached: ReachedHeads::default(),
            figures: Figures::new(),
            committed: Mutex::new(None),
        };
        engine.check_database()?;
        Ok(engine)
    }

    /// Registers an application-defined operation. It runs as one transaction, which a fault rolls back
    /// completely. It may run again from its start, and then repeats its effects outside of `tx`. Errors:
    /// `bad_option` for a name that is taken or cannot be sent.
    ///
    /// ```
    /// use escale::model::Value;
    /// use escale_server::engine::Engine;
    ///
    /// fn with_clock(engine: Engine) -> escale::Result<Engine> {
    ///     engine.operation("clock.read", |tx, _args| Ok(Some(Value::from(tx.now() as i64))))
    /// }
    /// ```
    pub fn operation(
        mut self,
        name: &str,
        run: impl Fn(&mut super::Tx<'_>, &escale::model::Value) -> super::Ran + Send + Sync + 'static,
    ) -> Result<Self> {
        self.operations.register(name, Box::new(run))?;
        Ok(self)
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The numeric settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time by its clock.
    pub fn clock_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The database.
    pub fn provider(&self) -> &dyn Provider {
        self.provider.as_ref()
    }

    /// Whether stored data is sealed.
    pub fn is_sealing(&self) -> bool {
        self.seal.is_sealing()
    }

    /// Calls `notify` after each commit of this instance. It replaces an earlier `notify`.
    pub fn on_commit(&self, notify: impl Fn() + Send + Sync + 'static) {
        *self.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Box::new(notify));
    }

    /// The database file in a data folder.
    pub fn database_in(folder: &Path) -> std::path::PathBuf {
        folder.join(DATABASE)
    }
}

/// The state of a database that is made at `now_ms`.
pub fn first_site(now_ms: u64) -> Result<Site> {
    let mut cursor_key = vec![0; 32];
    getrandom::fill(&mut cursor_key).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    let epoch = make_epoch(now_ms, fresh_name()?)?;
    Ok(Site {
        last_epoch: epoch.clone(),
        epoch,
        generation: 0,
        commits: 0,
        told: 0,
        cursor_key,
        schema: String::new(),
        seal_check: Vec::new(),
        server: None,
    })
}

/// A random name for an epoch.
pub fn fresh_name() -> Result<u64> {
    let mut random = <[u8; 8]>::default();
    getrandom::fill(&mut random).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    Ok(u64::from_be_bytes(random))
}

/// A new epoch, made at `ms`.
fn make_epoch(ms: u64, name: u64) -> Result<Epoch> {
    Epoch::new(ms, &format!("{name:016x}"))
}

/// The next epoch: later than those of the database and of its watermark, even if the clock is behind.
/// `fresh` is the time, and the epoch's name.
pub(super) fn next_epoch(site: &Site, mark: &Mark, (now_ms, name): (u64, u64)) -> Result<Epoch> {
    next_epoch_after(0, site, mark, (now_ms, name))
}

/// The same, and later than an epoch that began at `ms`.
pub(super) fn next_epoch_after(
    ms: u64,
    site: &Site,
    mark: &Mark,
    (now_ms, name): (u64, u64),
) -> Result<Epoch> {
    let last = mark.epoch().map_or(ms, |epoch| epoch.ms().max(ms));
    make_epoch(now_ms.max(site.last_epoch.ms().max(last) + 1), name)
}

/// Converts the database to this schema and site key, and renews its epochs if necessary. Returns the schema's
/// generation. Also whether a site key was given for the first time, so that the file may still contain data
/// in clear.
fn adopt(provider: &dyn Provider, mark: &Mark, opening: &Opening, name: u64) -> Result<(u64, bool)> {
    let mut tx = provider.maintain(WRITE_WAIT)?;
    let mut site = tx.site()?;
    let before = site.clone();
    if site.server.is_none() {
        // A new database: there is nothing to renew.
        site.server = tx.server()?.map(|server| server.id);
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
    let mut highest = site.told;
    each_head(tx.as_mut(), |_, _, head: Head| {
        highest = highest.max(head.highest).max(head.told);
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
    match (seal.is_sealing(), site.seal_check.is_empty()) {
        (false, true) => Ok(false),
        (false, false) => bad("the database is sealed: give its key with --site-key"),
        (true, false) => match seal.open(SEAL_PLACE, 0, &site.seal_check) {
            Ok(text) if text == SEAL_CHECK => Ok(false),
            _ => bad("the database is sealed with another key than the one of --site-key"),
        },
        (true, true) => {
            // A thief who empties the check could otherwise have records of his own sealed as genuine ones.
            if !seal.may_adopt() && !tx.heads("", 1)?.is_empty() {
                return bad(
                    "the database is in clear: --seal seals all of it under --site-key. If it was sealed before, \
                            somebody has altered it: restore a backup",
                );
            }
            site.seal_check = seal.close(SEAL_PLACE, 0, SEAL_CHECK)?;
            each_document(tx, |tx, found| {
                if Seal::is_clear(&found.document.data) {
                    let at = Place { org: &found.org, class: &found.class, pk: &found.pk };
                    let mut document = found.document.clone();
                    let data = seal.open_or_clear(at, document.v, &document.data)?;
                    document.data = seal.close(at, document.v, &data)?;
                    tx.put_document(at, &document)?;
                }
                Ok(())
            })?;
            seal_operations(tx, seal)?;
            tracing::info!("all data is sealed with the site key from now on");
            Ok(true)
        }
    }
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
        tx.rewrite_actions((last, WALK), &|goblin, v, bytes| match Place::of_goblin(goblin) {
            Some(at) => close(at, v, bytes),
            None => Err(Error::new(Code::StorageFailed, "the journal holds an actor that is no document")),
        })?
    {
        last = number;
    }
    last = 0;
    while let Some(number) = tx.rewrite_results((last, WALK), &|org, account, operation| {
        let pk = growth::result_pk(account, &operation.id);
        close(growth::result_place(org, &pk), operation.seq, &operation.result)
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
        opening.schema.check_follows(&older).map_err(|e| e.at("the schema in the database"))?;
        if shown::differs(&older, &opening.schema) {
            rebuild(tx, opening, &older)?;
            each_head(tx, |tx, org, head| {
                let horizon = head.horizon.max(head.highest + 1);
                tx.put_head(org, &Head { horizon, commits: head.commits + 1, ..head })
            })?;
            tracing::info!("the schema changed: memberships and indexes are made again");
        }
        let differs = |class: &&Class| files_differ(&older, class);
        if opening.schema.classes().iter().any(|class| differs(&class)) && tx.files().has_files()? {
            refer_again(tx, opening, &older)?;
        }
        let (was, rights) = (Rights::of(&older)?, Rights::of(&opening.schema)?);
        let counts_files = |class: &&Class| rights.quota(class.name().as_str()).is_some() && differs(class);
        if differ(&was, &rights) || opening.schema.classes().iter().any(|class| counts_files(&class)) {
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
        let at = Place { org: &found.org, class: &found.class, pk: &found.pk };
        let mut document = found.document.clone();
        if !document.deleted {
            let bytes = opening.seal.open(at, document.v, &document.data)?;
            let map = escale::codec::Data::from_bytes(&bytes)?.to_map()?;
            let (_, fresh) = shown::of(class, &map)?;
            shown::replace(tx, class, at, &document, &fresh)?;
            document.shown = fresh;
            tx.put_document(at, &document)?;
            if older.class(&found.class).is_err() {
                join_tree(tx, class, at, &document)?;
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
        let class = opening.schema.class(&found.class).ok().filter(|class| files_differ(older, class));
        let Some(class) = class.filter(|_| !found.document.deleted) else { return Ok(()) };
        let at = Place { org: &found.org, class: &found.class, pk: &found.pk };
        let bytes = opening.seal.open(at, found.document.v, &found.document.data)?;
        let map = escale::codec::Data::from_bytes(&bytes)?.to_map()?;
        // A class that was in no schema for a while is taken as it is: nothing was written in it.
        let asked = decides.then(|| older.class(&found.class).unwrap_or(class));
        refile(tx, (class, asked), at, &map, (&opening.settings, now))
    })
}

/// Counts all documents again if a program wrote the counters that counted no files. Returns whether it did.
fn adopt_counters(tx: &mut dyn Maintenance, opening: &Opening) -> Result<bool> {
    let mut is_old = false;
    each_head(tx, |tx, org, _| {
        is_old = is_old || lacks_files(tx, &opening.seal, org)?;
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
        let at = Place { org: &found.org, class: &found.class, pk: &found.pk };
        if found.class == COUNTERS {
            let (of, stored) = stored_counter(&opening.seal, at, &found.document)?;
            let (counter, v) = counters.entry((found.org.clone(), of)).or_default();
            (counter.documents_max, counter.bytes_max) = (stored.documents_max, stored.bytes_max);
            *v = found.document.v.max(*v);
        } else if let Some(quota) = rights.quota(&found.class).filter(|_| !found.document.deleted) {
            let class = opening.schema.class(&found.class)?;
            let counted = Counted::stored((class, quota), &opening.seal, at, &found.document)?;
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
fn join_tree(tx: &mut dyn Maintenance, class: &Class, at: Place, document: &Document) -> Result<()> {
    let Some((class, pk)) = parent_of(class, &document.shown) else { return Ok(()) };
    let parent = Place { org: at.org, class: &class, pk: &pk };
    let mut tree = tx.tree(parent)?.unwrap_or_default();
    let lives = tx.document(parent)?.is_some_and(|parent| !parent.deleted);
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
    let Some(tree) = tx.tree(at)? else { return Ok(()) };
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
