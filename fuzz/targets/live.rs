//! What a session says on the socket.

#![no_main]

escale_fuzz::target!(live);
