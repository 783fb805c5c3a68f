//! Derives X from the passphrase: PBKDF2-HMAC-SHA256 by the browser's own implementation, which is native and
//! runs off the page's thread.

use js_sys::{Array, Function, JsString, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use zeroize::Zeroize;

use super::global::{exception_name, method, require_secure_context, subtle};
use crate::error::{Code, Error, Result};

/// Derives 32 bytes from a passphrase.
///
/// The passphrase is first brought to Unicode's form NFC. So the same text gives the same key on keyboards
/// that compose accents and on those that do not. NFKC would also make different texts equal.
///
/// Errors: `insecure_context`, `internal`. The caller bounds the rounds.
pub async fn pbkdf2(passphrase: &str, salt: &[u8], rounds: u32) -> Result<[u8; 32]> {
    require_secure_context()?;
    let secret = normalized_utf8(passphrase);
    let result = derive(&secret, salt, rounds).await;
    // This copy can be wiped; JavaScript's strings cannot.
    secret.fill(0, 0, secret.length());
    let derived = result.map_err(|exception| {
        Error::new(Code::Internal, format!("PBKDF2 failed: {}", exception_name(&exception)))
    })?;
    let mut key = [0; 32];
    if derived.length() != 32 {
        return Err(Error::new(Code::Internal, "PBKDF2 gave another length"));
    }
    derived.copy_to(&mut key);
    derived.fill(0, 0, derived.length());
    Ok(key)
}

fn normalized_utf8(passphrase: &str) -> Uint8Array {
    let normalized = JsString::from(passphrase).normalize("NFC");
    let mut bytes = String::from(normalized).into_bytes();
    let secret = Uint8Array::from(bytes.as_slice());
    bytes.zeroize();
    secret
}

async fn derive(secret: &Uint8Array, salt: &[u8], rounds: u32) -> std::result::Result<Uint8Array, JsValue> {
    let subtle = subtle().unwrap_or_default();
    let usages = Array::of1(&"deriveBits".into());
    let import = Array::of5(&"raw".into(), secret, &"PBKDF2".into(), &false.into(), &usages);
    let key = call(&subtle, "importKey", &import).await?;
    let algorithm = Object::new();
    for (name, value) in [
        ("name", JsValue::from_str("PBKDF2")),
        ("hash", JsValue::from_str("SHA-256")),
        ("salt", Uint8Array::from(salt).into()),
        ("iterations", rounds.into()),
    ] {
        Reflect::set(&algorithm, &name.into(), &value)?;
    }
    let bits = call(&subtle, "deriveBits", &Array::of3(&algorithm, &key, &256.into())).await?;
    Ok(Uint8Array::new(&bits))
}

async fn call(subtle: &JsValue, name: &str, arguments: &Array) -> std::result::Result<JsValue, JsValue> {
    let function: Function = method(subtle, name).ok_or(JsValue::UNDEFINED)?;
    // Under jsdom the promise is of another realm.
    JsFuture::from(Promise::resolve(&function.apply(subtle, arguments)?)).await
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|n| char::from(b"0123456789abcdef"[n as usize]))
            .collect()
    }

    #[wasm_bindgen_test]
    async fn known_vectors() {
        // RFC 7914, section 11: the first 32 bytes of its vectors.
        let got = pbkdf2("passwd", b"salt", 1).await.expect("derived");
        assert_eq!(hex(&got), "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
        let got = pbkdf2("Password", b"NaCl", 80_000).await.expect("derived");
        assert_eq!(hex(&got), "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56");
    }

    #[wasm_bindgen_test]
    async fn composed_and_decomposed_accents_give_one_key() {
        let composed = pbkdf2("caf\u{e9}", b"salt", 10).await.expect("derived");
        let decomposed = pbkdf2("cafe\u{301}", b"salt", 10).await.expect("derived");
        assert_eq!(composed, decomposed);
        assert_ne!(composed, pbkdf2("cafe", b"salt", 10).await.expect("derived"));
    }

    #[wasm_bindgen_test]
    async fn an_empty_passphrase_is_no_crash() {
        pbkdf2("", b"salt", 10).await.expect("derived");
    }
}
