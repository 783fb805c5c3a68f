//! The plain bytes of a mark.

#![no_main]

escale_fuzz::target!(mark);
