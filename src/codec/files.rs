//! The messages about files (docs/protocol.md). The bytes of an object are no message: they are a body by themselves.

use super::fields::record;
use crate::error::{Code, Result, fail};
use crate::limits::HAVE_MAX;
use crate::model::Epoch;
use crate::model::schema::is_sha;

/// `POST {base}/{org}/files`: which of these objects does the server have?
#[derive(Clone, Debug, PartialEq)]
pub struct FilesRequest {
    /// The protocol's version: 1.
    pub p: u64,
    /// The names of the objects; at most [`HAVE_MAX`].
    pub have: Vec<String>,
}

record!(FilesRequest { p, have });

impl FilesRequest {
    /// Rejects another version, too many names, and a text that can be no name.
    pub fn check(&self) -> Result<()> {
        if self.p != 1 {
            return fail(Code::WrongProtocol, "this server speaks protocol 1");
        }
        if self.have.len() > HAVE_MAX {
            return fail(Code::TooLarge, format!("have: at most {HAVE_MAX} names"));
        }
        if !self.have.iter().all(|sha| is_sha(sha)) {
            return fail(Code::Malformed, "have: a name is base64url of 32 bytes");
        }
        Ok(())
    }
}

/// The answer to a [`FilesRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct FilesReply {
    /// The life of the server's database (R8).
    pub epoch: Epoch,
    /// Those that are there, in the order of the request.
    pub there: Vec<String>,
    /// Milliseconds since 1970 until which they are kept, at least.
    pub until: u64,
}

record!(FilesReply { epoch, there default, until });

/// The answer to `PUT {base}/{org}/file/{sha}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileReply {
    /// Milliseconds since 1970 until which the object is kept, at least.
    pub until: u64,
}

record!(FileReply { until });
