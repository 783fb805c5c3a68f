//! The bytes that a request leaves in the database: never more than follow from its own.

mod budget;
mod feed;
mod journal;
mod reader;
mod result;
mod sweep;

pub(super) use budget::{Growth, added_rows, allowance, feed_bytes, row_bytes};
pub(super) use feed::feed_row;
pub use feed::whole_row;
pub(super) use journal::{Change, cause_of, change_of};
pub(super) use reader::use_number;
pub use result::read_result;
pub(super) use result::{past_result, result_pk, result_place, stored_form};
pub(super) use sweep::sweep_journal;
