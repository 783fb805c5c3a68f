//! What a server says on the socket.

#![no_main]

escale_fuzz::target!(frame);
