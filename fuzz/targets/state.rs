//! The plain bytes of a state record.

#![no_main]

escale_fuzz::target!(state);
