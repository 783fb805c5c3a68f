//! The plain bytes of a page.

#![no_main]

escale_fuzz::target!(page);
