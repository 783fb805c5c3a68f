//! The reports on operations that a tab's application receives.

use std::collections::BTreeMap;

use escale::Code;
use escale::model::Value;

/// A report on an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Saved,
    Refused(Code),
    Ended(Result<(u64, Option<Value>), Code>),
    Amended(String),
}

impl Told {
    pub fn is_end(&self) -> bool {
        matches!(self, Told::Ended(_) | Told::Amended(_))
    }
}

/// The reports of one tab, by operation.
#[derive(Clone, Debug, Default)]
pub struct Reports(BTreeMap<String, Vec<Told>>);

impl Reports {
    pub fn add(&mut self, id: &str, told: Told) {
        self.0.entry(id.to_owned()).or_default().push(told);
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &Told)> {
        self.0.iter().flat_map(|(id, told)| told.iter().map(move |told| (id.as_str(), told)))
    }
}
