//! Walks a value in msgpack without building it, and refuses what [`ValueSeed`](super::value::ValueSeed) refuses.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::value::NESTED_TOO_DEEP;

/// Checks a value that may nest `depth` levels.
#[derive(Clone, Copy)]
pub(super) struct CheckSeed {
    pub(super) depth: usize,
}

impl CheckSeed {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(CheckSeed { depth }),
            None => Err(E::custom(NESTED_TOO_DEEP)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for CheckSeed {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

// What is not visited here, extension types above all, is refused by serde's defaults.
impl<'de> Visitor<'de> for CheckSeed {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, finite number, boolean, null, bytes, array or map")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, f: f64) -> Result<(), E> {
        if f.is_finite() { Ok(()) } else { Err(E::custom("a number that is not finite")) }
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bytes<E: de::Error>(self, _: &[u8]) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let seed = self.deeper()?;
        while seq.next_element_seed(seed)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let seed = self.deeper()?;
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(seed)?;
            if key == "__proto__" || !keys.insert(key) {
                return Err(de::Error::custom("a map with the key __proto__, or with the same key twice"));
            }
        }
        Ok(())
    }
}
