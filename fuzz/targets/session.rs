//! A session whose server says whatever comes.

#![no_main]

escale_fuzz::target!(session);
