//! Limits how many requests, or sockets, may be in progress at once, for each caller and for all together.
//!
//! A caller is counted from the header of its request on. A place of all is taken for the work alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escale::{Code, Error};

use crate::accounts::Network;
use crate::http::auth::Admitted;
use crate::http::entering::Peer;

/// A caller, as the limits count it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::http) enum Holder {
    /// An account, from wherever it calls.
    Account(String),
    /// The network of a stranger: all its callers together.
    Network(Network),
}

/// Counts the requests or sockets in progress.
pub(in crate::http) struct Gate {
    each_max: usize,
    all_max: usize,
    strangers_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    by_holder: HashMap<Holder, usize>,
    /// Places that are taken, and those of them that strangers have.
    places: usize,
    strangers: usize,
}

/// One of those that a caller may have in progress; given back when dropped.
pub(in crate::http) struct Slot {
    gate: Arc<Gate>,
    holder: Holder,
}

/// One of the places of all; given back when dropped.
pub(in crate::http) struct Place {
    gate: Arc<Gate>,
    is_stranger: bool,
}

/// The reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Full {
    /// This caller has too many in progress.
    Caller,
    /// All callers together have too many.
    Server,
}

impl From<Full> for Error {
    fn from(full: Full) -> Self {
        match full {
            Full::Caller => Error::new(Code::TooMany, "too many requests at once"),
            Full::Server => Error::new(Code::Unavailable, "the server is busy"),
        }
    }
}

impl Holder {
    /// The caller of an account, or the stranger.
    pub(in crate::http) fn of(account: Option<&str>, Peer(network): Peer) -> Self {
        account.map_or(Holder::Network(network), |account| Holder::Account(account.to_owned()))
    }

    /// The bearer of a token, or anybody where none is needed.
    pub(in crate::http) fn of_admitted(admitted: &Admitted, peer: Peer) -> Self {
        Holder::of(admitted.account.as_deref(), peer)
    }

    pub(super) fn is_stranger(&self) -> bool {
        matches!(self, Holder::Network(_))
    }
}

impl Gate {
    /// A gate for so many of each caller, and of all. Half of the places are kept for those who have tokens, if tokens are
    /// needed.
    pub(in crate::http) fn new((each_max, all_max): (usize, usize), needs_tokens: bool) -> Arc<Self> {
        let strangers_max = if needs_tokens { all_max.div_ceil(2) } else { all_max };
        Arc::new(Gate { each_max, all_max, strangers_max, held: Mutex::default() })
    }

    /// Counts one of a caller.
    pub(in crate::http) fn join(self: &Arc<Self>, holder: &Holder) -> Result<Slot, Full> {
        let mut held = self.held();
        let count = held.by_holder.entry(holder.clone()).or_default();
        if *count >= self.each_max {
            // No entry was made for it, unless it may have none at all.
            if *count == 0 {
                held.by_holder.remove(holder);
            }
            return Err(Full::Caller);
        }
        *count += 1;
        Ok(Slot { gate: Arc::clone(self), holder: holder.clone() })
    }

    /// Counts one of a caller, and takes a place of all.
    pub(in crate::http) fn enter(self: &Arc<Self>, holder: &Holder) -> Result<(Slot, Place), Full> {
        let slot = self.join(holder)?;
        let place = slot.place()?;
        Ok((slot, place))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Takes a place of all.
    pub(in crate::http) fn place(&self) -> Result<Place, Full> {
        let is_stranger = self.holder.is_stranger();
        let mut held = self.gate.held();
        if held.places >= self.gate.all_max || is_stranger && held.strangers >= self.gate.strangers_max {
            return Err(Full::Server);
        }
        held.places += 1;
        held.strangers += usize::from(is_stranger);
        drop(held);
        Ok(Place { gate: Arc::clone(&self.gate), is_stranger })
    }

    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.gate.held();
        if let Some(count) = held.by_holder.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                held.by_holder.remove(&self.holder);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.gate.held();
        held.places -= 1;
        held.strangers -= usize::from(self.is_stranger);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn account(name: &str) -> Holder {
        Holder::Account(name.into())
    }

    fn stranger(address: &str) -> Holder {
        Holder::Network(Network::of(address.parse().unwrap()))
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let gate = Gate::new((1, 2), true);
        let slots = ["a", "b", "c"].map(|name| gate.join(&account(name)).ok().unwrap());
        assert_eq!(gate.join(&account("a")).err(), Some(Full::Caller));
        let places = [slots[0].place().ok().unwrap(), slots[1].place().ok().unwrap()];
        assert_eq!(slots[2].place().err(), Some(Full::Server));
        drop(places);
        assert!(slots[2].place().is_ok());
        drop(slots);
        assert!(gate.join(&account("a")).is_ok());
        assert!(Gate::new((0, 1), true).join(&account("a")).is_err());
        assert!(gate.held().by_holder.is_empty() && gate.held().places == 0);
    }

    #[test]
    fn places_are_kept_for_those_with_tokens() {
        let gate = Gate::new((9, 4), true);
        let strangers = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|at| gate.join(&stranger(at)).ok().unwrap());
        let _taken = [strangers[0].place().ok().unwrap(), strangers[1].place().ok().unwrap()];
        assert_eq!(strangers[2].place().err(), Some(Full::Server));
        let slot = gate.join(&account("a")).ok().unwrap();
        let _places = [slot.place().ok().unwrap(), slot.place().ok().unwrap()];
        assert_eq!(slot.place().err(), Some(Full::Server));
    }

    #[test]
    fn where_no_token_is_needed_all_places_are_for_everybody() {
        let gate = Gate::new((9, 2), false);
        let slot = gate.join(&stranger("10.0.0.1")).ok().unwrap();
        let _places = [slot.place().ok().unwrap(), slot.place().ok().unwrap()];
        assert_eq!(slot.place().err(), Some(Full::Server));
    }

    #[test]
    fn an_account_named_like_an_address_is_another_caller() {
        let gate = Gate::new((1, 9), false);
        let _slots = [gate.join(&account("10.0.0.1")), gate.join(&stranger("10.0.0.1"))]
            .map(|slot| slot.ok().unwrap());
        // The addresses of one network of IPv6 are one caller.
        let _six = gate.join(&stranger("2001:db8::1")).ok().unwrap();
        assert_eq!(gate.join(&stranger("2001:db8::2")).err(), Some(Full::Caller));
    }
}
