//! The simulated world, which `tests/rules` uses too.

#[path = "../../tests/support/asleep.rs"]
mod asleep;
#[path = "../../tests/support/backend.rs"]
pub mod backend;
#[path = "../../tests/support/outcome.rs"]
pub mod outcome;
#[path = "../../tests/support/plan.rs"]
pub mod plan;
#[path = "../../tests/support/play.rs"]
pub mod play;
#[path = "../../tests/support/schema.rs"]
pub mod schema;
#[path = "../../tests/support/world/mod.rs"]
pub mod world;
