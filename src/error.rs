//! The one public error: a stable code, its kind, whether a retry can help, the cause and the cure.
//!
//! Every code is in one table, so that Rust, TypeScript, the wire and the documents cannot drift apart
//! (`tests/error_codes.rs` checks `js/src/base/error-codes.ts` against [`Code::ALL`]). A message never holds a
//! value of the application, a key or a token.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The nature of a failure, and whose fault it is: the kinds of the protocol's faults (docs/protocol.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Functional: the arguments do not suit the state of the data.
    A,
    /// Not found.
    N,
    /// A bug, detected.
    B,
    /// Unexpected: hardware, network, storage.
    X,
    /// The client is older than the server, or than the store on its device.
    D,
    /// Contention on the data.
    C,
    /// The service is closed for a while.
    O,
    /// Not authorised.
    S,
}

impl Kind {
    /// Whether the same request can succeed later, unchanged.
    pub fn is_retryable(self) -> bool {
        matches!(self, Kind::C | Kind::O | Kind::X)
    }
}

/// The cure of a code. `page`: JavaScript raises the code too and has its cure, so that the wasm needs none.
macro_rules! cure {
    (page $cure:literal) => {
        if crate::IS_WASM { "" } else { $cure }
    };
    ($cure:literal) => {
        $cure
    };
}

macro_rules! codes {
    ($( $(#[$doc:meta])* $variant:ident $text:literal $kind:ident $($page:ident)? $cure:literal; )*) => {
        /// A stable name for each way to fail. The application compares these, never messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $( $(#[$doc])* $variant, )* }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Code] = &[ $( Code::$variant, )* ];

            /// The name that TypeScript and the wire use.
            pub fn as_str(self) -> &'static str {
                match self { $( Code::$variant => $text, )* }
            }

            /// The kind.
            pub fn kind(self) -> Kind {
                match self { $( Code::$variant => Kind::$kind, )* }
            }

            /// The step that the developer can take. `escale/advice` has a sentence for the person in front of the page.
            /// In the wasm it is empty for the codes whose cure JavaScript has.
            pub fn cure(self) -> &'static str {
                match self { $( Code::$variant => cure!($($page)? $cure), )* }
            }

            /// The code of that name, if there is one.
            pub fn parse(name: &str) -> Option<Code> {
                match name { $( $text => Some(Code::$variant), )* _ => None }
            }
        }
    };
}

codes! {
    // Input of the application.
    /// An option of `open` is missing or cannot be used.
    BadOption "bad_option" A page "Correct the option that the message names.";
    /// The schema cannot be used. `defineSchema` checks keys and migrations, and `open` the rest.
    BadSchema "bad_schema" A page "Correct the schema at the place that the message names.";
    /// A value of a document is of no supported type, too deep or too large, or breaks a rule of its class.
    BadValue "bad_value" A page "Use strings, finite numbers, booleans, null, bytes, lists and maps, by the rules of the class.";
    /// A key property is missing, empty of type, or holds a forbidden `/`.
    BadKey "bad_key" A page "Give each key property as a string; only the last one may hold a slash.";
    /// A class that the schema does not declare.
    UnknownClass "unknown_class" N page "Declare the class here and on the server, or correct its name.";
    /// A def that names nothing in the schema, or cannot be subscribed to.
    UnknownDef "unknown_def" N "Declare it here and on the server, or correct the match.";
    /// A query on a property that has no index.
    UnknownIndex "unknown_index" N page "Declare the index in the schema, or correct its name.";
    /// More subscriptions than the server's socket takes.
    TooManySubscriptions "too_many_subscriptions" A page "Unsubscribe from some, or subscribe to a larger collection.";
    /// An operation that the server does not know.
    UnknownOperation "unknown_operation" A "Register the operation on the server, or correct its name.";
    /// A put whose key properties differ from the stored document's.
    KeyMismatch "key_mismatch" A "Keep the key properties, or write a new document.";
    /// A write changes a property of a collection that is not mutable.
    ImmutableKey "immutable_key" A "Declare the collection `mutable`, or keep the property.";
    /// A write on a document that does not exist, or no longer.
    NotFound "not_found" N "Use put to create the document; an item needs its parent first.";
    /// The stored document is of another version than the write expected.
    VersionConflict "version_conflict" A "Read the current document and write again.";
    /// Two documents would hold the same value of a unique index.
    NotUnique "not_unique" A "Choose another value.";
    /// A write makes a counter grow above its limit (R88), or there is no room for a file.
    QuotaExceeded "quota_exceeded" A "Delete documents or files, or ask the org's administrator for more room.";
    /// A write would leave a document with a reference to a file that the server lacks (R25).
    FileMissing "file_missing" A "Add the file again.";
    /// Bytes of a file that do not match their hash.
    FileDamaged "file_damaged" X "Nothing to do: it is tried again. If it lasts, the server or a proxy alters files.";
    /// Reserved for later; refused by name until then.
    NotSupported "not_supported" A "This version of Escale does not do that yet; see the CHANGELOG.";

    // Messages of the wire.
    /// Bytes that are not a message of the protocol.
    Malformed "malformed" B "Check that the address is an Escale endpoint, and that no proxy answers in its place.";
    /// A reply that contradicts the protocol, or itself.
    BadReply "bad_reply" B "Correct the server: the message names the field, docs/protocol.md the rule.";
    /// The server's own refusal, with a code that this version does not know.
    ServerRefused "server_refused" A "Look into the server's documentation for its code, or show its message.";
    /// A message, document or list over its bound.
    TooLarge "too_large" A "Send less at once; the bounds stand in docs/protocol.md.";
    /// Values nested deeper than the bound.
    TooDeep "too_deep" A page "Flatten the value.";
    /// The other side speaks another version of the protocol.
    WrongProtocol "wrong_protocol" D "Update the application, or the server.";
    /// No network, or the server did not answer.
    Offline "offline" X "Nothing to do: the session tries again by itself.";
    /// The server did not answer in time.
    Timeout "timeout" X "Nothing to do: the session tries again by itself.";
    /// The token is missing, unknown or expired.
    Unauthorized "unauthorized" S page "Give a valid token: pass `token` as a function that fetches a new one.";
    /// The token does not give access to this.
    Forbidden "forbidden" S "Ask the server's administrator for the right.";
    /// The account's right to a def has ended, and its documents leave the device (R22).
    Withdrawn "withdrawn" S "Nothing to do: it leaves the device. Subscribe again once the right is back.";
    /// A restriction of the account or of its org does not let this pass (R89).
    Blocked "blocked" S "Wait until an administrator of the org ends the restriction, then call session.retryBlocked().";
    /// The server does not know the org.
    UnknownOrg "unknown_org" N "Correct the org's code, or create it on the server.";
    /// Too many requests.
    TooMany "too_many" O "Nothing to do: the session waits as long as the server asked.";
    /// The service is closed for a while.
    Unavailable "unavailable" O "Nothing to do: the session waits as long as the server asked.";
    /// The server failed.
    ServerError "server_error" X "Look into the server's log; the session tries again by itself.";
    /// The data is contended; the transaction was aborted.
    Contention "contention" C "Nothing to do: it is tried again.";
    /// Operations arrived with a gap in their order.
    OrderGap "order_gap" C "Nothing to do: the session sends them again in order.";
    /// An operation that this one depends on was refused, or is not known.
    OrderHeld "order_held" C "Nothing to do: it goes on once the refused operation is amended or discarded.";
    /// A known `seq` with another id: the session's store was rolled back.
    SessionReused "session_reused" A "Nothing to do: the session takes a new name.";
    /// A cursor of another reply, or of an earlier epoch of the server's database.
    BadCursor "bad_cursor" N "Nothing to do: the session asks for the whole def again, without the cursor.";
    /// The result of an old operation is no longer kept.
    Forgotten "forgotten" N page "It was executed; its result is too old to be given.";

    // Accounts (docs/guides/accounts.md).
    /// The login of a new account is not in the form of PRECIS (RFC 8265).
    BadLogin "bad_login" A "Pass accounts.loginOf(typed), or ask for another login.";
    /// The login, or the account's key, belongs to another account of the org (R72).
    LoginTaken "login_taken" A "Choose another login, or sign in.";
    /// No open invitation has this id.
    InvitationUnknown "invitation_unknown" N "Ask for another invitation.";
    /// The server takes new accounts by invitation only, or none.
    InvitationNeeded "invitation_needed" S "Ask the org's administrator for an invitation.";
    /// No administrator of the org would be left.
    LastAdmin "last_admin" A "Make another account an administrator first.";
    /// The account was closed, or may not enter for now (R89).
    AccountClosed "account_closed" S "Open in `avion` to read this device's data.";
    /// The device was signed out from another one (R77).
    DeviceRevoked "device_revoked" S "Open again, as a new device.";
    /// The account has another passphrase now (R76).
    PassphraseChanged "passphrase_changed" S "Call session.unlock(passphrase) with the new passphrase.";
    /// The store on this device belongs to another account of the same login (R75).
    AccountMismatch "account_mismatch" A "Call wipe and accounts.forget to make room.";

    // The store on the device.
    /// The passphrase, or the key, does not open the store.
    WrongPassphrase "wrong_passphrase" S "Ask for the passphrase again; if it is forgotten, wipe({ org, account }) makes room.";
    /// The store's header is damaged: K cannot be read from it.
    StoreDamaged "store_damaged" X "Call wipe({ org, account }), which needs no session, then open in `synced` to load everything again.";
    /// The device has no store for this org and account.
    NoStore "no_store" N "Open once in `synced` with the network up.";
    /// The store is being deleted. Or it is to be deleted or upgraded while another tab has it open.
    StoreInUse "store_in_use" C "Close the other tab, then open again.";
    /// Another tab leads the store now.
    Deposed "deposed" C "Nothing to do: this session follows the one that leads.";
    /// The store was written by a newer version of Escale.
    StoreTooNew "store_too_new" D "Reload the page to get the newer version of the application.";
    /// The schema contradicts the store on the device.
    SchemaMismatch "schema_mismatch" D "Give the class another name. On a device, open the store with the release that wrote it: wipe({ org, account }) deletes its pending writes.";
    /// The page is not a secure context, so nothing can be encrypted.
    InsecureContext "insecure_context" S "Serve the page over https or from localhost, or open in `incognito`.";
    /// The device has no room left.
    StorageFull "storage_full" X "Free space on the device, or unsubscribe from some collections.";
    /// The device's storage failed.
    StorageFailed "storage_failed" X "Reload the page; if it lasts, the browser's storage is out of order.";
    /// The browser closed the database under the session, or it cannot be reached.
    StorageClosed "storage_closed" X "In an open session nothing: it works in memory and tries again. If opening in `avion` fails for good, clear this site's data in the browser's settings, then open in `synced`.";
    /// A record of the store was altered. It is set aside and requested again.
    RecordDamaged "record_damaged" X "Nothing to do: it is fetched again from the server.";

    // The session itself.
    /// Records that only this device held are gone: operations may be lost.
    LocalDataLost "local_data_lost" X "Tell the user how many of their writes may be lost; the data of the server is intact.";
    /// The device holds writes or drafts that are nowhere else.
    NotSaved "not_saved" A page "Let the writes arrive, or call wipe({ drafts: 'delete' }).";
    /// The session is closed.
    Closed "closed" A page "Open a new session.";
    /// A collection that was never loaded, while no server can be asked.
    NotLoaded "not_loaded" X page "Load it once in `synced`, with the network up.";
    /// A subscription that the rules of the session's scope do not give (R22).
    OutOfScope "out_of_scope" N page "Let a rule of `scope` lead to it, or leave it out of the page.";
    /// WebAssembly cannot run in this page.
    WasmForbidden "wasm_forbidden" S page "Add 'wasm-unsafe-eval' to script-src in the page's Content-Security-Policy.";
    /// The wasm could not be loaded.
    WasmFailed "wasm_failed" X page "Serve the .wasm file, pass its URL to init(), or write `import 'escale/inline'`.";
    /// The browser could not keep the application's own files: `escale/offline`.
    WorkerFailed "worker_failed" X page "Serve the worker and its files as they were built; the message names the wrong one.";
    /// The wasm stopped on a bug.
    Panicked "panicked" B page "Open the session again, and report the message.";
    /// A condition that cannot occur did occur.
    Internal "internal" B page "Report the message: this is a bug of Escale.";
}

impl Code {
    /// Whether the same call can succeed later, unchanged.
    pub fn is_retryable(self) -> bool {
        self.kind().is_retryable()
    }
}

/// Why a call failed. For developers; a message never holds application data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    detail: String,
    /// The server's own code and its kind, in place of the table's.
    own: Option<Box<(String, Kind)>>,
}

/// The result of a fallible call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with that code; `detail` says which problem was found, and where.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Error { code, detail: detail.into(), own: None }
    }

    /// The same error under the server's own code, which the application knows and this version does not.
    pub(crate) fn named(mut self, code: &str, kind: Kind) -> Self {
        self.own = Some(Box::new((code.to_owned(), kind)));
        self
    }

    /// The code as the application sees it: the server's own, or the table's.
    pub fn name(&self) -> &str {
        self.own.as_ref().map_or(self.code.as_str(), |own| &own.0)
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.own.as_ref().map_or(self.code.kind(), |own| own.1)
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The problem that was found, and where.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The same error for a field within another one. The detail begins with the path: `rows[17].v: ...`.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.detail = format!("{outer}.{}", self.detail);
        self
    }

    /// The same error, with the place where it happened in front of its detail.
    pub fn at(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.detail)
    }
}

impl std::error::Error for Error {}

/// Shorthand for `Err(Error::new(code, detail))`.
pub(crate) fn fail<T>(code: Code, detail: impl Into<String>) -> Result<T> {
    Err(Error::new(code, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_from_its_name() {
        for &code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(code));
            assert!(!code.cure().is_empty());
        }
    }
}
