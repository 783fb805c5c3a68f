//! The context of all work: the database of an instance, its schema, its keys and its clock. It knows no part of the
//! engine but the records. Every part is given it, and none is given the engine.

use std::sync::{Arc, Mutex};

use escale::model::schema::Schema;

use crate::clock::Clock;
use crate::engine::instance::heads_seen::HeadsSeen;
use crate::engine::instance::refusals::ReadHooks;
use crate::engine::instance::schedules::KnownSchedules;
use crate::figures::Figures;
use crate::files::Files;
use crate::mark::Mark;
use crate::provider::Provider;
use crate::rights::Rights;
use crate::seal::Seal;
use crate::settings::Settings;
use crate::values::Values;

/// One instance of the server, without its operations.
pub struct Instance {
    pub(in crate::engine) provider: Box<dyn Provider>,
    /// The store of objects; without one there are no files.
    pub(in crate::engine) files: Option<Box<dyn Files>>,
    pub(in crate::engine) mark: Mark,
    pub(in crate::engine) schema: Schema,
    pub(in crate::engine) rights: Rights,
    /// The values that documents may have (R98).
    pub(in crate::engine) values: Values,
    pub(in crate::engine) read_hooks: ReadHooks,
    /// The number of this schema in the database (R38).
    pub(in crate::engine) generation: u64,
    pub(in crate::engine) settings: Settings,
    pub(in crate::engine) seal: Seal,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    /// The schedules that were read last (R89).
    pub(in crate::engine) known_schedules: KnownSchedules,
    /// How far the heads had come that were read last.
    pub(in crate::engine) reached: HeadsSeen,
    /// The instance's figures.
    pub(crate) figures: Figures,
    pub(in crate::engine) committed: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Instance {
    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The numeric settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time by its clock.
    pub fn clock_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The database.
    pub fn provider(&self) -> &dyn Provider {
        self.provider.as_ref()
    }

    /// Whether stored data is sealed.
    pub fn is_sealing(&self) -> bool {
        self.seal.is_sealing()
    }

    /// Calls `notify` after each commit of this instance. It replaces an earlier `notify`.
    pub fn on_commit(&self, notify: impl Fn() + Send + Sync + 'static) {
        *self.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Box::new(notify));
    }

    /// Tells this instance's listener that documents have changed.
    pub(in crate::engine) fn after_commit(&self) {
        let notify = self.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(notify) = notify.as_ref() {
            notify();
        }
    }
}
