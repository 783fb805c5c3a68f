//! A deterministic world for the tests of the rules: a model of the server, client machines, and a seeded scheduler
//! that loses, repeats, delays and reorders what passes between them, and lets any of them crash.

pub mod history;
pub mod plan;
pub mod schema;
pub mod seeds;
pub mod server;
pub mod world;

pub use history::{property, replay};
pub use plan::{Action, Plan};
pub use world::World;
