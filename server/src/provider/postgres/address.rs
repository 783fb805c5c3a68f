//! The address of a database: `postgres://ROLE@HOST:PORT/NAME`, as PostgreSQL's own programs take it.

use std::fmt;

use escale::{Code, Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// The address of a PostgreSQL database. It may name several hosts. It prints no password.
#[derive(Clone)]
pub struct Address {
    pub(super) config: Config,
}

impl Address {
    /// Reads an address. `variable` reads the environment: `PGUSER` and `PGPASSWORD` count if the address has
    /// no role or password. A password belongs there, because other users of the machine can read the arguments
    /// of a command. Errors: `bad_option`.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let bad = |detail: &str| Error::new(Code::BadOption, format!("the database's address: {detail}"));
        let no_tls = || {
            bad(
                "sslmode: this server has no TLS to the database; use a socket, a private network or a tunnel",
            )
        };
        // The client has no encryption. Without this check it would ask for some, and be satisfied without. It does not
        // know the two stricter modes.
        if ["sslmode=verify-ca", "sslmode=verify-full"].iter().any(|mode| text.contains(mode)) {
            return Err(no_tls());
        }
        let mut config: Config =
            text.parse().map_err(|_| bad("it cannot be read; write it as postgres://ROLE@HOST:PORT/NAME"))?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(no_tls());
        }
        config.ssl_mode(SslMode::Disable);
        if let Some(user) = variable("PGUSER").filter(|_| config.get_user().is_none()) {
            config.user(user);
        }
        if let Some(password) = variable("PGPASSWORD").filter(|_| config.get_password().is_none()) {
            config.password(password);
        }
        if config.get_hosts().is_empty() {
            return Err(bad(
                "it names no host; a folder of a socket is written as postgres:///NAME?host=/FOLDER",
            ));
        }
        if config.get_dbname().is_none() {
            return Err(bad("it names no database; write it as postgres://ROLE@HOST:PORT/NAME"));
        }
        Ok(Address { config })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database {}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address> {
        Address::parse(text, |name| (name == "PGPASSWORD").then(|| "of the environment".to_owned()))
    }

    #[test]
    fn an_address_is_read_and_its_password_is_not_printed() {
        let address = parse("postgres://r@a,b:5433/d?target_session_attrs=read-write").expect("an address");
        assert_eq!(address.config.get_hosts().len(), 2);
        assert_eq!(address.config.get_password(), Some(&b"of the environment"[..]));
        let own = parse("postgres://r:own@a/d").expect("an address");
        assert_eq!(own.config.get_password(), Some(&b"own"[..]));
        assert!(!format!("{own} {own:?}").contains("own"), "passwords are not printed");
    }

    #[test]
    fn an_address_that_cannot_work_is_refused_with_its_reason() {
        for (text, word) in [
            ("postgres://h:port/d", "cannot be read"),
            ("postgres:///d", "no host"),
            ("postgres://h", "no database"),
            ("postgres://h/d?sslmode=require", "TLS"),
            ("postgres://h/d?sslmode=verify-full", "TLS"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.code(), Code::BadOption);
            assert!(error.detail().contains(word), "{}", error.detail());
        }
    }
}
