//! A document's data.

#![no_main]

escale_fuzz::target!(row);
