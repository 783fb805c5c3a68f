//! Bytes to messages and back: msgpack and JSON, bounded in depth and size. Decoders are total: any bytes give a
//! value or a named error.

mod data;
mod format;
mod message;
mod node;
mod value;

pub use data::Data;
pub use format::{Format, decode, encode};
pub use message::{
    Fault, LiveRequest, Op, OpOk, OpResult, Part, Row, ServerFrame, ServerParts, Sub, SyncReply, SyncRequest,
    WireFault,
};
pub use node::{pack, pack_named, unpack};
