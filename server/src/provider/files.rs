//! The tables of files: objects, the documents that reference them, lists with their chunks, uploads, and names of objects
//! that are to be removed. The bytes are elsewhere ([`crate::files`]).

use std::collections::HashMap;

use escale::Result;

use super::Place;

/// An object: a chunk, or the list of a file's chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The name of its bytes in the store, which is never used again.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// If it is known as a list, the bytes of the file that it lists.
    pub list: Option<u64>,
    /// Milliseconds since 1970 until which it is kept; none while a document or a list references it.
    pub until: Option<u64>,
}

/// The name of an object that may be in the store and is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Milliseconds since 1970 from which on it may be removed.
    pub at: u64,
    /// Whether its removal may have begun: no upload under this name can end any more.
    pub is_claimed: bool,
}

/// The objects that an account has uploaded and that nothing references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uploads {
    /// Their number. A list counts with its chunks.
    pub objects: u64,
    /// Their bytes. A list counts with those of its file.
    pub bytes: u64,
}

/// Reads of the tables of files, as of one state of the database.
pub trait FileReads {
    /// The object of that hash.
    fn file(&self, org: &str, sha: &str) -> Result<Option<File>>;

    /// Those of these objects that there are.
    fn those(&self, org: &str, shas: &[&str]) -> Result<HashMap<String, File>>;

    /// At most `limit` objects after that hash, ascending.
    fn files_after(&self, org: &str, after: &str, limit: usize) -> Result<Vec<(String, File)>>;

    /// Whether there is any object, in any org.
    fn has_files(&self) -> Result<bool>;

    /// At most `limit` objects whose `until` is not after `now`, in any order.
    fn due_files(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>>;

    /// The objects that a document references, ascending.
    fn references(&self, at: Place) -> Result<Vec<String>>;

    /// Class and pk of at most `limit` documents that reference an object, ascending.
    fn referring(&self, org: &str, sha: &str, limit: usize) -> Result<Vec<(String, String)>>;

    /// At most `limit` lists that have that chunk, ascending.
    fn lists_of(&self, org: &str, chunk: &str, limit: usize) -> Result<Vec<String>>;

    /// The chunks of a list, in their order.
    fn chunks(&self, org: &str, list: &str) -> Result<Vec<String>>;

    /// Whether that account has uploaded an object that there is.
    fn has_uploaded(&self, org: &str, account: &str, sha: &str) -> Result<bool>;

    /// The objects that an account has uploaded and whose `until` is set.
    fn open_uploads(&self, org: &str, account: &str) -> Result<Uploads>;

    /// The line of an object to be removed.
    fn purge(&self, org: &str, name: &str) -> Result<Option<Purge>>;

    /// At most `limit` lines whose `at` is not after `now`, in any order.
    fn due_purges(&self, org: &str, now: u64, limit: usize) -> Result<Vec<String>>;
}

/// Changes of the tables of files.
pub trait FileEdits {
    /// Stores an object, and replaces its earlier state.
    fn put_file(&mut self, org: &str, sha: &str, file: &File) -> Result<()>;

    /// Removes an object with its uploads, and with its chunks if it is a list. The chunks stay objects.
    fn remove_file(&mut self, org: &str, sha: &str) -> Result<()>;

    /// Records that a document references an object. Again: no change.
    fn refer(&mut self, at: Place, sha: &str) -> Result<()>;

    /// The contrary.
    fn unrefer(&mut self, at: Place, sha: &str) -> Result<()>;

    /// Records the chunks of a list that has none yet, in their order.
    fn put_chunks(&mut self, org: &str, list: &str, chunks: &[&str]) -> Result<()>;

    /// Records that an account has uploaded an object that there is. Again: no change.
    fn put_upload(&mut self, org: &str, account: &str, sha: &str) -> Result<()>;

    /// Stores the line of an object to be removed, and replaces an earlier one.
    fn put_purge(&mut self, org: &str, name: &str, purge: &Purge) -> Result<()>;

    /// Removes such a line.
    fn remove_purge(&mut self, org: &str, name: &str) -> Result<()>;
}
