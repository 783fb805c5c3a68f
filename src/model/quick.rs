//! Maps and sets with a short hash. The standard hash resists an attacker who chooses the keys. It costs a
//! few hundred instructions for each key, which a session pays several times for each document when it opens.
//! Here keys are mostly hashes already, and a malicious server has simpler ways to do harm.

use std::collections::{HashMap, HashSet};

/// The short hash.
pub type QuickHasher = foldhash::fast::RandomState;

/// A map with a short hash.
pub type QuickMap<K, V> = HashMap<K, V, QuickHasher>;

/// A set with a short hash.
pub type QuickSet<K> = HashSet<K, QuickHasher>;
