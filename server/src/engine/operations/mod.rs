//! Operations: their registry, their order, and their execution.

pub(in crate::engine) mod administer;
pub(in crate::engine) mod built_in;
pub(in crate::engine) mod context;
pub(in crate::engine) mod execute;
pub(in crate::engine) mod operate;
pub(in crate::engine) mod operator;
pub(in crate::engine) mod order;
pub(in crate::engine) mod quota;
pub(in crate::engine) mod reader;
pub(in crate::engine) mod registry;
pub(in crate::engine) mod result;
