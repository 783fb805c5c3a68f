//! The outbox: pending operations, their overlay over the documents, their way to the server, conflicts, and
//! their records in the journal.

mod application;
mod conflicts;
mod due;
mod files;
mod history;
mod journal;
mod local;
mod optimistic;
mod parts;
mod places;
mod refused;
mod request_limits;
mod retained;
mod send;
mod table;
mod unshown;
mod validate;

pub use application::{Application, NoApplication, Reader};
pub use files::{ask_for_files, files, settle_files};
pub use journal::restored;
pub use local::undo_parts;
pub use optimistic::show_again;
pub use parts::Outbox;
pub use table::issue::{connect, unpin};
pub use table::seen::{await_no_more, effects_seen};
pub use validate::{check_amendment, check_write};
