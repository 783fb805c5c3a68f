//! A deterministic world for the tests of the rules: a model of the server, client machines, and a seeded
//! scheduler. The scheduler loses, repeats, delays and reorders messages between them, and makes any of them
//! crash.

pub mod asleep;
pub mod backend;
pub mod history;
pub mod outcome;
pub mod plan;
pub mod play;
pub mod schema;
pub mod seeds;
pub mod server;
pub mod world;

pub use history::{property, replay};
pub use plan::{Action, Plan};

/// The world around the model of a server.
pub type World = world::World<server::ModelServer>;
