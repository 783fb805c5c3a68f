//! Several sessions over one store, with leaders that end, freeze and thaw at any time, and writes from all
//! of them.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic, clippy::print_stdout)] // a test may need many lines

mod copy;
mod deposed;
mod ends;
mod histories;
mod inbox;
mod leads_again;
mod regressions;
mod releases;
mod reloads;
mod roles;
mod stalled;
mod subscriptions;
mod tab;
mod told;
mod unfenced;
mod world;
