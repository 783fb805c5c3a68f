//! Files: their bytes, their tables, their steps, and their endpoints.

mod stores;
