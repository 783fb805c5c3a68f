//! Networks: callers as the limits see them.
//!
//! Addresses of IPv6 cost nothing: the holder of one has at least the 2^64 of its network. So the limits count networks,
//! and never whole addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An address of IPv4, or the network of 64 bits of an address of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(IpAddr);

/// The networks that one provider's customer may have: 48 bits of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site([u16; 3]);

impl Network {
    /// The network of an address. A listener of both families sees an address of IPv4 within one of IPv6.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(six) => {
                let [a, b, c, d, ..] = six.segments();
                Network(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
            }
            four @ IpAddr::V4(_) => Network(four),
        }
    }

    /// The site of a network; none of IPv4.
    pub fn site(self) -> Option<Site> {
        match self.0 {
            IpAddr::V4(_) => None,
            IpAddr::V6(six) => {
                let [a, b, c, ..] = six.segments();
                Some(Site([a, b, c]))
            }
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::of(text.parse().unwrap())
    }

    #[test]
    fn the_addresses_of_a_network_are_one_caller_and_those_of_ipv4_are_many() {
        assert_eq!(network("2001:db8:0:1::5"), network("2001:db8:0:1:9:9:9:9"));
        assert_ne!(network("2001:db8:0:1::5"), network("2001:db8:0:2::5"));
        assert_eq!(network("2001:db8:0:1::5").site(), network("2001:db8:0:2::5").site());
        assert_ne!(network("2001:db8:0:1::5").site(), network("2001:db8:1:1::5").site());
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
        assert_eq!(network("10.0.0.1").site(), None);
    }

    /// A listener on `[::]` sees callers of IPv4 so: they are not all in the network of zeros.
    #[test]
    fn an_address_of_ipv4_within_one_of_ipv6_is_itself() {
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("::ffff:10.0.0.1"), network("::ffff:10.0.0.2"));
    }
}
