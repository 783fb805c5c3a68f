//! Conflicts: expected versions and their owners, each policy, and chains of pending writes (R92).

mod asked;
mod chains;
mod conditions;
mod policies;
mod random_chains;
