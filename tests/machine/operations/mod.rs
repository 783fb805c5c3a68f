//! Operations: their files, their optimistic parts, those in doubt, and those on documents that no server has.

mod doubt;
mod files;
mod local;
mod optimistic;
