//! The engine without its network part: each kind of write and reply, and histories against a reference.

mod answers;
mod edges;
mod groups;
mod growth;
mod histories;
mod local;
mod pages;
mod reference;
mod stored;
mod trees;
mod versions;
mod work;
mod writes;
