//! The files of the histories: a small stock, and a session's calls about them to a server.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use escale::Code;
use escale::limits::CHUNK_BYTES;
use escale::model::{Epoch, Value};
use sha2::{Digest, Sha256};

use super::backend::Tenant;

/// An object of the stock: a chunk, or the list of a file's chunks. Each is the object of a file, too.
#[derive(Debug)]
pub struct Stocked {
    pub sha: String,
    pub bytes: Vec<u8>,
    /// The bytes of the file.
    pub size: u64,
    /// The objects that it lists, by their numbers; none if it is a chunk.
    pub chunks: Vec<usize>,
}

/// The number of objects in the stock. The last one lists two others.
pub const FILES: usize = 5;

/// The whole stock. Its bytes are made and hashed once.
pub fn stock() -> &'static [Stocked; FILES] {
    static STOCK: OnceLock<[Stocked; FILES]> = OnceLock::new();
    STOCK.get_or_init(|| {
        let chunks = [vec![], b"a".to_vec(), b"b".repeat(1_000), vec![0; CHUNK_BYTES]];
        let listed = [3, 1];
        let list = listed.iter().flat_map(|at| Sha256::digest(&chunks[*at])).collect();
        let size = listed.iter().map(|at| chunks[*at].len() as u64).sum();
        let [empty, one, some, whole] = chunks.map(|bytes| stocked(bytes, None));
        [empty, one, some, whole, stocked(list, Some((size, listed.into())))]
    })
}

fn stocked(bytes: Vec<u8>, list: Option<(u64, Vec<usize>)>) -> Stocked {
    let sha = URL_SAFE_NO_PAD.encode(Sha256::digest(&bytes));
    let (size, chunks) = list.unwrap_or((bytes.len() as u64, Vec::new()));
    Stocked { sha, bytes, size, chunks }
}

/// The number of an object.
pub fn number_of(sha: &str) -> Option<usize> {
    stock().iter().position(|object| object.sha == sha)
}

/// References to none, one or two files, as these bits say.
pub fn references(bits: u8) -> Value {
    let (first, second) = (usize::from(bits % 6), usize::from(bits / 6 % 12));
    let mut files: Vec<usize> = [first, second].into_iter().filter(|file| *file < FILES).collect();
    files.dedup();
    Value::Array(files.into_iter().map(reference).collect())
}

fn reference(file: usize) -> Value {
    let Stocked { sha, size, .. } = &stock()[file];
    Value::from([("sha", Value::from(sha.as_str())), ("size", Value::from(*size as i64))])
}

/// A call of a session's module for files.
#[derive(Clone, Debug)]
pub enum FilesCall {
    /// Which of these objects are there?
    Have(Vec<String>),
    /// Here is that object of the stock.
    Put(usize),
}

/// The answer.
#[derive(Clone, Debug)]
pub enum FilesAnswer {
    /// Those that are there, confirmed in that epoch.
    There(Epoch, Vec<String>),
    Kept,
    /// The list needs these chunks first.
    Missing(Vec<String>),
    Refused(Code),
}

/// Work of a server on files.
#[derive(Clone, Debug)]
pub enum FilesWork {
    Call(Tenant, FilesCall),
    /// The objects past their time go.
    Collect,
}

/// How far the work has come.
pub enum FilesStep {
    Done(FilesAnswer),
    /// The server continues after that many milliseconds.
    Later(u64),
    /// The process that worked on it has ended.
    Never,
}

/// A fault of the store of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesFault {
    /// The bytes of the next upload come so many milliseconds later. The server hears of an error, or they come `twice`:
    /// at once and then.
    LatePut { ms: u64, twice: bool },
    /// The next object to be removed goes so many milliseconds later, in the same two ways.
    LateDelete { ms: u64, twice: bool },
    /// So many calls fail.
    Down(u8),
}
