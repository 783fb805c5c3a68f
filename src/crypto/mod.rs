//! Keys, sealing and the header that wraps K (docs/security.md). Nothing else in the crate touches a cipher,
//! except the browser's, which opens records that were sealed here (`src/web/platform/cipher.rs`).
//!
//! There is no plaintext mode. A store takes bytes and cannot know whether they are sealed. So only
//! `src/storage` fills batches, with results of [`StoreKeys::seal`], and `tests/tidy` fails if other code
//! does.

mod header;
mod keys;
mod random;
mod seal;

pub use header::{Header, WrapKind};
pub use keys::{AccountKey, DerivedKey, StoreKeys, kdf_salt, store_name};
pub use random::{Random, SeededRandom, SystemRandom, drawn};
pub use seal::{NONCE_BYTES, SealId, Sealed, place};
