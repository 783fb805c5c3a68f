//! Small APIs of the browser, each behind a few functions: clocks, timers, promises, locks, signals, WebCrypto,
//! decimal numbers and the global object.

pub mod bytes;
pub mod cipher;
pub mod clock;
pub mod decimal;
pub(super) mod global;
pub mod kdf;
pub(super) mod locks;
pub(super) mod patience;
pub(super) mod promise;
pub mod signals;
pub mod timers;

pub use global::require_secure_context;
