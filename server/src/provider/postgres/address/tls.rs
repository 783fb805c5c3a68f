//! TLS to the database, as the parameters `sslmode` and `sslrootcert` of an address ask for it. PostgreSQL's own programs
//! read them in the same way. The client reads neither the stricter modes nor the file of roots.

use std::sync::Arc;

use escale::{Code, Error, Result};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};

/// The value of `sslrootcert` for the roots of this machine.
const OF_SYSTEM: &str = "system";

/// How far a connection is protected. Each mode has the protection of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Not at all.
    Disable,
    /// Encrypted, if the server can do that.
    Prefer,
    /// Encrypted. Anyone may be at the other end.
    Require,
    /// The other end has a certificate of a known root.
    VerifyCa,
    /// The certificate is for the host of the address.
    VerifyFull,
}

/// The parameters of TLS in an address or in the environment.
pub(super) struct Asked {
    pub(super) mode: Mode,
    root: Option<String>,
}

impl Asked {
    /// Takes the parameters out of the address. Returns them with the rest. Errors: `bad_option`.
    pub(super) fn take(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<(Self, String)> {
        let (before, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut root) = (None, None);
        let mut rest = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => root = Some(decoded(value)?),
                _ => rest.push(part),
            }
        }
        let of = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (mode, root) = (mode.or_else(|| of("PGSSLMODE")), root.or_else(|| of("PGSSLROOTCERT")));
        let mode = mode_of(mode.as_deref(), root.as_deref())?;
        let rest = if rest.is_empty() { before.to_owned() } else { format!("{before}?{}", rest.join("&")) };
        Ok((Asked { mode, root }, rest))
    }

    /// Begins TLS on connections; none without TLS. Errors: `bad_option` for roots that cannot be read.
    pub(super) fn connector(&self) -> Result<Option<MakeRustlsConnect>> {
        if self.mode == Mode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(ring::default_provider());
        let roots = match self.root.as_deref().filter(|_| self.mode >= Mode::VerifyCa) {
            Some(root) => Some(read_roots(root)?),
            None => None,
        };
        let verifier =
            Verifier { roots, provider: provider.clone(), is_named: self.mode == Mode::VerifyFull };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(Code::Internal, error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

fn bad(detail: impl std::fmt::Display) -> Error {
    Error::new(Code::BadOption, format!("the database's address: {detail}"))
}

fn mode_of(text: Option<&str>, root: Option<&str>) -> Result<Mode> {
    let is_system = root == Some(OF_SYSTEM);
    let mode = match text {
        None if is_system => Mode::VerifyFull,
        None | Some("prefer") => Mode::Prefer,
        Some("disable") => Mode::Disable,
        // Somebody who names a root wants it looked at.
        Some("require") if root.is_some() => Mode::VerifyCa,
        Some("require") => Mode::Require,
        Some("verify-ca") => Mode::VerifyCa,
        Some("verify-full") => Mode::VerifyFull,
        Some(_) => return Err(bad("sslmode is disable, prefer, require, verify-ca or verify-full")),
    };
    if is_system && matches!(mode, Mode::Prefer | Mode::VerifyCa) {
        // Anybody can have a certificate of a public root, for a name of their own.
        return Err(bad("sslrootcert=system needs sslmode=verify-full"));
    }
    match (mode, root) {
        (Mode::Prefer, Some(_)) => {
            Err(bad("sslrootcert needs an sslmode that looks at it: verify-full or verify-ca"))
        }
        (Mode::VerifyCa | Mode::VerifyFull, None) => {
            Err(bad("this sslmode needs the root of the server's certificate: sslrootcert=FILE of PEM, or \
             sslrootcert=system with verify-full"))
        }
        _ => Ok(mode),
    }
}

/// The text that `%` and two digits write in an address.
fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(value.ok_or_else(|| bad("sslrootcert: two digits must follow %"))?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad("sslrootcert: it is no text"))
}

fn read_roots(root: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if root == OF_SYSTEM {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(bad(
                "sslrootcert=system: this machine has no roots; Debian's are in ca-certificates",
            ));
        }
        return Ok(roots);
    }
    let of_file = |what: String| bad(format!("sslrootcert {root}: {what}"));
    let read: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(root).and_then(Iterator::collect);
    for certificate in read.map_err(|error| of_file(error.to_string()))? {
        roots.add(certificate).map_err(|error| of_file(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(of_file("no certificate in PEM".into()));
    }
    Ok(roots)
}

/// Looks at the server's certificate as far as the mode asks for it.
#[derive(Debug)]
struct Verifier {
    /// None if any certificate will do.
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
    /// Whether it must name the host.
    is_named: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        if let Some(roots) = &self.roots {
            let end = ParsedCertificate::try_from(end)?;
            let known = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&end, roots, between, now, known)?;
            if self.is_named {
                verify_server_name(&end, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether TLS could not begin, and the step that would help. The client has no code for that.
pub(in crate::provider::postgres) fn cure_of(error: &tokio_postgres::Error) -> Option<&'static str> {
    if !error.to_string().starts_with("error performing TLS handshake") {
        return None;
    }
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    let tls = io.and_then(|io| io.get_ref()).and_then(|inner| inner.downcast_ref::<rustls::Error>());
    Some(match (io, tls) {
        (_, Some(TlsError::InvalidCertificate(_))) => {
            "give the server a certificate that its root in sslrootcert has signed, and that names the host of the \
             address as subjectAltName; only verify-full looks at the name"
        }
        (Some(_), _) => "see the log of the database for the reason",
        (None, _) => {
            "set `ssl = on` there, or use a private network, a socket or a tunnel with sslmode=disable"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str, environment: &[(&str, &str)]) -> Result<(Asked, String)> {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Asked::take(&format!("postgres://h/d{query}"), variable)
    }

    #[test]
    fn the_parameters_of_tls_leave_the_address_and_mean_what_they_mean_elsewhere() {
        let root = "sslrootcert=/r%20oot.pem";
        for (query, environment, mode) in [
            ("", &[][..], Mode::Prefer),
            ("?sslmode=disable", &[], Mode::Disable),
            ("?sslmode=prefer", &[], Mode::Prefer),
            ("?sslmode=require", &[], Mode::Require),
            (&format!("?sslmode=require&{root}"), &[], Mode::VerifyCa),
            (&format!("?sslmode=verify-ca&{root}"), &[], Mode::VerifyCa),
            (&format!("?{root}&sslmode=verify-full"), &[], Mode::VerifyFull),
            ("?sslmode=verify-full&sslrootcert=system", &[], Mode::VerifyFull),
            ("?sslrootcert=system", &[], Mode::VerifyFull),
            ("", &[("PGSSLMODE", "require")], Mode::Require),
            ("", &[("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", "/r oot.pem")], Mode::VerifyFull),
            ("?sslmode=disable", &[("PGSSLMODE", "require")], Mode::Disable),
        ] {
            let (asked, rest) = asked(query, environment).unwrap_or_else(|error| panic!("{query}: {error}"));
            assert_eq!((asked.mode, rest.as_str()), (mode, "postgres://h/d"), "{query}");
            let is_file = |root: &String| root == "/r oot.pem" || root == OF_SYSTEM;
            assert_eq!(asked.root.as_ref().is_some_and(is_file), mode >= Mode::VerifyCa, "{query}");
        }
        let (_, rest) = asked("?a=1&sslmode=disable&b=2", &[]).expect("an address");
        assert_eq!(rest, "postgres://h/d?a=1&b=2");
    }

    #[test]
    fn parameters_that_would_protect_less_than_they_say_are_refused() {
        for (query, word) in [
            ("?sslmode=allow", "sslmode is"),
            ("?sslmode=verify", "sslmode is"),
            ("?sslmode=verify-full", "sslrootcert=FILE"),
            ("?sslmode=verify-ca", "sslrootcert=FILE"),
            ("?sslrootcert=/r", "needs an sslmode"),
            ("?sslmode=verify-ca&sslrootcert=system", "verify-full"),
            ("?sslmode=require&sslrootcert=system", "verify-full"),
            ("?sslmode=require&sslrootcert=%2", "digits"),
        ] {
            let error = asked(query, &[]).err().expect(query);
            assert!(error.code() == Code::BadOption && error.detail().contains(word), "{query}: {error}");
        }
        let (none, _) = asked("?sslmode=verify-full&sslrootcert=/none.pem", &[]).expect("an address");
        let error = none.connector().err().expect("no such file");
        assert!(error.code() == Code::BadOption && error.detail().contains("/none.pem"), "{error}");
    }
}
