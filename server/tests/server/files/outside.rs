//! Files on the real binary in a process of its own: killed at any moment, with a site key, and audited.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use escale_server::engine::sha_of;

use crate::operating::journal::holds;
use crate::support::chance::Chance;
use crate::support::client::{Answer, PATIENCE, parse};
use crate::support::outside::Outside;

/// The answer to a request, or none if the server disappeared meanwhile.
fn ask(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = answer.windows(4).any(|window| window == b"\r\n\r\n").then(|| parse(&answer))?;
    let length = answer.headers.get("content-length").and_then(|length| length.parse().ok());
    (length == Some(answer.body.len())).then_some(answer)
}

/// Runs `files` on the folder. Returns whether it succeeded, and its output.
fn audit(folder: &Path, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_escale-server"));
    command.args(["files", "--audit", "--schema", "schema.json", "--data", "data"]).args(args);
    let output = command.current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// R26: an upload that was answered is there, whenever the process ends.
#[test]
fn r26_what_was_answered_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut chance = Chance::new();
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for round in 0..8_u8 {
        let server = Outside::start(folder.path(), &[]);
        let address = server.address;
        for bytes in &kept {
            let answer = ask(address, "GET", &format!("/o/file/{}", sha_of(bytes)), b"").expect("an answer");
            assert_eq!((answer.status, &answer.body), (200, bytes));
        }
        let objects: Vec<Vec<u8>> =
            (0..12).map(|n| [round, n].repeat(chance.below(60_000) as usize + 1)).collect();
        let uploads = std::thread::spawn(move || {
            let upload = |bytes: &Vec<u8>| {
                let answer = ask(address, "PUT", &format!("/o/file/{}", sha_of(bytes)), bytes);
                answer.is_some_and(|answer| answer.status == 200)
            };
            objects.into_iter().filter(upload).collect::<Vec<_>>()
        });
        // A moment that depends on the machine: each run ends the process elsewhere.
        for _ in 0..chance.below(40) {
            let _ = ask(address, "GET", "/", b"");
        }
        server.kill();
        kept.extend(uploads.join().unwrap());
    }
    let server = Outside::start(folder.path(), &[]);
    for bytes in &kept {
        let answer =
            ask(server.address, "GET", &format!("/o/file/{}", sha_of(bytes)), b"").expect("an answer");
        assert_eq!((answer.status, &answer.body), (200, bytes));
    }
    drop(server);
    let (is_good, said) = audit(folder.path(), &[]);
    assert!(is_good && said.contains(": 0 lost, 0 unknown; 0 unknown orgs\n"), "{said}");
}

#[test]
fn with_a_site_key_the_folder_of_files_shows_nothing() {
    const SECRET: &str = "a sentence that nobody else would write";
    let folder = tempfile::tempdir().unwrap();
    let path = format!("/o/file/{}", sha_of(SECRET.as_bytes()));
    let server = Outside::start(folder.path(), &[]);
    assert_eq!(ask(server.address, "PUT", &path, SECRET.as_bytes()).expect("an answer").status, 200);
    server.kill();
    assert!(holds(&folder.path().join("data/files"), SECRET), "this search can find it");
    std::fs::write(folder.path().join("key"), "07".repeat(32)).unwrap();
    for _ in 0..2 {
        let server = Outside::start(folder.path(), &["--site-key", "key", "--seal"]);
        assert!(!holds(folder.path(), SECRET), "sealed at the first start with the key");
        assert_eq!(ask(server.address, "GET", &path, b"").expect("an answer").body, SECRET.as_bytes());
        server.kill();
    }
}

#[test]
fn an_audit_names_each_difference_and_repairs_some() {
    let folder = tempfile::tempdir().unwrap();
    let server = Outside::start(folder.path(), &["--files", "objects"]);
    let lost = sha_of(b"lost");
    for bytes in [&b"lost"[..], b"kept"] {
        let answer = ask(server.address, "PUT", &format!("/o/file/{}", sha_of(bytes)), bytes);
        assert_eq!(answer.expect("an answer").status, 200);
    }
    let run = |args: &[&str]| audit(folder.path(), &[&["--files", "objects"], args].concat());
    assert_eq!(
        run(&[]).1,
        "2 objects: 0 lost, 0 unknown; 0 unknown orgs\ndry run: nothing was written; the same with --apply writes it\n"
    );
    let of_org = std::fs::read_dir(folder.path().join("objects")).unwrap().next().unwrap().unwrap().path();
    let in_letters = of_org.join(&lost[..2]);
    let object = std::fs::read_dir(&in_letters).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(object, in_letters.join(format!("{lost}.unknown"))).unwrap();
    for apply in [false, true] {
        let (is_good, said) = run(if apply { &["--apply"] } else { &[] });
        assert!(is_good && said.contains(&format!("lost: o {lost}\n")), "{said}");
        assert!(said.contains(&format!("unknown: o {lost}.unknown\n")), "{said}");
        assert!(said.contains("2 objects: 1 lost, 1 unknown; 0 unknown orgs\n"), "{said}");
    }
    assert!(
        run(&[]).1.starts_with("1 objects: 0 lost, 0 unknown; 0 unknown orgs\n"),
        "it was forgotten, and is to be removed"
    );
    let answer = ask(server.address, "GET", &format!("/o/file/{lost}"), b"").expect("an answer");
    assert_eq!(answer.status, 404);
    std::fs::rename(&of_org, of_org.with_file_name("younger")).unwrap();
    let (_, said) = run(&["--apply"]);
    assert!(said.starts_with("lost: o ") && said.contains(": folder younger\n"), "{said}");
    assert!(of_org.with_file_name("younger").exists(), "it may be another server's");
}
