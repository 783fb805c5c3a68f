//! The code that tests share: those of the core and of the server, the simulator, and the fuzz targets.
//!
//! Its largest part is a deterministic world for the tests of the rules: a model of the server, client
//! machines, and a seeded scheduler. The scheduler loses, repeats, delays and reorders messages between them,
//! and makes any of them crash. `hostile` has the decoders that any bytes may reach.

#![allow(missing_docs, clippy::pedantic)] // a test may need many lines, and its fields are named for it

pub mod asleep;
pub mod backend;
pub mod client;
pub mod files;
#[cfg(feature = "proptest")]
pub mod history;
pub mod hostile;
pub mod outcome;
pub mod plan;
pub mod play;
pub mod rebase;
pub mod schema;
pub mod seeds;
pub mod server;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod world;

#[cfg(feature = "proptest")]
pub use history::{property, replay};
pub use plan::{Action, Plan};

/// The world around the model of a server.
pub type World = world::World<server::ModelServer>;
