//! TLS of the public listener: requests and sockets over it, callers that do not speak it, and files that change.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use escale::Code;
use escale::codec::{Format, ServerFrame, SyncReply};
use escale_server::http::{Running, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::client_async;

use crate::support::client::*;
use crate::support::world::*;

const PULL: &str = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;

fn given(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/requests/certificates").join(name)
}

fn der(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(given(name)).unwrap()
}

/// Files of a server, which it finds again under the same names if they change.
struct Files(tempfile::TempDir);

impl Files {
    fn of(name: &str) -> Self {
        let files = Files(tempfile::tempdir().unwrap());
        files.take("cert", name);
        files.take("key", name);
        files
    }

    fn take(&self, part: &str, name: &str) {
        std::fs::copy(given(&format!("{name}.{part}.pem")), self.path(part)).unwrap();
    }

    fn path(&self, part: &str) -> PathBuf {
        self.0.path().join(part)
    }

    fn tls(&self) -> Tls {
        Tls::from_files(self.path("cert"), self.path("key")).unwrap()
    }
}

async fn open(address: SocketAddr) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    for name in ["first.cert.pem", "second.cert.pem"] {
        roots.add(der(name)).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

/// The certificate that the server shows to a new caller.
async fn shown(running: &Running) -> CertificateDer<'static> {
    let stream = open(running.address).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

async fn answer(running: &Running) -> Answer {
    let mut stream = open(running.address).await;
    let head =
        "POST /o/sync HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{PULL}", PULL.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    parse(&answer)
}

async fn pull(running: &Running) -> SyncReply {
    answer(running).await.json()
}

/// RFC 6797: over plain HTTP the header has no meaning, and a proxy in front decides by itself.
#[tokio::test]
async fn a_browser_that_was_here_comes_back_by_tls_alone() {
    let world = world();
    let files = Files::of("first");
    let running = serve(&world, |options| options.tls = Some(files.tls())).await;
    let header = "strict-transport-security";
    assert_eq!(answer(&running).await.headers[header], "max-age=63072000");
    running.stop().await;
    let running = serve(&world, |_| {}).await;
    assert!(!post_json(&running, "/o/sync", PULL).await.headers.contains_key(header));
    running.stop().await;
}

#[tokio::test]
async fn requests_and_sockets_go_over_tls() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let files = Files::of("first");
    let running = serve(&world, |options| options.tls = Some(files.tls())).await;
    assert_eq!(ids(&pull(&running).await.parts[0]), ["a"]);
    let stream = open(running.address).await;
    let (mut socket, _) = client_async("wss://localhost/o/live", stream).await.unwrap();
    say(&mut socket, Format::Json, None, &[def("Note")]).await;
    let (_, frame) = hear(&mut socket).await.unwrap();
    assert!(matches!(frame, ServerFrame::Live { .. }), "{frame:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_caller_without_tls_is_refused_and_a_silent_one_leaves() {
    let world = world();
    let files = Files::of("first");
    let running = serve(&world, |options| {
        options.tls = Some(files.tls());
        options.header_max = Duration::from_millis(150);
    })
    .await;
    for words in ["GET /o/live HTTP/1.1\r\n\r\n", ""] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer));
        drop(read.await.expect("the server ends the connection"));
        assert!(!answer.starts_with(b"HTTP"), "{words:?}");
    }
    assert_eq!(pull(&running).await.seq, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_as_soon_as_its_key_fits() {
    let world = world();
    let files = Files::of("first");
    let running = serve(&world, |options| options.tls = Some(files.tls())).await;
    assert_eq!(shown(&running).await, der("first.cert.pem"));
    files.take("cert", "second");
    assert_eq!(shown(&running).await, der("first.cert.pem"), "the key is not there yet");
    files.take("key", "second");
    assert_eq!(shown(&running).await, der("second.cert.pem"));
    std::fs::remove_file(files.path("key")).unwrap();
    assert_eq!(shown(&running).await, der("second.cert.pem"), "the files before stay in use");
    running.stop().await;
}

#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    let refused = |cert: &str, key: &str| {
        let error = Tls::from_files(given(cert), given(key)).err().expect("refused");
        assert_eq!(error.code(), Code::BadOption);
        error.to_string()
    };
    for (cert, key, option) in [
        ("first.cert.pem", "second.key.pem", "--tls-cert "),
        ("none.pem", "first.key.pem", "--tls-cert "),
        ("first.key.pem", "first.key.pem", "--tls-cert "),
        ("first.cert.pem", "first.cert.pem", "--tls-key "),
        ("first.cert.pem", "none.pem", "--tls-key "),
    ] {
        let said = refused(cert, key);
        assert!(said.contains(option), "{cert}, {key}: {said}");
    }
}
