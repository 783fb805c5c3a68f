//! Files: their bytes, their tables, their steps, and their endpoints.

mod between;
mod history;
mod http;
mod outside;
mod references;
mod stores;
