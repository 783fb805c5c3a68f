//! The command `sweep`: its arguments and its output.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use escale::journal::{Retention, iso8601};
use escale::{Code, Error, Result};

use crate::sweep::{BATCH_ROWS, Gone, Sweep, Swept, sweep_each};

/// The arguments of `sweep`.
#[derive(Args)]
#[command(group = ArgGroup::new("rule").args(["count", "before", "days"]))]
pub(crate) struct SweepArgs {
    /// A SQLite file with a table `actions`, such as the server's database. Can be given several times.
    #[arg(long, value_name = "FILE", required = true)]
    db: Vec<PathBuf>,
    /// Keep the newest N (1 to 100) persists of each document, and all actions between and after them.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4")]
    count: Option<u32>,
    /// Of each document's persists older than this date (ISO 8601), keep the newest.
    #[arg(long, value_name = "DATE")]
    before: Option<String>,
    /// By count (--max), then by date on actions older than D days. The default rule.
    #[arg(long, value_name = "D", num_args = 0..=1, default_missing_value = "30")]
    days: Option<u32>,
    /// With --days: how many persists to keep at most (1 to 100).
    #[arg(long, value_name = "N", conflicts_with_all = ["count", "before"], default_value_t = 10)]
    max: u32,
    /// The journals are not synchronised: actions without a commitId count as any other.
    #[arg(long)]
    no_sync: bool,
    /// Remove. Without it nothing is written, and the actions to remove are reported.
    #[arg(long)]
    apply: bool,
    /// Print each row, before the line of its database.
    #[arg(long)]
    list: bool,
}

const DAY_MS: u64 = 86_400_000;

impl SweepArgs {
    fn retention(&self, now_ms: u64) -> Retention {
        match (self.count, &self.before) {
            (Some(count), _) => Retention::Count(count),
            (_, Some(before)) => Retention::Before(before.clone()),
            _ => {
                let since = now_ms.saturating_sub(u64::from(self.days.unwrap_or(30)) * DAY_MS);
                Retention::Days { max: self.max, before: iso8601(since) }
            }
        }
    }

    /// Sweeps the databases and prints the removed actions. Errors: `bad_option` before any database is
    /// opened. If databases fail, it goes on with the others, and returns the first error in the end.
    pub(crate) fn run(&self, now_ms: u64, say: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let sweep = Sweep {
            retention: self.retention(now_ms),
            is_synchronised: !self.no_sync,
            apply: self.apply,
            batch_rows: BATCH_ROWS,
        };
        let say = RefCell::new(say);
        let say = |line: &str| (say.borrow_mut())(line);
        let mut failures: Vec<Error> = Vec::new();
        let tell = |_: &Path, gone: Gone| {
            if !self.list {
                return Ok(());
            }
            say(&format!("  {} {} {} {}", gone.rowid, gone.actor, gone.kind, gone.timestamp))
        };
        sweep_each(&sweep, &self.db, tell, |path, swept| match swept {
            Ok(swept) => say(&self.report(&path.display().to_string(), &swept)),
            Err(error) => {
                let error = error.at(&path.display().to_string());
                say(&format!("{}: failed, {}", path.display(), error.code().as_str()))?;
                tracing::error!(%error, "a database was not swept");
                failures.push(error);
                Ok(())
            }
        })?;
        if !self.apply {
            say("dry run: nothing was written; the same with --apply removes it")?;
        }
        let n = failures.len();
        match failures.into_iter().next() {
            None => Ok(()),
            Some(first) => {
                let detail = format!("{n} of {} databases failed; {}", self.db.len(), first.detail());
                Err(Error::new(first.code(), detail))
            }
        }
    }

    fn report(&self, path: &str, swept: &Swept) -> String {
        let verb = if self.apply { "removed" } else { "to remove" };
        let mut text = format!("{path}: {} of {} actions {verb}", swept.gone, swept.rows);
        let kinds: Vec<String> = swept.by_kind.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        if !kinds.is_empty() {
            let _ = write!(text, " ({})", kinds.join(", "));
        }
        match &swept.compacted {
            Some(Ok(())) => text.push_str("\n  compacted"),
            Some(Err(why)) => {
                let _ = write!(text, "\n  {}: not compacted, {why}", Code::StorageFailed.as_str());
            }
            None => {}
        }
        text
    }
}
