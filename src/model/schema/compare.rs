//! Checks whether a schema is compatible with the older one under which a store was written.

use super::Schema;
use crate::error::{Code, Result, fail};

pub(super) fn check_follows(newer: &Schema, older: &Schema) -> Result<()> {
    for was in older.classes() {
        // The documents of a removed class are removed at the next opening.
        let Ok(class) = newer.class(was.name().as_str()) else { continue };
        if class.key() != was.key() {
            return fail(Code::SchemaMismatch, format!("class {} has another key in the store", was.name()));
        }
        if class.parent() != was.parent() || class.is_raw() != was.is_raw() {
            let detail = format!("class {} has another `in` or `raw` in the store", was.name());
            return fail(Code::SchemaMismatch, detail);
        }
        if class.is_local() != was.is_local() {
            let detail = format!("class {} has another `local` in the store", was.name());
            return fail(Code::SchemaMismatch, detail);
        }
        if class.is_sequence() != was.is_sequence() {
            return fail(
                Code::SchemaMismatch,
                format!("class {} has another clock in the store", was.name()),
            );
        }
        if class.release() < was.release() {
            let detail = format!(
                "class {}: release {} in the store, {} given",
                was.name(),
                was.release(),
                class.release()
            );
            return fail(Code::SchemaMismatch, detail);
        }
        for was in was.collections() {
            let Ok(collection) = class.collection(was.name()) else { continue };
            if collection.key() != was.key() || collection.is_list() != was.is_list() {
                let detail =
                    format!("collection {}/{} has another key in the store", class.name(), was.name());
                return fail(Code::SchemaMismatch, detail);
            }
        }
    }
    Ok(())
}
