//! Compares a schema with the one under which a store was written: whether it is compatible, and whether it knows more.

use super::{Class, Collection, Schema};
use crate::error::{Code, Result, fail};

/// Whether a schema knows all that the other one knows, and more. Of two schemas, this is true of one at most: sessions
/// that compare themselves do not take turns for ever.
pub(super) fn is_ahead(of: &Schema, other: &Schema) -> bool {
    knows(of, other) && !knows(other, of)
}

fn knows(schema: &Schema, other: &Schema) -> bool {
    let has = |class: &Class, was: &Class| {
        let has_collection = |was: &Collection| class.collection(was.name()).is_ok();
        class.release() >= was.release()
            && was.collections().iter().all(has_collection)
            && was.indexes().iter().all(|index| class.indexes().contains(index))
    };
    other.classes().iter().all(|was| schema.class(was.name().as_str()).is_ok_and(|class| has(class, was)))
}

/// The application of an earlier release follows as well: it gets documents of later releases unchanged.
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

/// The same, and no class has a lower release than before.
pub(super) fn check_releases(newer: &Schema, older: &Schema) -> Result<()> {
    check_follows(newer, older)?;
    for was in older.classes() {
        let Ok(class) = newer.class(was.name().as_str()) else { continue };
        if class.release() < was.release() {
            let detail = format!(
                "class {}: release {} in the store, {} given",
                was.name(),
                was.release(),
                class.release()
            );
            return fail(Code::SchemaMismatch, detail);
        }
    }
    Ok(())
}
