//! R92: chains of pending writes of one document.

mod histories;
mod random;
