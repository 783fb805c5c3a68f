//! Files: uploads, reads and the end of objects (R25).

pub(in crate::engine) mod audit;
pub(in crate::engine) mod collect;
pub(in crate::engine) mod filing;
pub(in crate::engine) mod object;
pub(in crate::engine) mod objects;
pub(in crate::engine) mod upload;
