//! The factory for the backup database of each store: a storage bucket of its own, in browsers that have
//! buckets. Chromium keeps all databases of a bucket in one set of files. If it finds them damaged, as after
//! a crash in the middle of a write, it deletes all of them. Other browsers keep each database in its own
//! files.

use js_sys::{Object, Promise, Reflect};
use wasm_bindgen::prelude::*;
use web_sys::IdbFactory;

use crate::error::{Code, Result, fail};
use crate::web::platform::global::{exception_name, global, method, property};
use crate::web::platform::patience::{SILENT_MS, answer, silence};

/// One bucket for the backups of all stores of the origin.
const BUCKET: &str = "escale";

/// The databases of the bucket; `None` if the browser has no buckets. Errors: `storage_failed` if the browser
/// has buckets but opens none.
pub(super) async fn factory_in_bucket() -> Result<Option<IdbFactory>> {
    match open().await {
        None => Ok(None),
        Some(Ok(bucket)) => match property(&bucket, "indexedDB") {
            Some(factory) => Ok(Some(factory.unchecked_into())),
            None => fail(Code::StorageFailed, "the bucket has no databases"),
        },
        Some(Err(exception)) => {
            fail(Code::StorageFailed, format!("opening the bucket: {}", exception_name(&exception)))
        }
    }
}

/// The bucket, made if there is none; `None` if the browser has no buckets.
async fn open() -> Option<std::result::Result<JsValue, JsValue>> {
    let buckets = property(&global("navigator")?, "storageBuckets")?;
    let options = Object::new();
    // A plain object takes any property. The transactions of the store itself ensure durability.
    let _ = Reflect::set(&options, &"durability".into(), &"relaxed".into());
    let promise = method(&buckets, "open")?.call2(&buckets, &BUCKET.into(), &options);
    // It may be a promise of another realm.
    Some(match promise {
        Ok(promise) => {
            answer(SILENT_MS, &Promise::resolve(&promise)).await.and_then(|bucket| bucket.ok_or_else(silence))
        }
        Err(exception) => Err(exception),
    })
}
