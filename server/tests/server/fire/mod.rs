//! The server under attack: orgs, networks, tokens, floods.

mod fire_floods;
mod fire_locks;
mod fire_network;
pub mod fire_orgs;
mod fire_rights;
mod fire_tokens;
