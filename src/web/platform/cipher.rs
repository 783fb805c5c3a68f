//! Opens records with the browser's own AES-GCM. That is native code at once and runs on other threads; the
//! wasm's cipher is slow until the engine has optimised it. A record that does not open here is no verdict:
//! the core tries it again itself.

use js_sys::{Array, Function, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;

use super::global::{method, property, subtle};
use crate::crypto;
use crate::web::platform::bytes::bytes_of;

const NONCE_BYTES: u32 = crypto::NONCE_BYTES as u32;

/// A decryption key that the browser keeps. Scripts cannot read it back.
pub struct Cipher {
    subtle: JsValue,
    decrypt: Function,
    /// Settles with the key, or with the reason why there is none.
    imported: Promise,
}

impl Cipher {
    /// Passes the key to the browser; `None` if the browser has no cryptography, as in an insecure context.
    pub fn new(key: &[u8; 32]) -> Option<Self> {
        let subtle = subtle()?;
        let (import, decrypt) = (method(&subtle, "importKey")?, method(&subtle, "decrypt")?);
        let secret = Uint8Array::from(key.as_slice());
        let usages = Array::of1(&"decrypt".into());
        let arguments = Array::of5(&"raw".into(), &secret, &"AES-GCM".into(), &false.into(), &usages);
        let imported = import.apply(&subtle, &arguments);
        // The browser has taken its copy.
        secret.fill(0, 0, secret.length());
        let imported = Promise::all_settled(&Array::of1(&imported.ok()?));
        Some(Cipher { subtle, decrypt, imported })
    }

    /// Opens records, each given with its associated data; `None` for one that does not open.
    pub async fn open(&self, records: &[(Vec<u8>, Uint8Array)]) -> Vec<Option<Vec<u8>>> {
        let Some(key) = self.key().await else { return Vec::new() };
        let opening: Array = records
            .iter()
            .map(|(associated, sealed)| self.begin(&key, associated, sealed).unwrap_or(JsValue::UNDEFINED))
            .collect();
        let Ok(settled) = JsFuture::from(Promise::all_settled(&opening)).await else { return Vec::new() };
        let plain = |settled: JsValue| Some(bytes_of(&property(&settled, "value")?)?.to_vec());
        Array::from(&settled).iter().map(plain).collect()
    }

    async fn key(&self) -> Option<JsValue> {
        let settled = JsFuture::from(self.imported.clone()).await.ok()?;
        property(&Array::from(&settled).get(0), "value")
    }

    fn begin(&self, key: &JsValue, associated: &[u8], sealed: &Uint8Array) -> Result<JsValue, JsValue> {
        let algorithm = Object::new();
        for (name, value) in [
            ("name", JsValue::from_str("AES-GCM")),
            ("iv", sealed.subarray(0, NONCE_BYTES).into()),
            ("additionalData", Uint8Array::from(associated).into()),
        ] {
            Reflect::set(&algorithm, &name.into(), &value)?;
        }
        self.decrypt.call3(&self.subtle, &algorithm, key, &sealed.subarray(NONCE_BYTES, sealed.length()))
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;
    use crate::crypto::{AccountKey, SeededRandom, StoreKeys, place};
    use crate::store::Table;

    #[wasm_bindgen_test]
    async fn r14_it_opens_what_was_sealed_at_that_place_and_nothing_else() {
        let mut random = SeededRandom::new(1);
        let keys = StoreKeys::derive(&AccountKey::make(&mut random).expect("K"), &[1; 16]);
        let cipher = Cipher::new(keys.seal_key(Table::Pages)).expect("localhost is secure");
        let [here, there] = [5, 6].map(|number| keys.record_key(Table::Pages, number));
        let mut seal =
            |plain: &[u8]| keys.seal(Table::Pages, here, plain, &mut random).expect("sealed").into_bytes();
        let (sealed, empty) = (seal(b"hello, world"), seal(b""));
        let mut records = Vec::new();
        let mut add = |place: Vec<u8>, sealed: &[u8]| records.push((place, Uint8Array::from(sealed)));
        add(place(Table::Pages, here), &sealed);
        add(place(Table::Pages, here), &empty);
        add(place(Table::Pages, there), &sealed);
        add(place(Table::State, here), &sealed);
        for byte in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[byte] ^= 1;
            add(place(Table::Pages, here), &altered);
            add(place(Table::Pages, here), &sealed[..byte]);
        }
        let opened = cipher.open(&records).await;
        assert_eq!(opened.len(), records.len());
        assert_eq!(opened[0].as_deref(), Some(&b"hello, world"[..]));
        assert_eq!(opened[1].as_deref(), Some(&b""[..]));
        assert!(opened[2..].iter().all(Option::is_none));
    }
}
