//! Which defs must be pulled, and the request in flight: one at a time, numbered (R5).

use std::collections::{BTreeSet, HashMap};

use super::backoff::Backoff;
use crate::codec::Sub;
use crate::journal::OpId;
use crate::model::{Def, Version};

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub number: u64,
    /// What was asked for each def, and whether from a cursor. A def that is unsubscribed, or loaded anew, is taken
    /// out: its part of the reply is dropped.
    pub asked: HashMap<Def, Asked>,
    /// The operations sent, in order, with their numbers.
    pub ops: Vec<(OpId, u64)>,
    /// Single documents asked for because their data was found damaged (R14).
    pub repairs: BTreeSet<Def>,
}

impl InFlight {
    /// What was asked in an earlier epoch is dropped, but for what asked for everything (R5, R8).
    pub fn forget_earlier_epoch(&mut self) {
        self.asked.retain(|_, asked| asked.since == 0 && !asked.cursor);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub since: Version,
    pub cursor: bool,
}

#[derive(Debug, Default)]
pub(super) struct Pull {
    /// Defs that must be pulled.
    pub needed: BTreeSet<Def>,
    /// Damaged documents to ask for, as `Class@pk`.
    pub repairs: BTreeSet<Def>,
    pub in_flight: Option<InFlight>,
    last_number: u64,
    pub backoff: Backoff,
    /// Not before that time: the backoff's, or what the server asked.
    pub not_before_ms: u64,
    /// Not before that time whatever happens: what the server asked.
    pub retry_after_ms: u64,
    /// When every def is pulled besides.
    pub all_at_ms: u64,
    /// A request succeeded since the session was opened or the mode changed.
    pub answered: bool,
    /// The last request failed.
    pub failing: bool,
    /// Most defs in a request: halved where the server found one too large.
    pub subs_max: usize,
}

impl Pull {
    pub fn new(subs_max: usize) -> Self {
        Pull { subs_max, ..Pull::default() }
    }

    /// Numbers a request and puts it in flight.
    pub fn launch(&mut self, subs: &[Sub], repairs: BTreeSet<Def>, ops: Vec<(OpId, u64)>) -> u64 {
        self.last_number += 1;
        let asked = subs
            .iter()
            .filter(|sub| !repairs.contains(&sub.def))
            .map(|sub| (sub.def.clone(), Asked { since: sub.v, cursor: sub.cursor.is_some() }))
            .collect();
        self.in_flight = Some(InFlight { number: self.last_number, asked, ops, repairs });
        self.last_number
    }

    /// Takes the request in flight, if it is that one.
    pub fn land(&mut self, number: u64) -> Option<InFlight> {
        self.in_flight.take_if(|request| request.number == number)
    }

    /// A def is of no interest any more, or anew: what is in flight for it is dropped.
    pub fn drop_def(&mut self, def: &Def) {
        self.needed.remove(def);
        if let Some(request) = &mut self.in_flight {
            request.asked.remove(def);
        }
    }

    /// A later epoch was met on the socket: the same for the request in flight.
    pub fn forget_earlier_epoch(&mut self) {
        if let Some(request) = &mut self.in_flight {
            request.forget_earlier_epoch();
        }
    }

    /// Gives the request in flight up; what it asked for is needed again.
    pub fn give_up(&mut self) -> Option<u64> {
        let request = self.in_flight.take()?;
        self.needed.extend(request.asked.into_keys());
        self.repairs.extend(request.repairs);
        Some(request.number)
    }
}
