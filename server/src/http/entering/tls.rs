//! TLS of the public listener (`--tls-cert`, `--tls-key`). HTTP/1.1 runs over it, because WebSockets need that.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use escale::{Code, Error, Result};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::file_stamp::FileStamp;

/// A certificate and its key. The server reads both files again when one of them has changed.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    acceptor: TlsAcceptor,
    stamps: [FileStamp; 2],
}

impl Tls {
    /// Reads files of PEM: the certificate with those that lead to a root, and its private key. Errors: `bad_option`, if
    /// a file cannot be read, or the key is not that of the certificate.
    pub fn from_files(cert: PathBuf, key: PathBuf) -> Result<Self> {
        let stamps = stamps(&cert, &key);
        let acceptor = read(&cert, &key)?;
        Ok(Tls { cert, key, loaded: Mutex::new(Loaded { acceptor, stamps }) })
    }

    /// The acceptor for the next connection. While the files do not fit each other, it is that of the files before.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.cert, &self.key);
        let mut pairs = stamps.iter().zip(&loaded.stamps);
        if pairs.any(|(now, before)| now.may_differ_from(before)) {
            match read(&self.cert, &self.key) {
                Ok(acceptor) => loaded.acceptor = acceptor,
                Err(error) => tracing::error!(%error, "the certificate before stays in use"),
            }
            loaded.stamps = stamps;
        }
        loaded.acceptor.clone()
    }
}

fn stamps(cert: &Path, key: &Path) -> [FileStamp; 2] {
    [FileStamp::of(cert), FileStamp::of(key)]
}

fn read(cert: &Path, key: &Path) -> Result<TlsAcceptor> {
    let bad = |option: &str, path: &Path, what: String| {
        Error::new(Code::BadOption, format!("{option} {}: {what}", path.display()))
    };
    let bad_cert = |what: String| bad("--tls-cert", cert, what);
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|e| bad_cert(e.to_string()))?;
    if chain.is_empty() {
        return Err(bad_cert("no certificate in PEM".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| bad("--tls-key", key, e.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|e| bad_cert(e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
