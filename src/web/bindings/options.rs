//! Reads the options of `open`.

use wasm_bindgen::prelude::*;
use web_sys::IdbFactory;

use crate::codec::Format;
use crate::error::{Code, Error, Result, fail};
use crate::limits::POLL_EVERY_MS;
use crate::model::schema::Schema;
use crate::sync::Mode;
use crate::web::platform::bytes::bytes_of;
use crate::web::platform::global::property;

/// The options of `open`, checked.
pub(super) struct Options {
    pub org: String,
    pub account: String,
    pub schema: Schema,
    pub mode: Mode,
    pub server: Option<JsValue>,
    pub secret: Secret,
    pub has_token: bool,
    pub has_files: bool,
    pub poll_every_ms: u64,
    /// The session uses memory instead of the device for now, because the device could not be opened.
    pub in_memory: bool,
    pub format: Format,
    /// Databases to use in place of the origin's.
    pub databases: Option<IdbFactory>,
}

/// The secret from which X is made.
#[derive(Clone)]
pub(super) enum Secret {
    Passphrase(String),
    Key([u8; 32]),
    /// X of a passphrase, as an earlier opening derived it.
    Derived([u8; 32]),
    None,
}

impl Options {
    pub(super) fn read(object: &JsValue) -> Result<Self> {
        let text = |name: &str| property(object, name).and_then(|value| value.as_string());
        let flag = |name: &str| property(object, name).is_some_and(|value| value.is_truthy());
        let needed = |name: &str| {
            text(name).ok_or_else(|| Error::new(Code::BadOption, format!("`{name}` is missing")))
        };
        let mode = mode_of(&needed("mode")?)?;
        let derived = property(object, "derived").map(|x| key_of(&x)).transpose()?;
        let secret = match (text("passphrase"), property(object, "key")) {
            (None, None) if derived.is_some() => derived.map_or(Secret::None, Secret::Derived),
            (Some(_), Some(_)) => return fail(Code::BadOption, "`passphrase` and `key` exclude each other"),
            (Some(passphrase), None) => Secret::Passphrase(passphrase),
            (None, Some(key)) => Secret::Key(key_of(&key)?),
            (None, None) => Secret::None,
        };
        if matches!(secret, Secret::None) && mode != Mode::Incognito {
            return fail(
                Code::BadOption,
                "`passphrase` (or `key`) is missing: only `incognito` does without",
            );
        }
        let server = property(object, "server");
        if server.is_none() && mode != Mode::Avion {
            return fail(Code::BadOption, "`server` is missing: only `avion` does without");
        }
        let format = match text("format").as_deref() {
            None | Some("msgpack") => Format::Msgpack,
            Some("json") => Format::Json,
            Some(_) => return fail(Code::BadOption, "`format` is `msgpack` or `json`"),
        };
        Ok(Options {
            org: needed("org")?,
            account: needed("account")?,
            schema: Schema::from_json(&needed("schema")?)?,
            mode,
            server,
            secret,
            has_token: flag("hasToken"),
            has_files: flag("hasFiles"),
            poll_every_ms: poll_every_ms(object),
            in_memory: flag("inMemory"),
            format,
            databases: property(object, "databases").map(JsCast::unchecked_into),
        })
    }
}

pub(super) fn mode_of(text: &str) -> Result<Mode> {
    match text {
        "synced" => Ok(Mode::Synced),
        "incognito" => Ok(Mode::Incognito),
        "avion" => Ok(Mode::Avion),
        _ => fail(Code::BadOption, "`mode` is `synced`, `incognito` or `avion`"),
    }
}

/// How often to pull while no channel announces changes. TypeScript has checked the number.
fn poll_every_ms(options: &JsValue) -> u64 {
    property(options, "pollEveryMs").and_then(|ms| ms.as_f64()).map_or(POLL_EVERY_MS, |ms| ms as u64)
}

fn key_of(value: &JsValue) -> Result<[u8; 32]> {
    let bytes = bytes_of(value).map(|bytes| bytes.to_vec());
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| Error::new(Code::BadOption, "`key` must be a Uint8Array of 32 bytes"))
}
