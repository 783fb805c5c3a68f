//! Keys, sealing and the header that wraps K (docs/security.md). Nothing else in the crate touches a cipher,
//! except the browser's, which opens records that were sealed here (`src/web/platform/cipher.rs`).
//!
//! There is no plaintext mode. A batch takes [`Sealed`] records only, and [`StoreKeys::seal`] makes them. The
//! exceptions are the header, which is in clear, and copies that a device reads back from its backup.

mod header;
mod keys;
mod random;
mod seal;

pub use header::{Header, WrapKind};
pub use keys::{AccountKey, DerivedKey, StoreKeys, kdf_salt, store_name};
pub use random::{Random, SeededRandom, SystemRandom, drawn};
pub use seal::{NONCE_BYTES, SealId, Sealed, place};
