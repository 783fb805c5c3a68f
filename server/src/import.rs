//! `escale-server import`: imports documents from lines of JSON, in transactions of 500 lines.
//!
//! A second run assigns new versions only to the documents that changed. An unusable line stops the import
//! and is reported by its number; the transactions before it stay.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use escale::codec::{Format, decode};
use escale::limits::REQUEST_BYTES_MAX;
use escale::model::{Pk, Value};
use escale::{Code, Error, Result};
use flate2::bufread::MultiGzDecoder;

use crate::engine::{Engine, Outcome};

/// Lines in one transaction.
pub const BATCH_LINES: usize = 500;

/// The property that makes a line delete its document.
const DELETED: &str = "_deleted";

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines read, blank ones not counted.
    pub lines: u64,
    /// Documents written because they were new or differed.
    pub written: u64,
    /// Documents deleted.
    pub deleted: u64,
    /// Lines that changed nothing.
    pub unchanged: u64,
}

/// The destination of the documents.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The org's code.
    pub org: &'a str,
    /// The class.
    pub class: &'a str,
}

struct Line {
    number: u64,
    map: BTreeMap<String, Value>,
    deleted: bool,
}

/// Imports a file of lines of JSON, compressed by gzip or not. `progress` is called after each transaction.
pub fn import_file(
    engine: &Engine,
    target: Target,
    path: &Path,
    progress: impl FnMut(&Summary),
) -> Result<Summary> {
    let unreadable =
        |e: std::io::Error| Error::new(Code::BadOption, format!("cannot read {}: {e}", path.display()));
    let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
    // Recognised by content: a file name can be wrong.
    let is_gzip = reader.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
    if is_gzip {
        import(engine, target, BufReader::new(MultiGzDecoder::new(reader)), progress)
    } else {
        import(engine, target, reader, progress)
    }
}

/// Imports lines of JSON.
pub fn import(
    engine: &Engine,
    target: Target,
    mut lines: impl BufRead,
    mut progress: impl FnMut(&Summary),
) -> Result<Summary> {
    if Pk::parse(target.org).is_err() {
        return Err(Error::new(Code::BadOption, "--org: letters, digits and - _ . : only"));
    }
    engine.schema().class(target.class)?;
    let mut summary = Summary::default();
    let mut number = 0;
    loop {
        // Read and parsed before the transaction begins, so that others can write meanwhile.
        let batch = read_batch(&mut lines, &mut number)?;
        if batch.is_empty() {
            return Ok(summary);
        }
        write_batch(engine, target, &batch, &mut summary)?;
        progress(&summary);
    }
}

fn read_batch(lines: &mut impl BufRead, number: &mut u64) -> Result<Vec<Line>> {
    let mut batch = Vec::with_capacity(BATCH_LINES);
    let mut bytes = Vec::new();
    while batch.len() < BATCH_LINES {
        bytes.clear();
        let bounded = &mut lines.take(REQUEST_BYTES_MAX as u64 + 1);
        let read = bounded
            .read_until(b'\n', &mut bytes)
            .map_err(|e| Error::new(Code::Malformed, format!("line {}: cannot be read: {e}", *number + 1)))?;
        if read == 0 {
            break;
        }
        *number += 1;
        let line = bytes.trim_ascii();
        if !line.is_empty() {
            batch.push(parse(line, *number).map_err(|e| e.at(&format!("line {number}")))?);
        }
    }
    Ok(batch)
}

fn parse(bytes: &[u8], number: u64) -> Result<Line> {
    let Value::Map(mut map) = decode(Format::Json, bytes, REQUEST_BYTES_MAX)? else {
        return Err(Error::new(Code::Malformed, "a line holds one JSON object"));
    };
    let deleted = match map.remove(DELETED) {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(Error::new(Code::BadValue, "_deleted must be true or false")),
    };
    Ok(Line { number, map, deleted })
}

/// Writes a batch as one transaction. If that takes too long on this machine, it splits the batch in halves.
fn write_batch(engine: &Engine, target: Target, batch: &[Line], summary: &mut Summary) -> Result<()> {
    let written = engine.write(target.org, |writing| {
        let mut done = Summary::default();
        for line in batch {
            done.lines += 1;
            let outcome = if line.deleted {
                match writing.delete(target.class, &line.map) {
                    Ok(()) => {
                        done.deleted += 1;
                        continue;
                    }
                    Err(error) if error.code() == Code::NotFound => Ok(Outcome::Unchanged),
                    Err(error) => Err(error),
                }
            } else {
                writing.put(target.class, line.map.clone())
            };
            match outcome.map_err(|e| e.at(&format!("line {}", line.number)))? {
                Outcome::Written => done.written += 1,
                Outcome::Unchanged => done.unchanged += 1,
            }
        }
        Ok(done)
    });
    match written {
        Ok(written) => {
            let done = written.value;
            summary.lines += done.lines;
            summary.written += done.written;
            summary.deleted += done.deleted;
            summary.unchanged += done.unchanged;
            Ok(())
        }
        Err(error) if error.code() == Code::Contention && batch.len() > 1 => {
            let (first, second) = batch.split_at(batch.len() / 2);
            write_batch(engine, target, first, summary)?;
            write_batch(engine, target, second, summary)
        }
        Err(error) => Err(error),
    }
}
