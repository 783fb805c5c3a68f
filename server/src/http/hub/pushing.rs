//! Pushes: one reading of the database serves all sockets that follow a def (R41).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::body::Bytes;
use escale::Result;
use escale::codec::{Format, ServerFrame, ServerParts, encode};
use escale::model::Def;

use super::{Hub, Waiting};
use crate::engine::{Follower, Pushed};
use crate::lock::lock;

/// Bytes of pushes that wait for one socket. Further ones are dropped: the hints that follow them lose nothing.
const PUSHED_BYTES_MAX: usize = 256 << 10;

/// A push for one socket, as it crosses the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Frame {
    pub def: Def,
    pub format: Format,
    pub bytes: Bytes,
}

/// The sockets that follow a def, and their sessions in the same order.
#[derive(Default)]
pub(in crate::http) struct Followers {
    seats: Vec<Arc<Waiting>>,
    pub sessions: Vec<Follower>,
}

impl Hub {
    /// Whether so many sockets follow a def that their hints have to wait.
    pub(in crate::http) fn is_crowded(&self, org: &str, def: &Def) -> bool {
        let inner = lock(&self.inner);
        let count = inner.orgs.get(org).and_then(|org| org.listeners.get(def)).map_or(0, HashSet::len);
        count > inner.pace.at_once()
    }

    /// The sockets that follow a def. A new one is left out: it pulls after its confirmation.
    pub(in crate::http) fn followers(&self, org: &str, def: &Def) -> Followers {
        let inner = lock(&self.inner);
        let Some(org) = inner.orgs.get(org) else { return Followers::default() };
        let numbers = org.listeners.get(def).into_iter().flatten();
        let mut found = Followers::default();
        for seat in numbers.filter_map(|number| org.seats.get(number)) {
            let held = lock(&seat.held);
            if held.is_new {
                continue;
            }
            found.sessions.push(held.follower.clone());
            drop(held);
            found.seats.push(Arc::clone(seat));
        }
        found
    }

    /// Gives each follower the push, with its own `seq`. Returns how many have it.
    pub(in crate::http) fn push(followers: Followers, pushed: Pushed) -> Result<u64> {
        let Pushed { epoch, now, delta, part, seqs } = pushed;
        let def = part.def.clone();
        let mut frame = ServerParts { epoch, now, delta, seq: 0, parts: vec![part] };
        // Most sessions have written nothing, so most frames are the same.
        let mut encoded: HashMap<(bool, u64), Bytes> = HashMap::new();
        let mut count = 0;
        for (seat, seq) in followers.seats.into_iter().zip(seqs) {
            let format = lock(&seat.held).format;
            let key = (format == Format::Json, seq);
            let bytes = match encoded.entry(key) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => {
                    frame.seq = seq;
                    new.insert(encode(format, &ServerFrame::Parts(frame.clone()))?.into()).clone()
                }
            };
            count += u64::from(seat.push(Frame { def: def.clone(), format, bytes }));
        }
        Ok(count)
    }
}

impl Waiting {
    /// Holds a push, if there is room.
    fn push(&self, frame: Frame) -> bool {
        let mut held = lock(&self.held);
        let waiting: usize = held.pushes.iter().map(|frame| frame.bytes.len()).sum();
        if waiting + frame.bytes.len() > PUSHED_BYTES_MAX {
            return false;
        }
        held.pushes.push(frame);
        drop(held);
        self.notify.notify_one();
        true
    }
}
