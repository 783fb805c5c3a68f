//! The suite that every provider must pass.
