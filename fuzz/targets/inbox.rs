//! The plain bytes of a request of the inbox.

#![no_main]

escale_fuzz::target!(inbox);
