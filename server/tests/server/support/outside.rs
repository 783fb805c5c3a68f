//! The real binary in a separate process, and blocking callers of it, for tests that kill it or measure it
//! from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use escale::codec::{Format, SyncReply, decode};

use crate::support::client::{Answer, PATIENCE, parse};
use crate::support::world::SCHEMA;

/// A running server; killed when dropped.
pub struct Outside {
    pub address: SocketAddr,
    child: Child,
}

impl Outside {
    /// Serves `data` in that folder, with additional arguments.
    pub fn start(folder: &Path, args: &[&str]) -> Self {
        Self::start_on(folder, "data", args)
    }

    /// The same for another database. The schema is in that folder.
    pub fn start_on(folder: &Path, data: &str, args: &[&str]) -> Self {
        Self::start_at(folder, data, "127.0.0.1:0", args)
    }

    /// The same at an address, as after a restart.
    pub fn start_at(folder: &Path, data: &str, listen: &str, args: &[&str]) -> Self {
        std::fs::write(folder.join("schema.json"), SCHEMA).unwrap();
        Self::run(folder, data, listen, args)
    }

    /// The same with the schema that is in the folder.
    pub fn with_schema(folder: &Path, schema: &str, args: &[&str]) -> Self {
        std::fs::write(folder.join("schema.json"), schema).unwrap();
        Self::run(folder, "data", "127.0.0.1:0", args)
    }

    fn run(folder: &Path, data: &str, listen: &str, args: &[&str]) -> Self {
        let built = std::env::var("CROWD_SERVER").ok();
        let mut command = Command::new(built.as_deref().unwrap_or(env!("CARGO_BIN_EXE_escale-server")));
        command.args(["serve", "--schema", "schema.json", "--data", data, "--listen", listen]);
        command.args(args).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect("the line to wait for");
        Outside { address: address.parse().unwrap(), child }
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.end();
    }

    /// The time that it has worked, over all cores; none if the system has no such file.
    pub fn worked(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name of the program may hold spaces. Behind it, the 12th and 13th words count hundredths of a second.
        let words: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks: u64 = words.get(11..13)?.iter().map(|word| word.parse::<u64>().unwrap_or(0)).sum();
        Some(Duration::from_millis(ticks * 10))
    }

    pub fn end(&mut self) {
        // It may have ended by itself: then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal by name.
    #[cfg(feature = "postgres")]
    pub fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.child.id().to_string()];
        assert!(Command::new("kill").args(arguments).status().unwrap().success());
    }

    /// A line of `/proc/PID/status`, in bytes; none if the system has no such file.
    pub fn memory(&self, line: &str) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let found = text.lines().find_map(|each| each.strip_prefix(line)?.strip_prefix(':'))?;
        found.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.end();
    }
}

/// The answer to a request in msgpack, or none if the server disappeared meanwhile.
pub fn post(address: SocketAddr, token: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /o/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: {}\r\nContent-Length: {}\r\n\r\n",
        Format::Msgpack.content_type(),
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    if !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        return None;
    }
    let answer = parse(&answer);
    let length = answer.headers.get("content-length").and_then(|length| length.parse().ok());
    (length == Some(answer.body.len())).then_some(answer)
}

/// The same for a request that is not refused.
pub fn sync(address: SocketAddr, token: &str, body: &[u8]) -> Option<SyncReply> {
    let answer = post(address, token, body)?;
    assert_eq!(answer.status, 200);
    Some(decode(Format::Msgpack, &answer.body, usize::MAX).unwrap())
}
