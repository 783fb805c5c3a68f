//! The plain bytes of a high-water mark.

#![no_main]

escale_fuzz::target!(mark);
