//! Operations: their files, their optimistic parts, and those in doubt.

mod doubt;
mod files;
mod optimistic;
