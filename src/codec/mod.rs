//! Bytes to messages and back: msgpack and JSON, bounded in depth and size. Decoders are total: any bytes give a
//! value or a named error.

mod data;
mod escape;
mod fields;
mod files;
mod format;
mod frame;
mod message;
mod node;
mod schema;
mod value;
mod wire;
mod writer;

pub use data::Data;
pub use files::{FileReply, FilesReply, FilesRequest};
pub use format::{Format, decode, encode, pack, pack_named, read_json, unpack, write_json};
pub use frame::{LiveRequest, ServerFrame, ServerParts};
pub use message::{Fault, Op, OpOk, OpResult, Part, Row, Sub, SyncReply, SyncRequest, WireFault};
pub use node::{Node, NodeError};
pub use wire::{Blob, Decode, Encode, Named};
pub use writer::{FieldOut, Form, Presence, Writer};

pub(crate) use fields::{Fields, content_of, names, reads, record, unknown_variant, variant_of};
