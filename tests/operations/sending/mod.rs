//! Sending: long queues, and slow lines.

mod drain;
mod lines;
