//! A frame from a server on the socket.

#![no_main]

escale_fuzz::target!(frame);
