//! Which pages may call: those of this machine, and those given with `--origin`.

use escale::{Code, Error, Result};

/// The allowed origins.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    others: Vec<String>,
}

impl Origins {
    /// Allows pages of this machine, and of these origins (`https://app.example`, without a path).
    pub fn new(others: &[String]) -> Result<Self> {
        let mut checked = Vec::with_capacity(others.len());
        for text in others {
            let origin = text.to_ascii_lowercase();
            let origin = origin.strip_suffix('/').unwrap_or(&origin);
            if split(origin).is_none() {
                let detail = format!("--origin {text}: write it as https://app.example or http://host:port");
                return Err(Error::new(Code::BadOption, detail));
            }
            checked.push(origin.to_owned());
        }
        Ok(Origins { others: checked })
    }

    /// Whether a page of that origin may call.
    pub fn allows(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let local = split(&origin).is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
        local || self.others.contains(&origin)
    }
}

/// The host of a well-formed origin: scheme, host, an optional port, and nothing else.
fn split(origin: &str) -> Option<&str> {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
    let (host, port) = if rest.starts_with('[') {
        let (host, after) = rest.split_at(rest.find(']')? + 1);
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return None,
        }
    } else {
        match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        }
    };
    let port_ok =
        port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok());
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let host_ok = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':'));
    (port_ok && host_ok).then_some(host)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_machine_are_allowed_on_any_port() {
        let origins = Origins::default();
        for origin in [
            "http://localhost",
            "https://localhost:8443",
            "http://127.0.0.1:7700",
            "http://[::1]:1",
            "http://LOCALHOST:3000",
            "http://[::1]",
        ] {
            assert!(origins.allows(origin), "{origin}");
        }
    }

    #[test]
    fn what_only_looks_like_this_machine_is_refused() {
        let origins = Origins::new(&["https://app.example".into()]).unwrap();
        for origin in [
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "http://evil.example/localhost",
            "http://127.0.0.1.evil.example",
            "http://localhost:80.evil.example",
            "http://localhost:99999",
            "http://localhost:",
            "http://[::1]evil.example",
            "http://[::1].evil.example",
            "ftp://localhost",
            "localhost",
            "null",
            "",
            "http://",
            "https://app.example:8443",
            "http://app.example",
            "https://app.example.evil.example",
        ] {
            assert!(!origins.allows(origin), "{origin}");
        }
        assert!(origins.allows("https://app.example"));
        assert!(Origins::new(&["app.example".into()]).is_err());
        assert!(Origins::new(&["https://app.example/path".into()]).is_err());
    }
}
