//! The plain bytes of a journal record.

#![no_main]

escale_fuzz::target!(journal);
