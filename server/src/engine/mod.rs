//! The decisions of the server, independent of transport and storage: versions, pulls, pages, refusals.

mod begin;
mod built_in;
mod checks;
mod database;
mod execute;
mod files;
mod growth;
mod maintain;
mod now;
mod open;
mod operate;
mod operation;
mod order;
mod pull;
mod rights;
mod shown;
mod trees;
mod write;

pub use begin::Written;
pub use database::adopt_server;
pub use files::{Audit, Filing, Object, Put, Side, sha_of, with_files};
pub use growth::{read_result, whole_row};
pub use maintain::{epoch_in, epoch_of, renew_epoch, renew_epoch_of};
pub use open::{Engine, Opening, first_site, fresh_name};
pub use operation::{Properties, Ran, Tx};
pub use order::TRIES_MAX;
pub(crate) use pull::connections;
pub use pull::{Caller, Follower, Pushed, answer_while, head};
pub use rights::restrictions::{Restriction, Restrictions, Schedule, check_enters};
pub use rights::{
    ACCOUNT_IDS, ACCOUNTS, ROLES, put_account, read_kept, read_kept_or_like, site_secret, write_kept,
};
pub use rights::{
    Access, Ask, Counter, Decision, DocumentChange, Hooks, KeptWrite, NewAccount, Readable, Verdict,
};
pub use trees::{items_told_by, single_items};
pub use write::{Outcome, Writing};
