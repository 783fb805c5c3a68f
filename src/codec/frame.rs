//! The messages on the socket (docs/protocol.md).

use super::fields::record;
use super::format::Format;
use super::message::{Fault, Part, check_each, check_numbers};
use super::node::{Node, NodeError};
use super::wire::{Decode, Encode};
use super::writer::{Presence, Writer};
use crate::error::Result;
use crate::model::{Def, Epoch, Version};

/// The message of a session on the socket: the first one, and one at each change of its subscriptions.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveRequest {
    /// The bearer token, on servers that ask for one.
    pub token: Option<String>,
    /// The store's random name.
    pub session: String,
    /// Every def subscribed to.
    pub subs: Vec<Def>,
}

record!(LiveRequest { token optional, session, subs });

/// The messages of a server on the socket.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerFrame {
    /// The server has registered some defs and refused others. The session pulls those that may have changed.
    Live {
        /// Registered.
        live: Vec<Def>,
        /// Refused, and why.
        refused: Vec<(Def, Fault)>,
        /// The org's epoch and highest version, both read after the registration: a def beyond it needs no pull (R43).
        head: Option<(Epoch, Version)>,
        /// In milliseconds: the pulls that follow wait a random part of it (R43).
        spread: u64,
    },
    /// These defs changed at these versions.
    Hints(Vec<(Def, Version)>),
    /// Changes that the server pushes; they never move a collection's `v`.
    Parts(ServerParts),
    /// A sign of life, at least every 10 seconds.
    Alive,
}

/// Parts pushed over the socket.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerParts {
    /// The life of the server's database (R8).
    pub epoch: Epoch,
    /// The server's time.
    pub now: Version,
    /// As in [`super::SyncReply`].
    pub delta: u64,
    /// As in [`super::SyncReply`].
    pub seq: u64,
    /// The changes.
    pub parts: Vec<Part>,
}

record!(ServerParts { epoch, now, delta, seq default, parts });

/// All fields that a frame may hold. The fields that are present say which frame it is.
#[derive(Default)]
struct FrameFields {
    live: Option<Vec<Def>>,
    refused: Vec<(Def, Fault)>,
    hints: Option<Vec<(Def, Version)>>,
    epoch: Option<Epoch>,
    now: Option<Version>,
    delta: Option<u64>,
    seq: Option<u64>,
    parts: Option<Vec<Part>>,
    highest: Option<Version>,
    spread: u64,
}

record!(FrameFields {
    live optional,
    refused optional,
    hints optional,
    epoch optional,
    now optional,
    delta optional,
    seq optional,
    parts optional,
    highest optional,
    spread default,
});

impl ServerFrame {
    /// A confirmation that tells nothing of the org: the session pulls every def.
    pub fn confirm(live: Vec<Def>, refused: Vec<(Def, Fault)>) -> Self {
        ServerFrame::Live { live, refused, head: None, spread: 0 }
    }
}

impl Encode for ServerFrame {
    fn encode(&self, out: &mut Writer) {
        match self {
            ServerFrame::Live { live, refused, head, spread } => {
                let (epoch, highest) = head.as_ref().map(|(epoch, highest)| (epoch, *highest)).unzip();
                out.record(&[
                    ("live", Presence::Required, live),
                    ("refused", Presence::Optional, refused),
                    ("epoch", Presence::Optional, &epoch.cloned()),
                    ("highest", Presence::Optional, &highest),
                    ("spread", Presence::Optional, &(*spread > 0).then_some(*spread)),
                ]);
            }
            ServerFrame::Hints(hints) => out.record(&[("hints", Presence::Required, hints)]),
            ServerFrame::Parts(parts) => parts.encode(out),
            ServerFrame::Alive => out.record(&[]),
        }
    }
}

impl Decode for ServerFrame {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        Ok(match FrameFields::decode(node, format)? {
            FrameFields { live: Some(live), refused, epoch, highest, spread, .. } => {
                ServerFrame::Live { live, refused, head: epoch.zip(highest), spread }
            }
            FrameFields { hints: Some(hints), .. } => ServerFrame::Hints(hints),
            FrameFields {
                parts: Some(parts),
                epoch: Some(epoch),
                now: Some(now),
                delta: Some(delta),
                seq,
                ..
            } => ServerFrame::Parts(ServerParts { epoch, now, delta, seq: seq.unwrap_or(0), parts }),
            FrameFields { parts: Some(_), .. } => {
                return Err(NodeError::Words("parts without epoch, now and delta".into()));
            }
            // Later versions may say more: a frame that is not understood is a sign of life.
            _ => ServerFrame::Alive,
        })
    }
}

impl ServerParts {
    /// As [`super::SyncReply::check`]. Pushed rows have their data.
    pub fn check(&self) -> Result<()> {
        check_numbers(self.now, self.delta, self.seq)?;
        check_each("parts", &self.parts, |part| part.check().and_then(|()| part.check_data()))
    }
}
