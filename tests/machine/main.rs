//! The sync machine against a clock that the test moves: delays, the socket, pulls, tokens, ends of life, the device.

mod bench;

mod backoff;
mod device;
mod epochs;
mod life;
mod pulls;
mod socket;
mod token;
