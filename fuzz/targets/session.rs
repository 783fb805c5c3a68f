//! A session whose server may send any message.

#![no_main]

escale_fuzz::target!(session);
