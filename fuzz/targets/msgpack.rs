//! A value in msgpack.

#![no_main]

escale_fuzz::target!(msgpack);
