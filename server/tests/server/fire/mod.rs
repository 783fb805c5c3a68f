//! The server under attack: orgs, networks, tokens, floods, places, guesses, keys, and all attacks together.

mod attackers;
mod fire_attempts;
mod fire_floods;
mod fire_growth;
mod fire_keys;
mod fire_locks;
mod fire_network;
pub mod fire_orgs;
mod fire_places;
mod fire_rights;
mod fire_together;
mod fire_tokens;
