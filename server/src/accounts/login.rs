//! The form of a login: the profile UsernameCaseMapped of PRECIS (RFC 8265).
//!
//! A sign-up takes a login in this form alone, so logins that the profile maps together are one account. The server maps no
//! login of a request: the client derives secrets from it.

use escale::{Code, Error, Result};
use precis_profiles::UsernameCaseMapped;
use precis_profiles::precis_core::profile::PrecisFastInvocation;

/// How often the profile is applied: RFC 8264, section 7.
const TIMES: usize = 4;

/// The login that somebody has typed, in its form. Errors: `bad_login`.
pub fn login_of(typed: &str) -> Result<String> {
    let mut login = typed.to_owned();
    for _ in 0..TIMES {
        let next = UsernameCaseMapped::enforce(login.as_str()).map_err(|_| refused())?.into_owned();
        if next == login {
            return Ok(login);
        }
        login = next;
    }
    Err(refused())
}

/// Refuses a login in another form. Errors: `bad_login`.
pub(super) fn check_login(login: &str) -> Result<()> {
    if login_of(login)? == login { Ok(()) } else { Err(refused()) }
}

fn refused() -> Error {
    let what =
        "a login has lower-case letters, digits and visible ASCII, in Unicode's form NFC, without spaces";
    Error::new(Code::BadLogin, what)
}
