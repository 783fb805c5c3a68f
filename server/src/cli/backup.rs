//! The commands `backup` and `restore`: their arguments and their output.

use std::path::PathBuf;

use clap::Args;
use escale::Result;

use crate::backup::{back_up, restore};

/// The arguments of `backup`.
#[derive(Args)]
pub(crate) struct BackupArgs {
    /// The folder of the database. A server may serve it meanwhile.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The file to write, which must not exist.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// The arguments of `restore`.
#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The folder of the database. Its server must have stopped. A database that is there is kept under another name.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The copy, as `backup` wrote it.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
}

impl BackupArgs {
    pub(crate) fn run(&self, say: impl Fn(&str) -> Result<()>) -> Result<()> {
        back_up(&self.data, &self.to)?;
        let bytes = std::fs::metadata(&self.to).map_or(0, |found| found.len());
        say(&format!("{}: {bytes} bytes", self.to.display()))
    }
}

impl RestoreArgs {
    pub(crate) fn run(&self, now_ms: u64, say: impl Fn(&str) -> Result<()>) -> Result<()> {
        let restored = restore(&self.data, &self.from, now_ms)?;
        if let Some(replaced) = restored.replaced {
            say(&format!("the database that was there is {}", replaced.display()))?;
        }
        say("restored; every session loads its collections again")
    }
}
