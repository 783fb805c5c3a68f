//! Faulty servers.

mod at_random;
mod mistakes;
