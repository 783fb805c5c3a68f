//! The database that a command names: a folder, or an address of PostgreSQL.

use std::path::{Path, PathBuf};

use escale::model::Epoch;
use escale::{Code, Error, Result};

use crate::engine::{Engine, Opening, epoch_of, renew_epoch_of};
#[cfg(feature = "postgres")]
use crate::engine::{adopt_server, epoch_in, first_site, fresh_name, renew_epoch};
#[cfg(feature = "postgres")]
use crate::mark::Mark;
#[cfg(feature = "postgres")]
use crate::provider::{Address, PostgresProvider};

/// The beginnings of an address.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Milliseconds between two `now` that a database in PostgreSQL stores for an org. A commit there is dearer than one
/// in a file.
#[cfg(feature = "postgres")]
const TELL_STEP_MS: u64 = 5_000;

/// Where the data is.
#[derive(Clone, Debug)]
pub enum Database {
    /// A file of SQLite in this folder.
    Folder(PathBuf),
    /// A database of PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Box<Address>),
}

impl Database {
    /// Reads the value of `--data`. Errors: `bad_option`.
    pub fn parse(text: &str) -> Result<Self> {
        if !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Database::Folder(text.into()));
        }
        #[cfg(feature = "postgres")]
        return Address::parse(text, |name| std::env::var(name).ok()).map(Box::new).map(Database::Postgres);
        #[cfg(not(feature = "postgres"))]
        Err(bad("this server was built without PostgreSQL: build it with `--features postgres`"))
    }

    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Database::Folder(folder) => Some(folder),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => None,
        }
    }

    /// Opens an engine, and makes the database if there is none. Errors: those of [`Engine::open`].
    pub fn engine(&self, opening: Opening) -> Result<Engine> {
        match self {
            Database::Folder(folder) => Engine::open(folder, opening),
            #[cfg(feature = "postgres")]
            Database::Postgres(address) => {
                let mut opening = opening;
                opening.settings.tell_step_ms = opening.settings.tell_step_ms.max(TELL_STEP_MS);
                let provider = PostgresProvider::open(address, &first_site(opening.clock.now_ms())?)?;
                Engine::over(Box::new(provider), Mark::none(), opening, fresh_name()?)
            }
        }
    }

    /// The epoch of an org; without one, that of all orgs in which nothing was written. Errors: `no_store`;
    /// `bad_option` for an org in which nothing was written.
    pub fn epoch(&self, org: Option<&str>) -> Result<Epoch> {
        match self {
            Database::Folder(folder) => epoch_of(&file_in(folder)?, org),
            #[cfg(feature = "postgres")]
            Database::Postgres(address) => epoch_in(&PostgresProvider::open_existing(address)?, org),
        }
    }

    /// Begins a new epoch of an org, or of all. Errors: as for [`Database::epoch`].
    pub fn renew_epoch(&self, org: Option<&str>, now_ms: u64) -> Result<Epoch> {
        match self {
            Database::Folder(folder) => renew_epoch_of(&file_in(folder)?, org, now_ms),
            #[cfg(feature = "postgres")]
            Database::Postgres(address) => {
                let provider = PostgresProvider::open_existing(address)?;
                renew_epoch(&provider, &Mark::none(), org, (now_ms, fresh_name()?))
            }
        }
    }

    /// Accepts the database server as it is now, without new epochs (R39). Errors: `bad_option` for a folder.
    pub fn adopt(&self) -> Result<()> {
        match self {
            Database::Folder(_) => Err(bad("--adopt is for PostgreSQL: a folder has no server")),
            #[cfg(feature = "postgres")]
            Database::Postgres(address) => adopt_server(&PostgresProvider::open_existing(address)?),
        }
    }
}

/// The file in a folder, which must be there.
fn file_in(folder: &Path) -> Result<PathBuf> {
    let path = Engine::database_in(folder);
    if path.is_file() {
        return Ok(path);
    }
    Err(bad(&format!("--data: there is no database {}", path.display())))
}

fn bad(detail: &str) -> Error {
    Error::new(Code::BadOption, detail)
}
