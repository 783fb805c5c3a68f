//! Hostile bytes: the decoders that they reach, the bound of the decoders' cost, and a session whose server lies.

pub mod cost;
pub mod doors;
pub mod session;
