//! A message from a session on the socket.

#![no_main]

escale_fuzz::target!(live);
