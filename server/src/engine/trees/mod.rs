//! Trees of a parent and its items, in writes and replies.

mod numbers;
mod tree;

pub(super) use numbers::{given_in, numbered_tree, tree_of_key};
pub(super) use tree::{Held, floor_above, item_classes, items_of, parent_of, tree_of};
pub use tree::{items_told_by, single_items};
