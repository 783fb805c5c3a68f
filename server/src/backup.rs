//! Copies of a folder's database: made while a server serves it, and put back.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use escale::model::Epoch;
use escale::{Code, Error, Result};

use crate::engine::{Engine, renew_epoch_of};
use crate::provider::{copy_database, is_in_use};

/// The files that SQLite keeps next to a database.
const SQLITE_FILES: [&str; 2] = ["-wal", "-shm"];

/// Writes a copy of the database in `folder` to the new file `to`, as one snapshot. A server may serve meanwhile. The copy
/// is complete once the file has its name. Errors: `bad_option` for a file that exists or a folder without a database.
pub fn back_up(folder: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Err(bad(format!("--to: {} exists: choose a new name", to.display())));
    }
    let part = with_suffix(to, ".part");
    remove_if_there(&part)?;
    copy_database(&database_in(folder)?, &part)?;
    fs::File::open(&part).and_then(|file| file.sync_all()).map_err(|error| failed(&part, &error))?;
    fs::rename(&part, to).map_err(|error| failed(to, &error))
}

/// A restored database.
#[derive(Debug)]
pub struct Restored {
    /// The epoch that begins with it: all sessions load their collections again (R8).
    pub epoch: Epoch,
    /// The database that was there before, under its new name.
    pub replaced: Option<PathBuf>,
}

/// Puts a copy back as the database of `folder`, and renews the epochs. The database that was there is kept under another
/// name. No server may have the folder open. Errors: `bad_option` for a folder in use, or a file that is no database of
/// this server.
pub fn restore(folder: &Path, from: &Path, now_ms: u64) -> Result<Restored> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let path = Engine::database_in(folder);
    if path.exists() && is_in_use(&path)? {
        return Err(bad(format!("--data: {} is in use: stop its server first", path.display())));
    }
    if !from.is_file() {
        return Err(bad(format!("--from: there is no file {}", from.display())));
    }
    // Copied as a database, not byte by byte: a damaged file or one of another program is found now.
    let part = with_suffix(&path, ".part");
    remove_if_there(&part)?;
    copy_database(from, &part)?;
    let replaced = path.exists().then(|| with_suffix(&path, &format!(".replaced-{now_ms}")));
    if let Some(replaced) = &replaced {
        for suffix in SQLITE_FILES {
            move_if_there(&with_suffix(&path, suffix), &with_suffix(replaced, suffix))?;
        }
        fs::rename(&path, replaced).map_err(|error| failed(replaced, &error))?;
    }
    fs::rename(&part, &path).map_err(|error| failed(&path, &error))?;
    Ok(Restored { epoch: renew_epoch_of(&path, None, now_ms)?, replaced })
}

fn database_in(folder: &Path) -> Result<PathBuf> {
    let path = Engine::database_in(folder);
    if path.is_file() {
        Ok(path)
    } else {
        Err(bad(format!("--data: there is no database {}", path.display())))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
}

fn move_if_there(from: &Path, to: &Path) -> Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(to, &error)),
        _ => Ok(()),
    }
}

fn bad(detail: String) -> Error {
    Error::new(Code::BadOption, detail)
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::StorageFailed, format!("{}: {error}", path.display()))
}
