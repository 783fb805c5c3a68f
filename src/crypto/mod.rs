//! Keys, sealing and the header that wraps K (docs/security.md). Nothing else in the crate touches a cipher, but for the
//! browser's, which opens what is sealed here (`src/web/cipher.rs`).
//!
//! There is no plaintext mode. A store takes bytes, and cannot tell; but only `src/storage` fills batches, with what
//! [`StoreKeys::seal`] gave, and `tests/tidy` fails where anything else does.

mod header;
mod keys;
mod random;
mod seal;

pub use header::{Header, WrapKind};
pub use keys::{AccountKey, DerivedKey, StoreKeys, kdf_salt, store_name};
pub use random::{Random, SeededRandom, SystemRandom};
pub use seal::{NONCE_BYTES, SealId, Sealed, place};
