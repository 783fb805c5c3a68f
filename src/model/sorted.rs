//! Maps and sets in ascending order of their keys. They do the work of the standard B-trees with a seventh of
//! the code for each type.
//!
//! An entry stays in its slot. A sequence has the slots in the order of the keys, in lists of at most 256, one list
//! after the other. A search is binary, first over the lists, then in one list. An insertion or a removal moves the
//! slots of one list. All keys differ.

mod map;
mod sequence;
mod set;
#[cfg(test)]
mod tests;

pub use map::SortedMap;
pub use set::SortedSet;
