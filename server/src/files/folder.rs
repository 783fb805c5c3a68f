//! Objects in a folder: `{folder}/{shaS of the org}/{two letters}/{name}`.
//!
//! An object gets its name once its bytes are on the disk. So a name stands for the whole object, also after a crash. The
//! remains of an unfinished one have the same name with [`UNFINISHED`] behind it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use escale::model::sha_s;
use escale::{Code, Error, Result};

use super::Files;

/// The end of the name of an object that is being written.
const UNFINISHED: &str = ".part";

/// Letters of a name that name its folder: a folder of all objects would be slow.
const LETTERS: usize = 2;

/// Objects in a folder, which several processes may share.
#[derive(Debug)]
pub struct FolderFiles {
    folder: PathBuf,
}

impl FolderFiles {
    /// The objects in that folder, which is made if there is none. Errors: `storage_failed`.
    pub fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        Ok(FolderFiles { folder: folder.to_owned() })
    }

    fn of_org(&self, org: &str) -> PathBuf {
        self.folder.join(sha_s(org))
    }

    fn path(&self, org: &str, name: &str) -> Result<PathBuf> {
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        if name.len() <= LETTERS || !name.bytes().all(is_plain) || name.starts_with('.') {
            return Err(Error::new(Code::Internal, "an object with another name than the server gives"));
        }
        Ok(self.of_org(org).join(&name[..LETTERS]).join(name))
    }
}

impl Files for FolderFiles {
    fn put(&self, org: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(org, name)?;
        let unfinished = unfinished(&path);
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unfinished)
            .map_err(|error| failed(&unfinished, &error))?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| failed(&unfinished, &error))?;
        drop(file);
        fs::rename(&unfinished, &path).map_err(|error| failed(&path, &error))?;
        // The name, and the folders that may be new.
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.folder)) {
            sync(folder)?;
        }
        Ok(())
    }

    fn get(&self, org: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(org, name)?;
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    fn delete(&self, org: &str, name: &str) -> Result<()> {
        let path = self.path(org, name)?;
        let mut is_removed = false;
        for path in [unfinished(&path), path.clone()] {
            match fs::remove_file(&path) {
                Ok(()) => is_removed = true,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&path, &error)),
            }
        }
        // Otherwise the object could be back after the machine failed, and nothing would remember it.
        match path.parent().filter(|_| is_removed) {
            Some(folder) => sync(folder),
            None => Ok(()),
        }
    }

    fn list(&self, org: &str, after: &str, limit: usize) -> Result<Vec<String>> {
        listed(&self.of_org(org), after, limit)
    }

    fn orgs(&self) -> Result<Vec<String>> {
        let mut orgs = Vec::new();
        for org in names(&self.folder)? {
            // The folder of an org stays when its last object goes.
            if !listed(&self.folder.join(&org), "", 1)?.is_empty() {
                orgs.push(org);
            }
        }
        Ok(orgs)
    }
}

/// The names of objects in the folder of an org.
fn listed(org: &Path, after: &str, limit: usize) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for letters in names(org)? {
        if letters.as_str() < after.get(..LETTERS).unwrap_or_default() {
            continue;
        }
        let own = names(&org.join(&letters))?;
        found.extend(own.into_iter().filter(|name| name.as_str() > after && !name.ends_with(UNFINISHED)));
        if found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// The names in a folder, ascending; none if there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(folder, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(folder, &error))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Makes the entries of a folder durable.
fn sync(folder: &Path) -> Result<()> {
    // Elsewhere a folder cannot be opened, and its entries are durable by themselves.
    #[cfg(unix)]
    File::open(folder).and_then(|file| file.sync_all()).map_err(|error| failed(folder, &error))?;
    #[cfg(not(unix))]
    let _: Option<(&Path, File)> = None;
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::StorageFull,
        _ => Code::StorageFailed,
    };
    Error::new(code, format!("{}: {error}", path.display()))
}
