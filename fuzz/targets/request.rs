//! A request to a server.

#![no_main]

escale_fuzz::target!(request);
