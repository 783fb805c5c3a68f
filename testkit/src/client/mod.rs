//! A client: the driver of the machine for tests. `session` owns the machine and carries out its effects, `call`
//! translates them, and `opening` opens the machine. A driver that delivers answers late uses `call` alone.

mod call;
mod opening;
mod session;

pub use call::{Call, Duty};
pub use opening::{Opened, Opening, config};
pub use session::{Client, Fate, Hooks, Quiet};
