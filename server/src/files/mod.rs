//! The bytes of files: a narrow trait, its implementations in a folder and in a bucket, and one in memory for tests.
//!
//! A store puts, gets, deletes and lists; it decides nothing, and knows no hash. The engine never uses a name twice.
//! [`conformance`] is the suite that every store must pass.

#[cfg(feature = "object-store")]
mod bucket;
pub mod conformance;
mod folder;
#[cfg(feature = "testing")]
mod memory;

#[cfg(feature = "object-store")]
pub use bucket::BucketFiles;
pub use folder::FolderFiles;
#[cfg(feature = "testing")]
pub use memory::MemoryFiles;

use std::path::Path;

use escale::Result;

/// A store of objects, shared by every instance of the server. An object has a name within its org: letters, digits and
/// `- _ .`, three characters at least.
pub trait Files: Send + Sync + 'static {
    /// Stores an object, and replaces an earlier one. It is durable once this returns; before that, an object is there
    /// whole or not at all. Errors: `storage_full`, `storage_failed`.
    fn put(&self, org: &str, name: &str, bytes: &[u8]) -> Result<()>;

    /// The object; none if there is none. Errors: `storage_failed`.
    fn get(&self, org: &str, name: &str) -> Result<Option<Vec<u8>>>;

    /// Removes an object for good, and the remains of a `put` that never returned. Without either, it does nothing.
    /// Errors: `storage_failed`.
    fn delete(&self, org: &str, name: &str) -> Result<()>;

    /// The names of at most `limit` objects after that one, ascending by bytes. Those that are stored or removed meanwhile
    /// may be among them. Errors: `storage_failed`.
    fn list(&self, org: &str, after: &str, limit: usize) -> Result<Vec<String>>;

    /// The orgs that have objects, each as the `shaS` of its name, ascending. A store keeps no other name of an org. Those
    /// whose objects are stored or removed meanwhile may be among them. Errors: `storage_failed`.
    fn orgs(&self) -> Result<Vec<String>>;
}

/// The beginning of the address of a bucket.
const BUCKET: &str = "s3://";

/// The store of that address: `s3://BUCKET/PREFIX`, or a folder, which is made if there is none. Errors: `bad_option`,
/// `storage_failed`.
pub fn open(address: &str) -> Result<Box<dyn Files>> {
    if !address.starts_with(BUCKET) {
        return Ok(Box::new(FolderFiles::open(Path::new(address))?));
    }
    #[cfg(feature = "object-store")]
    return Ok(Box::new(BucketFiles::open(address)?));
    #[cfg(not(feature = "object-store"))]
    Err(escale::Error::new(
        escale::Code::BadOption,
        "this server was built without buckets: build it with `--features object-store`",
    ))
}
