//! The outbox: pending operations, their overlay over the documents, their way to the server, conflicts, and
//! their records in the journal.

mod application;
mod conflicts;
mod dependencies;
mod due;
mod files;
mod history;
mod journal;
mod local;
mod optimistic;
mod outcomes;
mod parts;
mod refused;
mod request_limits;
mod retained;
mod seen;
mod send;
mod table;
mod trees;
mod validate;

pub use application::{Application, NoApplication, Reader};
pub use files::{ask_for_files, files, settle_files};
pub use journal::restored;
pub use local::{local_changes, places_left, undo_parts};
pub use optimistic::show_again;
pub use parts::Outbox;
pub use refused::amend;
pub use seen::{await_no_more, effects_seen};
pub use table::{connect, unpin};
pub use validate::{check_amendment, check_write};
