//! Sealed databases that somebody alters who can write into them, and lacks the site key.

mod altered;
mod answers;
mod earlier;
mod thief;
