//! Maps and sets with a short hash. The standard one withstands whoever chooses the keys at the price of a few hundred
//! instructions for each, which a session pays several times for each document when it opens; keys are mostly hashes
//! already, and a server that means harm has shorter ways.

use std::collections::{HashMap, HashSet};

/// The short hash.
pub type QuickHasher = foldhash::fast::RandomState;

/// A map with a short hash.
pub type QuickMap<K, V> = HashMap<K, V, QuickHasher>;

/// A set with a short hash.
pub type QuickSet<K> = HashSet<K, QuickHasher>;
