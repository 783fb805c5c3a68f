//! The names of objects, and their seals.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use escale::limits::{CHUNK_BYTES, FILE_BYTES_MAX};
use escale::model::schema::is_sha;
use escale::{Code, Error, Result};
use sha2::{Digest, Sha256};

use crate::engine::files::filing::Filing;
use crate::engine::instance::epochs::fresh_name;
use crate::engine::rights::readers::CHUNK;
use crate::provider::{Place, Uploads};
use crate::seal::Seal;

/// Bytes of a digest in a list.
pub(in crate::engine) const DIGEST_BYTES: usize = 32;

/// The class of the places of objects, for their seals. No class of documents has such a name.
const OF_OBJECTS: &str = "/file";

/// The place of the mark of a store whose objects are all sealed. No org has this name.
pub(in crate::engine) const NO_ORG: &str = "";
const SEALED_MARK: &str = "sealed";

/// Objects looked at in one reading of the database.
const SEALED_AT_ONCE: usize = 1_000;

/// An object on its way to the store, whose bytes match its hash.
#[derive(Clone, Debug)]
pub struct Object {
    pub(in crate::engine) sha: String,
    pub(in crate::engine) bytes: Vec<u8>,
    /// If it lists the chunks of a file, the bytes of that file.
    pub(in crate::engine) list: Option<u64>,
}

impl Object {
    /// Checks the bytes. `list` is the size of the file whose chunks they list, if they do. Errors: `file_damaged` for
    /// another hash, `bad_value` for a list of another length, `too_large`.
    pub fn new(sha: &str, list: Option<u64>, bytes: Vec<u8>, file_bytes_max: u64) -> Result<Self> {
        if bytes.len() > CHUNK_BYTES {
            return Err(Error::new(Code::TooLarge, format!("an object has at most {CHUNK_BYTES} bytes")));
        }
        if let Some(size) = list {
            if size > file_bytes_max.min(FILE_BYTES_MAX) {
                return Err(Error::new(Code::TooLarge, format!("a file has at most {file_bytes_max} bytes")));
            }
            if size <= CHUNK || size.div_ceil(CHUNK) * DIGEST_BYTES as u64 != bytes.len() as u64 {
                let what = format!("the list of a file of {size} bytes has another length");
                return Err(Error::new(Code::BadValue, what));
            }
        }
        if sha_of(&bytes) != sha {
            return Err(Error::new(Code::FileDamaged, "the bytes have another hash than their name"));
        }
        Ok(Object { sha: sha.to_owned(), bytes, list })
    }

    /// Its name.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Itself as an upload that nothing references.
    pub(in crate::engine) fn uploads(&self) -> Uploads {
        let list = self.list.unwrap_or(0);
        Uploads { objects: 1 + list.div_ceil(CHUNK), bytes: self.bytes.len() as u64 + list }
    }

    /// The names of the chunks that it lists, in their order.
    pub(in crate::engine) fn chunks(&self) -> Vec<String> {
        let digests = self.bytes.chunks(DIGEST_BYTES);
        digests.take_while(|_| self.list.is_some()).map(|digest| URL_SAFE_NO_PAD.encode(digest)).collect()
    }
}

/// The name of an object: base64url of the SHA-256 of its bytes.
pub fn sha_of(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

/// Refuses a text that can be no name. Errors: `not_found`.
pub(in crate::engine) fn check_sha(sha: &str) -> Result<()> {
    if is_sha(sha) {
        return Ok(());
    }
    Err(Error::new(Code::NotFound, "no object has such a name"))
}

/// A name in the store for an object of that hash, never used before.
pub(in crate::engine) fn fresh_object_name(sha: &str) -> Result<String> {
    Ok(format!("{sha}.{:016x}", fresh_name()?))
}

/// The hash in the name of an object in the store.
pub(in crate::engine) fn sha_in(name: &str) -> &str {
    name.split_once('.').map_or(name, |(sha, _)| sha)
}

impl Filing<'_> {
    /// The bytes that rest in the store for an object: bound to org and hash.
    pub(in crate::engine) fn seal_object(&self, org: &str, sha: &str, bytes: &[u8]) -> Result<Vec<u8>> {
        self.seal.close(place(org, sha), 0, bytes)
    }

    /// Seals the objects in clear, if there is a site key. An object keeps its name, because its bytes stay the same for
    /// every reader. A mark in the store tells that nothing is left to be sealed.
    pub(in crate::engine) fn seal_all(&self) -> Result<()> {
        let store = self.store()?;
        if !self.seal.is_sealing() || store.get(NO_ORG, SEALED_MARK)?.is_some() {
            return Ok(());
        }
        let mut last = String::new();
        loop {
            let heads = self.provider.read()?.heads(&last, SEALED_AT_ONCE)?;
            for (org, _) in &heads {
                self.seal_org(org)?;
            }
            match heads.into_iter().next_back() {
                Some((org, _)) => last = org,
                None => return store.put(NO_ORG, SEALED_MARK, &[]),
            }
        }
    }

    fn seal_org(&self, org: &str) -> Result<()> {
        let store = self.store()?;
        let mut last = String::new();
        loop {
            let found = self.provider.read()?.files().files_after(org, &last, SEALED_AT_ONCE)?;
            let Some((sha, _)) = found.last() else { return Ok(()) };
            last.clone_from(sha);
            for (sha, file) in &found {
                if let Some(stored) = store.get(org, &file.name)?.filter(|stored| Seal::is_clear(stored)) {
                    let bytes = self.seal.open_or_clear(place(org, sha), 0, &stored)?;
                    store.put(org, &file.name, &self.seal_object(org, sha, &bytes)?)?;
                }
            }
        }
    }

    /// The contrary.
    pub(in crate::engine) fn open_object(&self, org: &str, sha: &str, stored: &[u8]) -> Result<Vec<u8>> {
        self.seal.open(place(org, sha), 0, stored)
    }
}

fn place<'a>(org: &'a str, sha: &'a str) -> Place<'a> {
    Place { org, class: OF_OBJECTS, pk: sha }
}
