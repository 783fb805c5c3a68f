//! The engine: an instance with its operations. It alone knows all parts, and no part knows it.

use std::ops::Deref;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use escale::codec::{SyncReply, SyncRequest};
use escale::model::{Epoch, Version};
use escale::{Code, Error, Result};

use crate::engine::caller::Caller;
use crate::engine::effects::transact::{Written, write_as};
use crate::engine::files::filing::Filing;
use crate::engine::instance::context::Instance;
use crate::engine::instance::epochs::{first_site, fresh_name};
use crate::engine::instance::heads_seen::HeadsSeen;
use crate::engine::instance::refusals::{ReadHooks, check_enters};
use crate::engine::instance::schedules::KnownSchedules;
use crate::engine::instance::work::{Watched, Work};
use crate::engine::maintenance::adopt::{Opening, adopt};
use crate::engine::operations::operator::Operator;
use crate::engine::operations::order::attempts::Tries;
use crate::engine::operations::order::pace::Pace;
use crate::engine::operations::registry::Operations;
use crate::engine::pull::answer::{Rest, reply};
use crate::engine::tx::hooks::Hooks;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::Ran;
use crate::engine::tx::write_tx::WriteTx;
use crate::figures::Figures;
use crate::files::{Files, FolderFiles};
use crate::mark::Mark;
use crate::provider::{Provider, SqliteProvider};
use crate::rights::Rights;
use crate::spans::span;
use crate::values::Values;

/// The database's file name in the data folder.
const DATABASE: &str = "escale.db";

/// The folder of the objects there.
const FILES: &str = "files";

/// One instance of the server, without its network part. All connections share it.
pub struct Engine {
    instance: Instance,
    hooks: Hooks,
    operations: Operations,
    tries: Tries,
    pace: Pace,
}

/// All that needs no operations and no functions of the application in a write.
impl Deref for Engine {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
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
        let mark = Mark::next_to(&path);
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
        let values = Values::of(&opening.schema)?;
        let (generation, was_clear) = adopt(provider.as_ref(), &mark, &opening, name)?;
        if was_clear {
            provider.scrub()?;
        }
        let Opening { schema, settings, seal, clock } = opening;
        let instance = Instance {
            provider,
            files: None,
            mark,
            schema,
            rights,
            values,
            read_hooks: ReadHooks::default(),
            generation,
            settings,
            seal,
            clock,
            known_schedules: KnownSchedules::default(),
            reached: HeadsSeen::default(),
            figures: Figures::new(),
            committed: Mutex::new(None),
        };
        let engine = Engine {
            instance,
            hooks: Hooks::default(),
            operations: Operations::default(),
            tries: Tries::default(),
            pace: Pace::default(),
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
        run: impl Fn(&mut OperationTx<'_>, &escale::model::Value) -> Ran + Send + Sync + 'static,
    ) -> Result<Self> {
        self.operations.register(name, Box::new(run))?;
        Ok(self)
    }

    /// The database file in a data folder.
    pub fn database_in(folder: &Path) -> std::path::PathBuf {
        folder.join(DATABASE)
    }
}

impl Engine {
    /// Answers a request that has passed [`SyncRequest::check`]: first its operations, then each def from one
    /// snapshot, until the reply is full. An org without any data is answered like any other, because a
    /// session asks before it writes the org's first document. Errors: those of the database;
    /// `account_closed` for a caller that may not enter (R89).
    pub fn sync(&self, org: &str, caller: &Caller, request: &SyncRequest) -> Result<SyncReply> {
        answer(self, (org, caller), request, &Work::of(self.settings.request_rows))
    }

    /// Runs `run` as one transaction on an org. All its writes become visible at once, under one version, or
    /// none does. If it reads a document that is not older than its version, it runs again from the start.
    /// Errors: those of `run`, `unavailable`, and `contention`. The latter means that other writes held the
    /// org, that the write took longer than a second, or that it ran again too often.
    pub fn write<T>(
        &self,
        org: &str,
        mut run: impl FnMut(&mut WriteTx<'_>) -> Result<T>,
    ) -> Result<Written<T>> {
        write_as((self, &self.hooks), (org, &Caller { may_write: true, ..Caller::default() }), |tx| {
            run(&mut tx.write)
        })
    }

    /// Registers the functions that refuse reads and writes, in place of earlier ones. Errors: `bad_option` if one is of
    /// a class that the schema does not have.
    pub fn hooked(mut self, mut hooks: Hooks) -> Result<Self> {
        if let Some(class) = hooks.write.keys().find(|class| self.schema.class(class).is_err()) {
            let what = format!("on_write of class {class}: the schema has no such class");
            return Err(Error::new(Code::BadOption, what));
        }
        self.instance.read_hooks = std::mem::take(&mut hooks.reads);
        self.hooks = hooks;
        Ok(self)
    }

    fn operator(&self) -> Operator<'_> {
        let Engine { instance, hooks, operations, tries, pace } = self;
        Operator { instance, hooks, operations, tries, pace }
    }
}

/// Like [`Engine::sync`], as long as the caller waits. Once it has gone, no further work begins for it. Errors: also
/// `unavailable`, which nobody reads.
pub fn answer_while(
    engine: &Engine,
    (org, caller): (&str, &Caller),
    request: &SyncRequest,
    has_gone: &AtomicBool,
) -> Result<SyncReply> {
    let work = Work::while_there(engine.settings.request_rows, has_gone);
    answer(engine, (org, caller), request, &work)
}

fn answer(
    engine: &Engine,
    (org, caller): (&str, &Caller),
    request: &SyncRequest,
    work: &Work,
) -> Result<SyncReply> {
    check_enters(engine, org, caller)?;
    let operated = engine.operator().operate(org, caller, request, work)?;
    work.check_caller()?;
    let _in = span!("pull", defs = request.subs.len()).entered();
    // R4: the snapshot is opened after the operations, and after `now` is stored.
    let timed = engine.tell_now(org)?;
    let snapshot = timed.snapshot.as_ref();
    let documents = Watched::of(snapshot, work);
    let passed = operated.passed;
    let results = engine.operator().complete((snapshot, &documents), (org, caller), request, operated)?;
    reply(engine, &timed, &documents, Rest { who: (org, caller), request, work, results, passed })
}

/// Writes records of an org in one transaction, and commits it if `write` has changed any. It may run again from its start.
/// Errors: those of `write`, after which nothing is stored; `contention`.
pub(crate) fn write_system_record<T>(
    engine: &Engine,
    org: &str,
    write: impl FnMut(&mut OperationTx<'_>) -> Result<T>,
) -> Result<T> {
    let caller = Caller { may_write: true, ..Caller::default() };
    write_as((engine, &engine.hooks), (org, &caller), write).map(|written| written.value)
}

/// The epoch of an org and the highest version committed in it (R43). None if nothing was written to it. Errors: those of the
/// database.
pub fn head(engine: &Engine, org: &str) -> Result<Option<(Epoch, Version)>> {
    Ok(engine.provider.read()?.head(org)?.map(|head| (head.epoch, head.highest)))
}

/// The connections to the database that are in use, by their purpose. Empty if the database has none.
pub(crate) fn connections(engine: &Engine) -> Vec<(&'static str, usize)> {
    engine.provider.connections()
}

/// Keeps the files of an engine in this store. If a site key is new, seals the objects that are in clear. Errors: those of
/// the database and of the store.
pub fn with_files(mut engine: Engine, files: Box<dyn Files>) -> Result<Engine> {
    engine.instance.files = Some(files);
    Filing::of(&engine).seal_all()?;
    Ok(engine)
}
