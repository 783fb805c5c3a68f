//! The part that executes operations: an instance, the application's functions, and the state of their order.

use std::ops::Deref;

use crate::engine::instance::context::Instance;
use crate::engine::operations::order::attempts::Tries;
use crate::engine::operations::order::pace::Pace;
use crate::engine::operations::registry::Operations;
use crate::engine::tx::hooks::Hooks;

/// Executes operations on an instance.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Operator<'e> {
    pub(in crate::engine) instance: &'e Instance,
    pub(in crate::engine) hooks: &'e Hooks,
    pub(in crate::engine) operations: &'e Operations,
    pub(in crate::engine) tries: &'e Tries,
    pub(in crate::engine) pace: &'e Pace,
}

impl Deref for Operator<'_> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        self.instance
    }
}
