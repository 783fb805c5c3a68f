//! The command `schema`, and the reading of a schema's file. Both give the messages that sessions give.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use escale::model::schema::Schema;
use escale::{Code, Error, Result};

use crate::rights::Rights;
use crate::values::Values;

/// The arguments of `schema`.
#[derive(Args)]
pub(crate) struct SchemaArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Says whether the server takes the schema, and names the place of a mistake.
    Check {
        /// The schema, as JSON.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

impl SchemaArgs {
    /// Checks the file, and reports its classes.
    pub(crate) fn run(&self, say: fn(&str) -> Result<()>) -> Result<()> {
        let Action::Check { file } = &self.action;
        let schema = read_schema(file)?;
        let rights = Rights::of(&schema).map_err(|e| e.at(&file.display().to_string()))?;
        Values::of(&schema).map_err(|e| e.at(&file.display().to_string()))?;
        let names: Vec<&str> = schema.classes().iter().map(|class| class.name().as_str()).collect();
        say(&format!("{}: {}", file.display(), names.join(", ")))?;
        rights.dead_collections(&schema).iter().try_for_each(|collection| {
            say(&format!("no account may ever read {collection}: the rule of `read` does not decide it"))
        })
    }
}

/// Reads the schema of a file. An error names the file, and the place in it.
pub(crate) fn read_schema(file: &Path) -> Result<Schema> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::new(Code::BadOption, format!("the schema {}: {e}", file.display())))?;
    Schema::from_json(&text).map_err(|e| e.at(&file.display().to_string()))
}
