//! Maps and sets in ascending order of their keys. They do the work of the standard B-trees with a seventh of
//! the code for each type.
//!
//! Entries are in lists of at most 128, one list after the other. A search is binary, first over the lists,
//! then in one list. An insertion or a removal moves the entries of one list. All keys differ. No list is
//! empty.

mod map;
mod set;
#[cfg(test)]
mod tests;

pub use map::SortedMap;
pub use set::SortedSet;
