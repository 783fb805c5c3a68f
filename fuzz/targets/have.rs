//! A question about the objects of files.

#![no_main]

escale_fuzz::target!(have);
