//! The values of documents as a schema declares them (R98): words of JSON Schema, and the pure check.
//!
//! `js/src/values.ts` has the same words for the application. `null` counts as absent, as it does for indexes.

mod check;
mod parse;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use escale::model::Value;
use escale::model::schema::Schema;
use escale::{Code, Error, Result};

/// Values in one `enum`.
const ENUM_MAX: usize = 256;

/// The rules of all classes of a schema.
#[derive(Clone, Debug, Default)]
pub struct Values {
    classes: BTreeMap<String, ClassValues>,
}

/// The rules of a class.
#[derive(Clone, Debug, Default, PartialEq)]
struct ClassValues {
    properties: BTreeMap<String, Rule>,
    required: BTreeSet<String>,
    /// The only properties that a document may have; none if it may have any.
    known: Option<BTreeSet<String>>,
}

/// The rule of one property, or of the elements of one.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// The declared type: one of `PROPERTY_TYPES`.
    kind: String,
    one_of: Option<Vec<Value>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    max_items: Option<u64>,
    /// The rule of the elements of a list.
    items: Option<Box<Rule>>,
}

impl Values {
    /// The rules that a schema declares. Errors: `bad_schema`.
    pub fn of(schema: &Schema) -> Result<Self> {
        let mut values = Values::default();
        // The server writes the documents of a built-in class itself.
        for class in schema.classes().iter().filter(|class| !class.name().as_str().starts_with("Escale")) {
            let name = class.name().to_string();
            let declared = ClassValues::of(class)
                .map_err(|what| Error::new(Code::BadSchema, format!("class {name}: {what}")))?;
            if declared != ClassValues::default() {
                values.classes.insert(name, declared);
            }
        }
        Ok(values)
    }

    /// Refuses a living document that breaks a rule of its class. Errors: `bad_value`, with the place and the word.
    pub fn check(&self, class: &str, data: &BTreeMap<String, Value>) -> Result<()> {
        let Some(rules) = self.classes.get(class) else { return Ok(()) };
        rules.check(data).map_err(|what| Error::new(Code::BadValue, format!("{class}.{what}")))
    }
}
