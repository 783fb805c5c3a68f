//! The checks of a document's data that need no database.

use std::collections::BTreeMap;

use escale::codec::Data;
use escale::model::schema::Class;
use escale::model::{Name, Value};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use crate::provider::Shown;

/// Refuses reserved names, and gives the document its release.
pub(in crate::engine) fn check_map(
    class: &Class,
    org: &str,
    map: &mut BTreeMap<String, Value>,
) -> Result<()> {
    if map.keys().any(|name| name.starts_with('_')) {
        return Err(Error::new(Code::BadValue, "names that begin with _ are reserved"));
    }
    if class.name().as_str() == "Hdr" && org != "ROOT" {
        return Err(Error::new(Code::BadKey, "the singleton Hdr belongs to the org ROOT"));
    }
    match map.get("release") {
        None => {
            map.insert("release".into(), Value::from(class.release() as i64));
        }
        Some(value) => {
            let is_known_release =
                value.as_u64().is_some_and(|release| (1..=class.release()).contains(&release));
            if !is_known_release {
                let detail = format!("release must be 1 to {}, the class's own", class.release());
                return Err(Error::new(Code::BadValue, detail));
            }
        }
    }
    Ok(())
}

/// The key properties alone, and the pk that they give.
pub(in crate::engine) fn key_of(
    class: &Class,
    key: &BTreeMap<String, Value>,
) -> Result<(BTreeMap<String, Value>, SmolStr)> {
    let mut map = BTreeMap::new();
    let mut parts = Vec::new();
    for name in class.key() {
        match key.get(name.as_str()) {
            Some(Value::String(text)) => {
                parts.push(text.as_str());
                map.insert(name.as_str().to_owned(), Value::String(text.clone()));
            }
            Some(_) => return Err(Error::new(Code::BadKey, format!("key property {name} must be a string"))),
            None => return Err(Error::new(Code::BadKey, format!("key property {name} is missing"))),
        }
    }
    let pk = SmolStr::new(class.pk_of(&parts)?.as_str());
    Ok((map, pk))
}

/// The stored data is at fault, not the caller.
pub(in crate::engine) fn unreadable(error: Error) -> Error {
    Error::new(Code::StorageFailed, error.detail()).at("a stored document")
}

/// Another key under the same pk is possible only for `Hdr`, and by a hash collision.
pub(in crate::engine) fn check_key_kept(
    class: &Class,
    held: &[u8],
    map: &BTreeMap<String, Value>,
) -> Result<()> {
    let names: Vec<&Name> = class.key().iter().collect();
    let kept = Data::from_bytes(held).and_then(|data| data.pick(&names)).map_err(unreadable)?;
    if names.iter().all(|name| kept.get(name.as_str()) == map.get(name.as_str())) {
        return Ok(());
    }
    Err(Error::new(
        Code::KeyMismatch,
        format!("the stored document of class {} has another key", class.name()),
    ))
}

pub(in crate::engine) fn check_immutable(class: &Class, old: &Shown, new: &Shown) -> Result<()> {
    for collection in class.collections().iter().filter(|collection| !collection.is_mutable()) {
        let name = collection.name().as_str();
        if old.links.get(name) != new.links.get(name) {
            let detail = format!("collection {}/{name} is not mutable", class.name());
            return Err(Error::new(Code::ImmutableKey, detail));
        }
    }
    Ok(())
}
