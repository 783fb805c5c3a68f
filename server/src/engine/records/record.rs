//! The properties of documents and of records.

use std::collections::BTreeMap;

use escale::model::Value;

use crate::provider::Place;

/// A document's properties, by name.
pub type Properties = BTreeMap<String, Value>;

/// The place of a result, for its seal. No document's place has an empty class.
pub(in crate::engine) fn result_place<'a>(org: &'a str, pk: &'a str) -> Place<'a> {
    Place { org, class: "", pk }
}

/// The pk of that place.
pub(in crate::engine) fn result_pk(account: &str, id: &str) -> String {
    format!("{account}/{id}")
}
