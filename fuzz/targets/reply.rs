//! A server's answer.

#![no_main]

escale_fuzz::target!(reply);
