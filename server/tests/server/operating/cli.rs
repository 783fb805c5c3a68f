//! The command itself: its output, its exit code, and how it stops.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use escale::codec::SyncReply;
use futures_util::StreamExt;
use tokio_tungstenite::tungstenite::Message;

use crate::support::client::{JSON, exchange};
use crate::support::world::*;

fn command(folder: &Path, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_escale-server"));
    command.arg(name).arg("--data").arg(folder.join("data")).args(args).current_dir(folder);
    command
}

fn run(folder: &Path, name: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command(folder, name, args).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const IMPORT: [&str; 7] = ["--schema", "schema.json", "--org", "o", "--class", "Note", "notes.jsonl"];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schema.json"), SCHEMA).unwrap();
    std::fs::write(folder.path().join("notes.jsonl"), "{\"id\":\"a\",\"shelf\":\"one\"}\n").unwrap();
    folder
}

/// A running server. It is killed if its test fails.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn serve(folder: &Path, args: &[&str]) -> (Serving, String) {
    let mut command = command(folder, "serve", &["--schema", "schema.json", "--listen", "127.0.0.1:0"]);
    let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").expect("the line to wait for").to_owned();
    (Serving(child), address)
}

/// The files and folders of a folder that other users may read or write, at any depth.
#[cfg(unix)]
fn open_to_others(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            found.push(format!("{} {mode:o}", entry.path().display()));
        }
        if entry.path().is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

#[cfg(unix)]
#[test]
fn what_the_server_makes_is_for_its_own_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let made = folder();
    let inner = made.path().join("own");
    std::fs::create_dir(&inner).unwrap();
    for name in ["schema.json", "notes.jsonl"] {
        std::fs::copy(made.path().join(name), inner.join(name)).unwrap();
        std::fs::set_permissions(inner.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let (code, _, err) = run(&inner, "import", &IMPORT);
    assert_eq!(code, Some(0), "{err}");
    // While it serves there are the logs of SQLite, too.
    let (_serving, _) = serve(&inner, &["--upload-days", "2"]);
    let (code, _, err) = run(&inner, "backup", &["--to", "copy.db"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(inner.join("data/escale.db-wal").is_file());
    assert_eq!(open_to_others(&inner), Vec::<String>::new());
}

#[tokio::test]
async fn import_serve_hear_of_an_import_and_stop() {
    let folder = folder();
    let (code, out, err) = run(folder.path(), "import", &IMPORT);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("1 lines: 1 written, 0 deleted, 0 unchanged, in "), "{out}");
    let (mut serving, address) = serve(folder.path(), &["--base", "/api"]);
    let base = address.strip_suffix("/api").expect("the base is told");

    let body = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;
    let post = format!(
        "POST /api/o/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{}: {}\r\nContent-Length: {}\r\n\r\n{body}",
        JSON.0,
        JSON.1,
        body.len()
    );
    let reply: SyncReply = exchange(base.parse().unwrap(), post.as_bytes()).await.json();
    assert_eq!(ids(&reply.parts[0]), ["a"]);

    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/o/live")).await.unwrap();
    futures_util::SinkExt::send(&mut socket, Message::text(r#"{"session":"s","subs":["Note"]}"#))
        .await
        .unwrap();
    let text =
        |message: Option<Result<Message, _>>| message.unwrap().unwrap().into_text().unwrap().to_string();
    assert!(text(socket.next().await).starts_with(r#"{"live":["Note"],"epoch":["#));
    std::fs::write(folder.path().join("notes.jsonl"), "{\"id\":\"b\",\"shelf\":\"one\"}\n").unwrap();
    assert_eq!(run(folder.path(), "import", &IMPORT).0, Some(0));
    assert!(text(socket.next().await).starts_with(r#"{"hints":[["Note","#));

    let status = Command::new("kill").args(["-TERM", &serving.0.id().to_string()]).status().unwrap();
    assert!(status.success());
    let last = loop {
        match socket.next().await {
            // A sign of life, in case all this took long.
            Some(Ok(message)) if message.to_text().is_ok_and(|text| text == "{}") => {}
            last => break last,
        }
    };
    assert!(matches!(last, Some(Ok(Message::Close(_)))), "{last:?}");
    assert_eq!(serving.0.wait().unwrap().code(), Some(0));
    let mut log = String::new();
    std::io::Read::read_to_string(&mut serving.0.stderr.take().unwrap(), &mut log).unwrap();
    assert!(log.contains("anyone who reaches this address may enter") && log.contains("in clear"), "{log}");
}

#[test]
fn the_epoch_is_told_and_renewed() {
    let folder = folder();
    let (code, _, err) = run(folder.path(), "epoch", &[]);
    assert!(code == Some(1) && err.contains("bad_option"), "{err}");
    run(folder.path(), "import", &IMPORT);
    let first = run(folder.path(), "epoch", &[]).1;
    assert_eq!(run(folder.path(), "epoch", &[]).1, first);
    let renewed = run(folder.path(), "epoch", &["--renew"]).1;
    assert_ne!(renewed, first);
    assert_eq!(run(folder.path(), "epoch", &[]).1, renewed);
    let of_org = run(folder.path(), "epoch", &["--renew", "--org", "o"]).1;
    assert_ne!(of_org, renewed);
    assert_eq!(run(folder.path(), "epoch", &["--org", "o"]).1, of_org);
    assert_eq!(run(folder.path(), "epoch", &[]).1, renewed, "another org's is as it was");
    let (code, _, err) = run(folder.path(), "epoch", &["--org", "nobody"]);
    assert!(code == Some(1) && err.contains("bad_option") && err.contains("nobody"), "{err}");
}

#[test]
fn what_cannot_be_done_is_said_with_its_cure() {
    let folder = folder();
    let serve = |args: &[&str]| {
        let (code, out, err) = run(folder.path(), "serve", args);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        err
    };
    assert!(serve(&["--schema", "none.json"]).contains("bad_option"));
    assert!(serve(&["--schema", "notes.jsonl"]).contains("bad_schema"));
    assert!(
        serve(&["--schema", "schema.json", "--delta", "1500", "--skew", "501"]).contains("at least 1501")
    );
    assert!(serve(&["--schema", "schema.json", "--retention", "0"]).contains("--retention"));
    assert!(serve(&["--schema", "schema.json", "--listen", "nowhere"]).contains("--listen"));
    assert!(serve(&["--schema", "schema.json", "--origin", "app.example"]).contains("--origin"));
    assert!(serve(&["--schema", "schema.json", "--tokens", "none.json"]).contains("--tokens"));
    assert!(serve(&["--schema", "schema.json", "--site-key", "schema.json"]).contains("--site-key"));
    assert!(
        serve(&["--schema", "schema.json", "--tls-cert", "none", "--tls-key", "none"]).contains("--tls-cert")
    );
    std::fs::write(folder.path().join("notes.jsonl"), "{\"id\":\"a\"}\n{\"id\":1}\n").unwrap();
    let (code, _, err) = run(folder.path(), "import", &IMPORT);
    assert!(code == Some(1) && err.contains("bad_key") && err.contains("line 2"), "{err}");
    let (code, _, err) = run(
        folder.path(),
        "import",
        &["--schema", "schema.json", "--org", "o", "--class", "X", "notes.jsonl"],
    );
    assert!(code == Some(1) && err.contains("unknown_class"), "{err}");
    assert_eq!(run(folder.path(), "serve", &["--nonsense"]).0, Some(2));
    let (code, _, err) = run(folder.path(), "serve", &["--schema", "schema.json", "--tls-cert", "cert.pem"]);
    assert!(code == Some(2) && err.contains("--tls-key"), "{err}");
}

#[test]
fn the_log_is_json_if_asked() {
    let folder = folder();
    let args = ["--log", "json", "--schema", "schema.json", "--listen", "nowhere"];
    let (_, _, err) = run(folder.path(), "serve", &args);
    let lines: Vec<serde_json::Value> = err
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let clear = lines.iter().find(|line| line["message"].as_str().unwrap().contains("rests in clear"));
    let clear = clear.expect("the warning");
    assert_eq!(clear["level"], "WARN");
    assert!(clear["timestamp"].is_string(), "{clear}");
}

/// `schema check` needs no database, and says of a mistake the place that a session says.
#[test]
fn a_schema_is_checked_without_a_database() {
    let folder = folder();
    let check = |text: &str| {
        std::fs::write(folder.path().join("schema.json"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_escale-server"));
        let output = command.args(["schema", "check", "schema.json"]).current_dir(folder.path()).output();
        let Output { status, stdout, stderr } = output.unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    };
    let good = r#"{"Todo":{"key":["id"],"indexes":{"done":"boolean"}},"List":{"key":["id"]}}"#;
    assert_eq!(check(good), (Some(0), "schema.json: List, Todo\n".to_owned(), String::new()));
    let (code, out, err) = check(r#"{"Todo":{"key":["id"],"indexes":{"done":"bool"}}}"#);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let said =
        escale::model::schema::Schema::from_json(r#"{"Todo":{"key":["id"],"indexes":{"done":"bool"}}}"#);
    assert!(err.contains("bad_schema") && err.contains(said.unwrap_err().detail()), "{err}");
    assert!(check("{").2.contains("schema.json"), "the file is named");
    // Rights are read too, and collections that no rule of `read` decides are named.
    let (code, _, err) = check(r#"{"Todo":{"key":["id"],"rights":{"read":"mine"}}}"#);
    assert!(code != Some(0) && err.contains("class Todo: rights.read: "), "{err}");
    let dead =
        r#"{"Todo":{"key":["id"],"collections":{"list":{"key":["list"]}},"rights":{"read":{"own":"who"}}}}"#;
    let (code, out, _) = check(dead);
    assert!(code == Some(0) && out.contains("no account may ever read Todo/list"), "{out}");
    assert!(!folder.path().join("data").exists(), "no database is made");
}

#[cfg(feature = "postgres")]
#[test]
fn the_commands_take_the_address_of_a_database() {
    use crate::support::postgres::server;
    let (folder, database) = (folder(), server().database());
    let url = database.url();
    let run = |name: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_escale-server"));
        let output = command.arg(name).args(["--data", &url]).args(args).current_dir(folder.path()).output();
        let Output { status, stdout, stderr } = output.unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    };
    let (code, _, err) = run("epoch", &[]);
    assert!(code == Some(1) && err.contains("no_store"), "nothing is made by a look: {err}");
    let (code, out, err) = run("import", &IMPORT);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("1 lines: 1 written, 0 deleted, 0 unchanged, in "), "{out}");
    assert!(run("import", &IMPORT).1.starts_with("1 lines: 0 written, 0 deleted, 1 unchanged"));
    let first = run("epoch", &[]).1;
    let renewed = run("epoch", &["--renew"]).1;
    assert_ne!(renewed, first);
    assert_eq!(run("epoch", &["--org", "o"]).1, renewed);
    assert_eq!(run("epoch", &["--adopt"]), (Some(0), renewed, String::new()));
    let args = ["--schema", "schema.json", "--listen", "nowhere", "--failover", "lossless"];
    assert!(run("serve", &args).2.contains("--listen"));
    let output = command(folder.path(), "epoch", &["--adopt"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("--adopt is for PostgreSQL"));
}

#[tokio::test]
async fn account_invites_and_changes_roles_by_name() {
    let folder = folder();
    let org = ["--schema", "schema.json", "--org", "o"];
    let account = |args: &[&str]| run(folder.path(), "account", &[&org, args].concat());
    let (code, out, err) = account(&["invite", "--role", "admin"]);
    assert_eq!((code, out.trim().len()), (Some(0), 22), "{err}");
    let (code, _, err) = account(&["invite", "--role", "owner"]);
    assert!(code == Some(1) && err.contains("--role: one of read, write, admin"), "{err}");
    let (code, _, err) = account(&["role", "--login", "ada", "--role", "read"]);
    assert!(code == Some(1) && err.contains("no open account of the org has this login"), "{err}");
    let (_serving, address) = serve(folder.path(), &["--sign-up", "invited"]);
    let body = r#"{"p":1,"do":"start","login":"ada","wrap":"passphrase"}"#;
    let request = format!(
        "POST /o/account HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(address.parse().unwrap(), request.as_bytes()).await;
    assert_eq!(answer.status, 200);
}

#[test]
fn the_operators_guide_has_every_option_and_every_command() {
    let help = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_escale-server")).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let guide = include_str!("../../../../docs/server.md");
    let (_, options) = guide.split_once("## All options of `serve`").unwrap();
    let serve = help(&["serve", "--help"]);
    let named: Vec<&str> = serve.lines().filter_map(|line| line.trim().strip_prefix("--")).collect();
    assert!(named.len() > 25, "{serve}");
    for line in named {
        let option = line.split([' ', '=']).next().unwrap();
        let is_listed = ["`", " "].iter().any(|end| options.contains(&format!("`--{option}{end}")));
        assert!(is_listed || option == "help", "--{option} is not in docs/server.md");
    }
    let all = help(&["--help"]);
    let (_, commands) = all.split_once("Commands:\n").unwrap();
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().unwrap();
        assert!(name == "help" || options.contains(&format!("`{name}`")) || name == "serve", "{name}");
    }
}
