//! Defs: the names of everything that an application can subscribe to (docs/rules.md).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use smol_str::SmolStr;

use super::hash::sha_s;
use super::pk::join_key;
use super::{Name, Pk};
use crate::error::{Code, Error, Result, fail};

/// The name of a possible subscription: `Article`, `Article@<pk>` or `Article/auteurs@<shaS of the value>`.
///
/// ```
/// use escale::model::{Def, Name};
/// let def = Def::collection(&Name::new("Article")?, &Name::new("auteurs")?, &["a1/Zola"])?;
/// assert_eq!(def.to_string(), "Article/auteurs@BTziUq_SSySPM1Z0dmeokg");
/// assert_eq!(def.to_string().parse::<Def>()?, def);
/// # Ok::<(), escale::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Def {
    class: Name,
    kind: DefKind,
}

/// The part of a class that a [`Def`] names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefKind {
    /// The whole class.
    Class,
    /// One document.
    Document(Pk),
    /// The documents whose collection key has the value of that hash.
    Collection(Name, SmolStr),
}

impl Def {
    /// The def of the whole class.
    pub fn class_of(class: &Name) -> Self {
        Def { class: class.clone(), kind: DefKind::Class }
    }

    /// The def of one document.
    pub fn document(class: &Name, pk: &Pk) -> Self {
        Def { class: class.clone(), kind: DefKind::Document(pk.clone()) }
    }

    /// The def of the documents of a collection whose key properties have these values.
    pub fn collection(class: &Name, collection: &Name, values: &[&str]) -> Result<Self> {
        Ok(Def::collection_hashed(class, collection, &sha_s(&join_key(values)?)))
    }

    /// The same, from the hash of the value.
    pub fn collection_hashed(class: &Name, collection: &Name, hash: &str) -> Self {
        Def { class: class.clone(), kind: DefKind::Collection(collection.clone(), SmolStr::new(hash)) }
    }

    /// The class of the def.
    pub fn class(&self) -> &Name {
        &self.class
    }

    /// The part of the class.
    pub fn kind(&self) -> &DefKind {
        &self.kind
    }
}

impl fmt::Display for Def {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DefKind::Class => write!(f, "{}", self.class),
            DefKind::Document(pk) => write!(f, "{}@{pk}", self.class),
            DefKind::Collection(name, hash) => write!(f, "{}/{name}@{hash}", self.class),
        }
    }
}

impl FromStr for Def {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = |_| Error::new(Code::UnknownDef, "not a def");
        let (head, tail) = match text.split_once('@') {
            Some((head, tail)) => (head, Some(tail)),
            None => (text, None),
        };
        match (head.split_once('/'), tail) {
            (None, None) => Ok(Def { class: Name::new(head).map_err(unknown)?, kind: DefKind::Class }),
            (None, Some(pk)) => {
                let kind = DefKind::Document(Pk::parse(pk).map_err(unknown)?);
                Ok(Def { class: Name::new(head).map_err(unknown)?, kind })
            }
            (Some((class, collection)), Some(hash)) => {
                let is_hash = hash.len() == 22
                    && hash.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
                if !is_hash {
                    return fail(Code::UnknownDef, "a collection's value is a hash of 22 characters");
                }
                let kind = DefKind::Collection(Name::new(collection).map_err(unknown)?, SmolStr::new(hash));
                Ok(Def { class: Name::new(class).map_err(unknown)?, kind })
            }
            (Some(_), None) => fail(Code::UnknownDef, "a collection needs a value"),
        }
    }
}

impl Serialize for Def {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Def {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        SmolStr::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_def_is_refused_by_name() {
        for text in ["", "@x", "A@", "A/b", "A/b@short", "A/@x", "1A", "A@a/b", "A b"] {
            assert_eq!(text.parse::<Def>().unwrap_err().code(), Code::UnknownDef, "{text:?}");
        }
    }

    #[test]
    fn the_three_kinds_read_back() {
        for text in ["Article", "Article@E8QD73URYucI8dur4zj-2Q", "Article/auteurs@BTziUq_SSySPM1Z0dmeokg"] {
            assert_eq!(text.parse::<Def>().unwrap().to_string(), text);
        }
    }
}
