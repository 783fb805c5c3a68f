//! The command `files`: its arguments and its output.

use std::cell::Cell;

use clap::Args;
use escale::{Code, Error, Result};

use crate::engine::{Audit, Engine, Filing, Side};

/// The tasks of `files`.
#[derive(Args)]
pub(super) struct AuditArgs {
    /// Compare the database with the folder of files: after an old backup of one of them was restored.
    #[arg(long, required = true)]
    audit: bool,
    /// Forget lost objects that no document references, and leave unknown ones to the server's next purge. Without it
    /// nothing is written.
    #[arg(long)]
    apply: bool,
}

impl AuditArgs {
    /// Prints each difference, and a summary. Errors: `storage_failed` if documents reference lost files.
    pub(super) fn run(&self, engine: &Engine, say: fn(&str) -> Result<()>) -> Result<()> {
        debug_assert!(self.audit, "an argument without which clap refuses the command");
        let referenced = Cell::new(0_u64);
        let audit = Filing::of(engine).audit_files(self.apply, &mut |side, org, name| match side {
            Side::Lost { is_referenced: true } => {
                referenced.set(referenced.get() + 1);
                say(&format!("lost, and referenced: {org} {name}"))
            }
            Side::Lost { is_referenced: false } => say(&format!("lost: {org} {name}")),
            Side::Unknown => say(&format!("unknown: {org} {name}")),
            Side::UnknownOrg => say(&format!("of an org that the database does not know: folder {org}")),
        })?;
        let Audit { objects, lost, unknown, unknown_orgs } = audit;
        say(&format!("{objects} objects: {lost} lost, {unknown} unknown; {unknown_orgs} unknown orgs"))?;
        if !self.apply {
            say("dry run: nothing was written; the same with --apply writes it")?;
        }
        match referenced.get() {
            0 => Ok(()),
            n => Err(Error::new(
                Code::StorageFailed,
                format!(
                    "the store lacks {n} objects that documents need: restore them from a backup of the files"
                ),
            )),
        }
    }
}
