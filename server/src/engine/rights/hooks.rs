//! The application's own functions: they may refuse more than the rules do, and never allow more.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::collections::BTreeMap;

use escale::codec::Fault;
use escale::model::Def;
use escale::{Code, Error, Result};

use super::KeptWrite;
use crate::engine::growth::Growth;
use crate::engine::operation::{Properties, Ran, Tx, own_fault};
use crate::engine::{Caller, Engine};

/// The one who asks to read.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The org.
    pub org: &'a str,
    /// The caller.
    pub caller: &'a Caller,
}

/// The answer of a function that may refuse a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing speaks against it.
    Allowed,
    /// The def is `withdrawn` for this caller.
    Refused,
}

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

type OnSignUp = Box<dyn Fn(&mut Tx<'_>, &NewAccount<'_>) -> Ran + Send + Sync>;
type OnClose = Box<dyn Fn(&mut Tx<'_>, &str) -> Ran + Send + Sync>;
type OnSubscribe = Box<dyn Fn(&Ask<'_>, &Def) -> Verdict + Send + Sync>;
type Restrict = Box<dyn Fn(&Ask<'_>) -> u8 + Send + Sync>;
type OnWrite = Box<dyn Fn(&mut Tx<'_>, &DocumentChange<'_>) -> Ran + Send + Sync>;

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
    subscribe: Option<OnSubscribe>,
    write: BTreeMap<String, OnWrite>,
    restriction: Option<Restrict>,
    sign_up: Option<OnSignUp>,
    close: Option<OnClose>,
}

impl Hooks {
    /// Lets `hook` refuse reads that the rules allow. It is asked for each def of each reply and each subscription of a
    /// socket, and must be quick. Its refusals are `withdrawn`. A later call replaces an earlier one.
    #[must_use]
    pub fn on_subscribe(mut self, hook: impl Fn(&Ask<'_>, &Def) -> Verdict + Send + Sync + 'static) -> Self {
        self.subscribe = Some(Box::new(hook));
        self
    }

    /// Runs `hook` before a built-in operation changes a document of `class`, in its transaction. It may refuse the
    /// change, read, and write other documents. It is not run for the writes of hooks and of registered operations. A
    /// later call replaces an earlier one of the class.
    #[must_use]
    pub fn on_write(
        mut self,
        class: &str,
        hook: impl Fn(&mut Tx<'_>, &DocumentChange<'_>) -> Ran + Send + Sync + 'static,
    ) -> Self {
        self.write.insert(class.to_owned(), Box::new(hook));
        self
    }

    /// Lets `hook` restrict callers, in addition to the schedules: the highest level counts (R89). It is asked at each
    /// request and each turn of a socket, and must be quick. A later call replaces an earlier one.
    #[must_use]
    pub fn restriction(mut self, hook: impl Fn(&Ask<'_>) -> u8 + Send + Sync + 'static) -> Self {
        self.restriction = Some(Box::new(hook));
        self
    }

    /// Runs `hook` in the transaction of a sign-up. It may refuse it, and write documents, for example from the properties
    /// of the invitation. A later call replaces an earlier one.
    #[must_use]
    pub fn on_sign_up(
        mut self,
        hook: impl Fn(&mut Tx<'_>, &NewAccount<'_>) -> Ran + Send + Sync + 'static,
    ) -> Self {
        self.sign_up = Some(Box::new(hook));
        self
    }

    /// Runs `hook` in the transaction that closes an account, with its id. It may refuse that, and write documents. A later
    /// call replaces an earlier one.
    #[must_use]
    pub fn on_close(mut self, hook: impl Fn(&mut Tx<'_>, &str) -> Ran + Send + Sync + 'static) -> Self {
        self.close = Some(Box::new(hook));
        self
    }

    pub(in crate::engine) fn restriction_of(&self, ask: &Ask<'_>) -> u8 {
        self.restriction.as_ref().map_or(0, |hook| hook(ask))
    }

    pub(super) fn decide_reads(&self) -> bool {
        self.subscribe.is_some()
    }

    pub(super) fn verdict(&self, ask: &Ask, def: &Def) -> Verdict {
        self.subscribe.as_ref().map_or(Verdict::Allowed, |hook| hook(ask, def))
    }

    pub(super) fn has_write(&self, class: &str) -> bool {
        self.write.contains_key(class)
    }

    pub(super) fn before_write(
        &self,
        tx: &mut Tx<'_>,
        change: &DocumentChange<'_>,
    ) -> std::result::Result<(), Fault> {
        let Some(hook) = self.write.get(change.class) else { return Ok(()) };
        let counted = std::mem::replace(&mut tx.writing.growth, Growth::of_application());
        let ran = hook(tx, change).map(drop).map_err(|fault| own_fault("on_write", fault));
        tx.writing.growth = counted.after_application();
        ran
    }
}

impl KeptWrite<'_, '_> {
    /// Asks the application about a sign-up. Errors: the application's refusal.
    pub fn signs_up(&mut self, account: &NewAccount<'_>) -> Result<()> {
        let tx = self.tx();
        let hook = tx.hooks.sign_up.as_ref();
        hook.map_or(Ok(None), |hook| hook(tx, account)).map(drop).map_err(refused)
    }

    /// Asks the application about the end of an account. Errors: the application's refusal.
    pub fn closes(&mut self, account: &str) -> Result<()> {
        let tx = self.tx();
        let hook = tx.hooks.close.as_ref();
        hook.map_or(Ok(None), |hook| hook(tx, account)).map(drop).map_err(refused)
    }
}

/// The answer to a request of an account that the application refuses.
fn refused(fault: Fault) -> Error {
    Error::new(Code::parse(&fault.code).unwrap_or(Code::Forbidden), fault.message)
}

impl Engine {
    /// Registers the functions that refuse reads and writes, in place of earlier ones. Errors: `bad_option` if one is of
    /// a class that the schema does not have.
    pub fn hooked(mut self, hooks: Hooks) -> Result<Self> {
        if let Some(class) = hooks.write.keys().find(|class| self.schema.class(class).is_err()) {
            let what = format!("on_write of class {class}: the schema has no such class");
            return Err(Error::new(Code::BadOption, what));
        }
        self.hooks = hooks;
        Ok(self)
    }
}
