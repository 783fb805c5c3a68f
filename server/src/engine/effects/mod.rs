//! The effects of a write: on documents, trees, quotas, memberships, files and the document of an account.

pub(in crate::engine) mod accounts;
pub(in crate::engine) mod documents;
pub(in crate::engine) mod file_references;
pub(in crate::engine) mod memberships;
pub(in crate::engine) mod numbers;
pub(in crate::engine) mod quotas;
pub(in crate::engine) mod transact;
pub(in crate::engine) mod trees;
