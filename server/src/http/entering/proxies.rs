//! Proxies in front of the server: the address of a caller is in their header, and counts for the limits.

use std::net::IpAddr;

use axum::http::HeaderMap;
use escale::{Code, Error, Result};
use ipnet::IpNet;

use crate::accounts::Network;

/// The network of the caller.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Peer(pub Network);

/// The networks whose `X-Forwarded-For` is believed.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Reads networks (`10.0.0.0/8`) and addresses. Errors: `bad_option`.
    pub fn new(texts: &[String]) -> Result<Self> {
        let read = |text: &String| {
            let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| {
                let detail = format!("--trusted-proxy {text}: write it as 10.0.0.0/8 or 127.0.0.1");
                Error::new(Code::BadOption, detail)
            })
        };
        texts.iter().map(read).collect::<Result<_>>().map(Proxies)
    }

    /// The address of a caller whose connection comes from `peer`. Each proxy appends the address that called it.
    /// The caller is the last address that is no proxy of ours. A caller can make up those before it.
    pub(in crate::http) fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trusts(peer) {
            return peer;
        }
        let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
        let named: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
        let mut caller = peer;
        for text in named.into_iter().rev() {
            let Ok(address) = text.parse() else { break };
            caller = IpAddr::to_canonical(&address);
            if !self.trusts(address) {
                break;
            }
        }
        caller
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn caller(trusted: &[&str], peer: &str, lines: &[&str]) -> String {
        let trusted: Vec<String> = trusted.iter().map(|&text| text.to_owned()).collect();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        Proxies::new(&trusted).unwrap().caller(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        assert_eq!(caller(&[], "10.0.0.1", &["1.2.3.4"]), "10.0.0.1");
        assert_eq!(caller(&["127.0.0.1"], "10.0.0.1", &["1.2.3.4"]), "10.0.0.1");
        assert_eq!(caller(&["10.0.0.0/8"], "10.0.0.1", &["1.2.3.4"]), "1.2.3.4");
        assert_eq!(caller(&["::1"], "::1", &["2001:db8::7"]), "2001:db8::7");
    }

    #[test]
    fn addresses_before_the_first_stranger_may_be_made_up() {
        let trusted = ["10.0.0.0/8"];
        assert_eq!(caller(&trusted, "10.0.0.1", &["6.6.6.6, 1.2.3.4"]), "1.2.3.4");
        assert_eq!(caller(&trusted, "10.0.0.1", &["6.6.6.6, 1.2.3.4, 10.0.0.9"]), "1.2.3.4");
        assert_eq!(caller(&trusted, "10.0.0.1", &["6.6.6.6", "1.2.3.4"]), "1.2.3.4");
        assert_eq!(caller(&trusted, "10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    }

    #[test]
    fn a_header_that_says_nothing_leaves_the_proxy() {
        for line in ["", "unknown", "1.2.3.4:55", "_hidden"] {
            assert_eq!(caller(&["10.0.0.0/8"], "10.0.0.1", &[line]), "10.0.0.1", "{line}");
        }
        assert!(Proxies::new(&["10.0.0.0/99".into()]).is_err());
    }
}
