//! A value in JSON.

#![no_main]

escale_fuzz::target!(json);
