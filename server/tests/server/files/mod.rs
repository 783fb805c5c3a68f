//! Files: their bytes, their tables, their steps, and their endpoints.

mod between;
mod history;
mod references;
mod stores;
