//! The engine without its network part: each kind of write and reply.

mod pages;
mod versions;
mod writes;
