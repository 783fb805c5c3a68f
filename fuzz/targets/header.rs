//! A store's header.

#![no_main]

escale_fuzz::target!(header);
