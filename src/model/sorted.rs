//! Maps and sets in ascending order of their keys: what the standard B-trees do, in a seventh of their code for each type.
//!
//! Entries stand in lists of at most 128, one list after the other. A search halves the lists, then the entries of one list; an
//! insertion or a removal moves the entries of one list. Keys are all different. No list is empty.

mod map;
mod set;
#[cfg(test)]
mod tests;

pub use map::SortedMap;
pub use set::SortedSet;
