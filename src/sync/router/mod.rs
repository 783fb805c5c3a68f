//! The router: it hands each event to the parts of the machine, and the facts that one part returns to the next.

mod dispatch;
mod due;
mod follow;
mod forward;
mod inbox;
mod journal_reads;
mod link;
mod received;
mod replies;
mod storing;
mod tabs;

pub use dispatch::Router;
