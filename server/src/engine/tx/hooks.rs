//! The application's own functions: they may refuse more than the rules do, and never allow more.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::collections::BTreeMap;

use escale::codec::Fault;
use escale::model::Def;

use crate::engine::instance::refusals::{HookContext, ReadHooks, Verdict};
use crate::engine::records::record::Properties;
use crate::engine::tx::budget::Growth;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{Ran, own_fault};

/// A change that a built-in operation is about to make.
#[derive(Clone, Copy, Debug)]
pub struct DocumentChange<'a> {
    /// The class.
    pub class: &'a str,
    /// The living document before the change; none if it is created.
    pub before: Option<&'a Properties>,
    /// The document after it; none if it is deleted.
    pub after: Option<&'a Properties>,
}

/// An account that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewAccount<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its login.
    pub login: &'a str,
    /// Its role.
    pub role: &'a str,
    /// The invitation that it uses up, if any.
    pub invitation: Option<&'a Properties>,
}

type OnSignUp = Box<dyn Fn(&mut OperationTx<'_>, &NewAccount<'_>) -> Ran + Send + Sync>;
type OnClose = Box<dyn Fn(&mut OperationTx<'_>, &str) -> Ran + Send + Sync>;
type OnWrite = Box<dyn Fn(&mut OperationTx<'_>, &DocumentChange<'_>) -> Ran + Send + Sync>;

/// The functions of an application that refuse more than its rules do. They never allow more.
///
/// ```
/// use escale::Code;
/// use escale::codec::Fault;
/// use escale_server::engine::{Engine, Hooks, Verdict};
///
/// fn with_hooks(engine: Engine) -> escale::Result<Engine> {
///     let hooks = Hooks::default()
///         .on_subscribe(|ask, def| {
///             let is_draft = def.class().as_str() == "Draft";
///             if is_draft && !ask.caller.is_admin { Verdict::Refused } else { Verdict::Allowed }
///         })
///         .on_write("Note", |_tx, change| match change.before {
///             Some(note) if note.contains_key("locked") => Err(Fault::new(Code::Forbidden, "the note is locked")),
///             _ => Ok(None),
///         });
///     engine.hooked(hooks)
/// }
/// ```
#[derive(Default)]
pub struct Hooks {
    pub(in crate::engine) reads: ReadHooks,
    pub(in crate::engine) write: BTreeMap<String, OnWrite>,
    pub(in crate::engine) sign_up: Option<OnSignUp>,
    pub(in crate::engine) close: Option<OnClose>,
}

impl Hooks {
    /// Lets `hook` refuse reads that the rules allow. It is asked for each def of each reply and each subscription of a
    /// socket, and must be quick. Its refusals are `withdrawn`. A later call replaces an earlier one.
    #[must_use]
    pub fn on_subscribe(
        mut self,
        hook: impl Fn(&HookContext<'_>, &Def) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        self.reads.subscribe = Some(Box::new(hook));
        self
    }

    /// Runs `hook` before a built-in operation changes a document of `class`, in its transaction. It may refuse the
    /// change, read, and write other documents. It is not run for the writes of hooks and of registered operations. A
    /// later call replaces an earlier one of the class.
    #[must_use]
    pub fn on_write(
        mut self,
        class: &str,
        hook: impl Fn(&mut OperationTx<'_>, &DocumentChange<'_>) -> Ran + Send + Sync + 'static,
    ) -> Self {
        self.write.insert(class.to_owned(), Box::new(hook));
        self
    }

    /// Lets `hook` restrict callers, in addition to the schedules: the highest level counts (R89). It is asked at each
    /// request and each turn of a socket, and must be quick. A later call replaces an earlier one.
    #[must_use]
    pub fn restriction(mut self, hook: impl Fn(&HookContext<'_>) -> u8 + Send + Sync + 'static) -> Self {
        self.reads.restriction = Some(Box::new(hook));
        self
    }

    /// Runs `hook` in the transaction of a sign-up. It may refuse it, and write documents, for example from the properties
    /// of the invitation. A later call replaces an earlier one.
    #[must_use]
    pub fn on_sign_up(
        mut self,
        hook: impl Fn(&mut OperationTx<'_>, &NewAccount<'_>) -> Ran + Send + Sync + 'static,
    ) -> Self {
        self.sign_up = Some(Box::new(hook));
        self
    }

    /// Runs `hook` in the transaction that closes an account, with its id. It may refuse that, and write documents. A later
    /// call replaces an earlier one.
    #[must_use]
    pub fn on_close(
        mut self,
        hook: impl Fn(&mut OperationTx<'_>, &str) -> Ran + Send + Sync + 'static,
    ) -> Self {
        self.close = Some(Box::new(hook));
        self
    }

    pub(in crate::engine) fn has_write(&self, class: &str) -> bool {
        self.write.contains_key(class)
    }

    pub(in crate::engine) fn before_write(
        &self,
        tx: &mut OperationTx<'_>,
        change: &DocumentChange<'_>,
    ) -> std::result::Result<(), Fault> {
        let Some(hook) = self.write.get(change.class) else { return Ok(()) };
        let counted = std::mem::replace(&mut tx.write.notes.growth, Growth::of_application());
        let ran = hook(tx, change).map(drop).map_err(|fault| own_fault("on_write", fault));
        tx.write.notes.growth = counted.after_application();
        ran
    }
}
