//! What a server is asked.

#![no_main]

escale_fuzz::target!(request);
