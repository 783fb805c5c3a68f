//! The schema of an application: one JSON object, the same for the application, the server's schema file and
//! these types (docs/rules.md).
//!
//! ```
//! use escale::model::schema::Schema;
//! let schema = Schema::from_json(r#"{
//!     "Article": {
//!         "key": ["id"],
//!         "collections": { "auteurs": { "key": ["auteurs"], "list": true, "mutable": true } },
//!         "indexes": { "taille": "integer" }
//!     }
//! }"#)?;
//! assert_eq!(schema.class("Article")?.key()[0].as_str(), "id");
//! # Ok::<(), escale::Error>(())
//! ```

mod class;
mod columns;
mod compare;
mod files;
mod items;
mod matching;

pub use class::{Class, Collection, FOR_SERVER, Index, IndexType, PROPERTY_TYPES, Property};
pub use columns::{ColumnValue, Columns};
pub use files::{FileRef, is_sha};
pub(crate) use items::connect;

use crate::error::{Code, Error, Result, fail};
use crate::model::{Def, DefKind, Name};

/// The classes of an application. Immutable once parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    classes: Vec<Class>,
    /// The names of the local classes that a server has left out.
    left_out: Vec<Name>,
}

impl Schema {
    /// The classes, by name in ascending order.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The class of that name.
    pub fn class(&self, name: &str) -> Result<&Class> {
        self.classes.iter().find(|class| class.name().as_str() == name).ok_or_else(|| {
            Error::new(
                Code::UnknownClass,
                format!("the schema has no class of {} letters by that name", name.len()),
            )
        })
    }

    /// Rejects a def that has no meaning in this schema: unknown class or collection, or a class without
    /// sync, or all items of all parents. Of a class with the clock `sequence`, only a parent and the items of a parent
    /// have a meaning: their versions cannot be compared with those of another tree (R20).
    pub fn check_def(&self, def: &Def) -> Result<&Class> {
        let unknown = || Error::new(Code::UnknownDef, "the schema has no such class");
        let class = self
            .class(def.class().as_str())
            .map_err(|error| if self.left_out.contains(def.class()) { error } else { unknown() })?;
        if !class.is_sync() {
            return fail(Code::UnknownDef, format!("class {} is not synchronised", class.name()));
        }
        let is_item = class.parent.is_some();
        let one_tree =
            |class: &Class| format!("class {}: subscribe to one parent, or to its items", class.name());
        match def.kind() {
            DefKind::Collection(name, _) => drop(class.collection(name)?),
            DefKind::Class if is_item || class.sequence => return fail(Code::UnknownDef, one_tree(class)),
            DefKind::Document(_) if is_item && class.sequence => {
                return fail(Code::UnknownDef, one_tree(class));
            }
            _ => {}
        }
        Ok(class)
    }

    /// Rejects this schema if it contradicts `older`, the one under which the store was written. A class and a
    /// collection must keep their keys. A class may have a lower release: the application was rolled back.
    pub fn check_follows(&self, older: &Schema) -> Result<()> {
        compare::check_follows(self, older)
    }

    /// The same for a server: it also rejects this schema if a class has a lower release than in `older`.
    pub fn check_releases(&self, older: &Schema) -> Result<()> {
        compare::check_releases(self, older)
    }

    /// Whether this schema knows every class, collection and index of the other one, and more. Its session then
    /// understands all that a session with the other one writes.
    pub fn is_ahead_of(&self, other: &Schema) -> bool {
        compare::is_ahead(self, other)
    }

    /// A schema of classes that were checked. `src/codec/schema.rs` reads them.
    pub(crate) fn new(classes: Vec<Class>) -> Self {
        Schema { classes, left_out: Vec::new() }
    }

    /// The schema as a server has it: without the local classes, which only devices have (R29).
    #[must_use]
    pub fn of_server(mut self) -> Self {
        let (local, classes) = self.classes.into_iter().partition(|class| class.local);
        self.classes = classes;
        self.left_out.extend(Vec::into_iter(local).map(|class: Class| class.name));
        self
    }

    /// The position of a class, which never changes in this schema.
    pub(crate) fn position(&self, name: &Name) -> Option<usize> {
        self.classes.iter().position(|class| class.name() == name)
    }
}
