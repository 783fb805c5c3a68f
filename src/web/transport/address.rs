//! The two addresses of an org on a server: its HTTP endpoint and its socket.

use web_sys::Url;

use crate::error::{Code, Error, Result, fail};
use crate::web::platform::global::{global, property};

/// The addresses of one org.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `{base}/{org}/sync`, for requests.
    pub sync: String,
    /// `{base}/{org}/live` with `ws` in the place of `http`, for the socket.
    pub live: String,
}

impl Address {
    /// The addresses of an org under a base of http or https. A base without a host is relative to the page.
    ///
    /// Error: `bad_option` if the base cannot be used: another scheme, a name or password in it (they would
    /// end up in logs), a query or a fragment.
    pub fn new(base: &str, org: &str) -> Result<Self> {
        let url = parse(base)?;
        let scheme = match url.protocol().as_str() {
            "http:" => "",
            "https:" => "s",
            _ => return refused("its scheme is neither http nor https"),
        };
        if !url.username().is_empty() || !url.password().is_empty() {
            return refused("it holds a name or a password");
        }
        if !url.search().is_empty() || !url.hash().is_empty() {
            return refused("it has a query or a fragment");
        }
        if matches!(org, "" | "." | "..") {
            // Browsers resolve dots before they send, however the dots are escaped.
            return fail(Code::BadOption, "`org` must not be empty or made of dots alone");
        }
        let (host, path) = (url.host(), url.pathname());
        let path = path.trim_end_matches('/');
        let org = String::from(js_sys::encode_uri_component(org));
        Ok(Address {
            sync: format!("http{scheme}://{host}{path}/{org}/sync"),
            live: format!("ws{scheme}://{host}{path}/{org}/live"),
        })
    }
}

fn parse(base: &str) -> Result<Url> {
    let here = global("location").and_then(|location| property(&location, "href")?.as_string());
    let url = match here {
        Some(here) => Url::new_with_base(base, &here),
        None => Url::new(base),
    };
    url.map_err(|_| Error::new(Code::BadOption, "`server` is not a URL"))
}

fn refused<T>(why: &str) -> Result<T> {
    fail(Code::BadOption, format!("`server` cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    fn an_org_has_two_addresses() {
        let address = Address::new("http://localhost:7700", "demo").expect("address");
        assert_eq!(address.sync, "http://localhost:7700/demo/sync");
        assert_eq!(address.live, "ws://localhost:7700/demo/live");
        let address = Address::new("https://example.org/api//", "a/b ?#").expect("address");
        assert_eq!(address.sync, "https://example.org/api/a%2Fb%20%3F%23/sync");
        assert_eq!(address.live, "wss://example.org/api/a%2Fb%20%3F%23/live");
    }

    #[wasm_bindgen_test]
    fn what_cannot_be_an_address_is_refused_by_name() {
        for base in
            ["ftp://x/", "http://", "https://me:secret@x/", "http://x/?a", "http://x/#a", "javascript:1"]
        {
            let error = Address::new(base, "demo").expect_err(base);
            assert_eq!(error.code(), Code::BadOption, "{base}");
            assert!(!error.detail().contains("secret"));
        }
        for org in ["", ".", ".."] {
            assert_eq!(Address::new("http://x", org).expect_err("org").code(), Code::BadOption);
        }
    }
}
