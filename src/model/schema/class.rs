//! A class of the schema: its key, its collections and its indexes.

use crate::error::{Code, Error, Result};
use crate::model::{Name, Pk, Value};

/// The types that `properties` may declare for a property (R23, R98).
pub const PROPERTY_TYPES: [&str; 11] = [
    "string",
    "integer",
    "number",
    "boolean",
    "bytes",
    "string[]",
    "number[]",
    "boolean[]",
    "any",
    "file",
    "file[]",
];

/// The words of a class that a server reads. The core ignores them, and the schema keeps them. Those of values also
/// `escale/values` reads, and a local class may have them (R98).
pub const FOR_SERVER: [&str; 5] = ["rights", "quota", "exempt", "required", "additionalProperties"];

/// A class of documents.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Class {
    pub(crate) name: Name,
    pub(crate) key: Vec<Name>,
    pub(crate) sync: bool,
    pub(crate) release: u64,
    pub(crate) collections: Vec<Collection>,
    pub(crate) indexes: Vec<Index>,
    /// For a class of items, the class of its parents. Its only collection is then [`Class::items`].
    pub(crate) parent: Option<Name>,
    /// Whether its documents are the parents of trees: another class is `in` this one, or its clock is `sequence`.
    pub(crate) has_items: bool,
    /// Whether its clock is `sequence` (R20). A class of items has the clock of its parent.
    pub(crate) sequence: bool,
    /// Whether a document is its key and the bytes of `raw` alone.
    pub(crate) raw: bool,
    /// Whether only this device has its documents (R29).
    pub(crate) local: bool,
    /// Declared properties. The core reads those with files.
    pub(crate) properties: Vec<(Name, Property)>,
    /// The values of the words of [`FOR_SERVER`].
    pub(crate) for_server: [Option<Value>; FOR_SERVER.len()],
}

/// A property as the schema declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// One of [`PROPERTY_TYPES`].
    pub kind: String,
    /// The long form: the words that limit its values, `type` among them (R98). The core keeps them, and reads none.
    pub words: Option<Value>,
}

/// A way to subscribe to a class's documents: all those whose key has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    pub(crate) name: Name,
    pub(crate) key: Vec<Name>,
    pub(crate) list: bool,
    pub(crate) mutable: bool,
}

/// A property that can be queried.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    pub(crate) name: Name,
    pub(crate) property: Name,
    pub(crate) kind: IndexType,
    pub(crate) global: bool,
    pub(crate) unique: bool,
}

/// The kind of conditions that an index can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexType {
    /// Equality, on the `shaS` of a string.
    Hash,
    /// Equality and order, on a string.
    String,
    /// Equality and order, on an integer.
    Int,
    /// Equality and order, on a number.
    Float,
    /// Whether a list of strings contains one.
    List,
    /// Equality, on a boolean; `false` comes before `true`.
    Bool,
}

impl IndexType {
    /// Every type.
    pub const ALL: [IndexType; 6] = [
        IndexType::Hash,
        IndexType::String,
        IndexType::Int,
        IndexType::Float,
        IndexType::List,
        IndexType::Bool,
    ];

    /// The name that schemas use.
    pub fn as_str(self) -> &'static str {
        match self {
            IndexType::Hash => "hash",
            IndexType::String => "string",
            IndexType::Int => "integer",
            IndexType::Float => "number",
            IndexType::List => "string[]",
            IndexType::Bool => "boolean",
        }
    }

    /// The type of that name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Class {
    /// The class's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The key properties, in order. Each is a string.
    pub fn key(&self) -> &[Name] {
        &self.key
    }

    /// Whether its documents can be subscribed to. Documents of other classes are deleted physically.
    pub fn is_sync(&self) -> bool {
        self.sync
    }

    /// The number of the structure of `data`.
    pub fn release(&self) -> u64 {
        self.release
    }

    /// The collections, by name in ascending order.
    pub fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// The indexes, by name in ascending order.
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// The collection of that name.
    pub fn collection(&self, name: &Name) -> Result<&Collection> {
        self.collections.iter().find(|collection| collection.name == *name).ok_or_else(|| {
            Error::new(Code::UnknownDef, format!("class {} has no collection {name}", self.name))
        })
    }

    /// The index of that name.
    pub fn index(&self, name: &str) -> Result<&Index> {
        self.indexes
            .iter()
            .find(|index| index.name.as_str() == name)
            .ok_or_else(|| Error::new(Code::UnknownIndex, format!("class {} has no such index", self.name)))
    }

    /// For a class of items, the class of its parents (R16).
    pub fn parent(&self) -> Option<&Name> {
        self.parent.as_ref()
    }

    /// For a class of items, the collection of the items of one parent. Its hash is the parent's pk.
    pub fn items(&self) -> Option<&Collection> {
        self.parent.as_ref().and(self.collections.first())
    }

    /// Whether its documents are the parents of trees: another class is `in` this one, or may be, because its clock
    /// is `sequence`.
    pub fn has_items(&self) -> bool {
        self.has_items
    }

    /// Whether the versions of its documents are the numbers of their trees, and no times (R20).
    pub fn is_sequence(&self) -> bool {
        self.sequence
    }

    /// Whether a document holds its key and the bytes of `raw` alone.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// Whether only this device has its documents (R29).
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// For an item with this key, the key of its parent.
    pub fn parent_key<'k, 'p>(&self, parts: &'k [&'p str]) -> Option<&'k [&'p str]> {
        parts.get(..self.items()?.key.len())
    }

    /// The value of a word of [`FOR_SERVER`], as the schema has it.
    pub fn for_server(&self, word: &str) -> Option<&Value> {
        let at = FOR_SERVER.iter().position(|name| *name == word)?;
        self.for_server[at].as_ref()
    }

    /// The declared properties, by name in ascending order.
    pub fn properties(&self) -> &[(Name, Property)] {
        &self.properties
    }

    /// The pk of the document with these key properties, in order; knows the exceptions `Org` and `Hdr`.
    pub fn pk_of(&self, parts: &[&str]) -> Result<Pk> {
        if parts.len() != self.key.len() {
            let key: Vec<&str> = self.key.iter().map(Name::as_str).collect();
            let detail =
                format!("the key of class {} is [{}]: {} given", self.name, key.join(", "), parts.len());
            return Err(Error::new(Code::BadKey, detail));
        }
        match (self.name.as_str(), parts) {
            ("Hdr", _) => Pk::parse("1"),
            ("Org", [code]) => Pk::parse(code).map_err(|_| Error::new(Code::BadKey, "not an org's code")),
            _ => Pk::from_key(parts),
        }
    }
}

impl Property {
    /// Whether it holds references to files.
    pub fn has_files(&self) -> bool {
        self.kind.starts_with("file")
    }
}

impl Collection {
    /// The collection's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The properties that make its key, in order.
    pub fn key(&self) -> &[Name] {
        &self.key
    }

    /// Whether the property is a list, with one membership for each element.
    pub fn is_list(&self) -> bool {
        self.list
    }

    /// Whether a document can leave the collection without being deleted.
    pub fn is_mutable(&self) -> bool {
        self.mutable
    }
}

impl Index {
    /// The index's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The indexed property.
    pub fn property(&self) -> &Name {
        &self.property
    }

    /// Its type.
    pub fn kind(&self) -> IndexType {
        self.kind
    }

    /// Whether it can be searched across orgs.
    pub fn is_global(&self) -> bool {
        self.global
    }

    /// Whether no two documents may have the same value.
    pub fn is_unique(&self) -> bool {
        self.unique
    }
}
