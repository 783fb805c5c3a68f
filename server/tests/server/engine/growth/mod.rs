//! The bytes that requests leave in the database: ten times their own and 64 KiB at most, for every caller.

mod cases;
mod random;
mod refusals;
mod stored;
