//! A sealed record.

#![no_main]

escale_fuzz::target!(sealed);
