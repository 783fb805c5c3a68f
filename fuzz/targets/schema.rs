//! A schema.

#![no_main]

escale_fuzz::target!(schema);
