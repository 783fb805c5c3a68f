//! A server's reply.

#![no_main]

escale_fuzz::target!(reply);
