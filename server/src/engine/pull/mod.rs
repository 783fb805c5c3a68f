//! Replies and their pages.

pub(in crate::engine) mod answer;
pub(in crate::engine) mod cursor;
