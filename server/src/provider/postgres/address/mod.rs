//! The address of a database: `postgres://ROLE@HOST:PORT/NAME`, as PostgreSQL's own programs take it.

mod tls;

use std::fmt;

use escale::{Code, Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(super) use tls::cure_of;
use tls::{Asked, Mode};

/// The address of a PostgreSQL database. It may name several hosts. It prints no password.
#[derive(Clone)]
pub struct Address {
    pub(super) config: Config,
    /// Begins TLS on each connection; none if there is none.
    pub(super) tls: Option<MakeRustlsConnect>,
}

impl Address {
    /// Reads an address. `variable` reads the environment: `PGUSER`, `PGPASSWORD`, `PGSSLMODE` and `PGSSLROOTCERT`
    /// count if the address does not say them. A password belongs there, because other users of the machine can read the arguments
    /// of a command. Errors: `bad_option`.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let bad = |detail: &str| Error::new(Code::BadOption, format!("the database's address: {detail}"));
        let (asked, text) = Asked::take(text, &variable)?;
        let mut config: Config =
            text.parse().map_err(|_| bad("it cannot be read; write it as postgres://ROLE@HOST:PORT/NAME"))?;
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
        // Nobody listens to a socket of this machine, and PostgreSQL has no TLS there.
        let is_local = config.get_hostaddrs().is_empty()
            && config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)));
        let tls = if is_local { None } else { asked.connector()? };
        config.ssl_mode(match asked.mode {
            _ if tls.is_none() => SslMode::Disable,
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        Ok(Address { config, tls })
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
    fn tls_is_for_the_network() {
        let mode = |text: &str| {
            let address = parse(text).expect(text);
            assert_eq!(address.tls.is_some(), address.config.get_ssl_mode() != SslMode::Disable);
            address.config.get_ssl_mode()
        };
        assert_eq!(mode("postgres://h/d"), SslMode::Prefer);
        assert_eq!(mode("postgres://h/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://a,b/d?sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres:///d?host=/run&sslmode=require"), SslMode::Disable);
        assert_eq!(mode("postgres:///d?host=/run&hostaddr=127.0.0.1&sslmode=require"), SslMode::Require);
    }

    #[test]
    fn an_address_that_cannot_work_is_refused_with_its_reason() {
        for (text, word) in [
            ("postgres://h:port/d", "cannot be read"),
            ("postgres:///d", "no host"),
            ("postgres://h", "no database"),
            ("postgres://h/d?sslmode=verify-full", "sslrootcert"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.code(), Code::BadOption);
            assert!(error.detail().contains(word), "{}", error.detail());
        }
    }
}
