//! Plays seeds of the simulator, and replays the failures that they once found.

#![allow(missing_docs)]

mod files;
mod seeds;
mod server_regressions;
mod session_regressions;
