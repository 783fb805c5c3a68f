//! The settings of an instance: DELTA, skew, retention, the size of pages.

use std::time::Duration;

use escale::limits::{FILE_BYTES_MAX, PAGE_BYTES};
use escale::{Code, Error, Result};

/// Milliseconds after which a write is aborted (R4). Also the most by which a reply's `now` may exceed the
/// value stored in the database.
pub const WRITE_MS_MAX: u64 = 1_000;

/// The numeric settings of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Sessions subtract this from `now` to get their collections' `v` (R4).
    pub delta_ms: u64,
    /// The largest difference between the clocks of several instances; 0 if there is one instance. It only
    /// bounds DELTA.
    pub skew_ms: u64,
    /// Days for which tombstones and departures are kept (R6).
    pub retention_days: u64,
    /// Days for which the results of operations are kept (R11).
    pub results_days: u64,
    /// The newest states of each document that the journal keeps, with the changes between and after them; 0 keeps all.
    pub journal_max: u32,
    /// Days for which an upload is kept that nothing references, after it was last confirmed (R25).
    pub upload_days: u64,
    /// Days for which a file is kept after its last reference has ended.
    pub file_days: u64,
    /// Days after which the bytes of a file go that was given up. A backup of the database that is younger still finds
    /// them.
    pub purge_days: u64,
    /// Uploads of an account that nothing references, and their bytes.
    pub uploads_max: u64,
    /// See [`Settings::uploads_max`].
    pub upload_bytes_max: u64,
    /// Bytes of a file.
    pub file_bytes_max: u64,
    /// Bytes of rows after which a reply stops.
    pub page_bytes: usize,
    /// The work that one request may cause, in rows looked at: a tenth of a second, about. See `engine::pull::work`.
    pub request_rows: u64,
    /// The steps in which the stored `now` of an org rises. Replies in between are answered without a write.
    pub tell_step_ms: u64,
    /// How long a reply waits for its turn to store its `now`. If it gets none, it gives an earlier `now`.
    /// That is always safe: the session then asks again for a little more.
    pub tell_wait: Duration,
    /// How long a write waits for the writes before it, each of which is bounded by [`WRITE_MS_MAX`]. If it
    /// gets no turn, it fails with `contention`.
    pub write_wait: Duration,
    /// Whether a database server that takes over has every commit that was acknowledged (R39).
    pub is_failover_lossless: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            delta_ms: 2_000,
            skew_ms: 0,
            retention_days: 365,
            results_days: 90,
            journal_max: 10,
            upload_days: 7,
            file_days: 30,
            purge_days: 7,
            uploads_max: 10_000,
            upload_bytes_max: 4 << 30,
            file_bytes_max: 2 << 30,
            page_bytes: PAGE_BYTES,
            request_rows: 1_000_000,
            // A reply may exceed it by twice as much, so no reply gives an earlier `now` for the steps.
            tell_step_ms: WRITE_MS_MAX / 2,
            tell_wait: Duration::from_millis(250),
            write_wait: Duration::from_secs(5),
            is_failover_lossless: false,
        }
    }
}

impl Settings {
    /// Refuses settings under which R4 would not hold.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::new(Code::BadOption, what));
        let least = WRITE_MS_MAX.saturating_add(self.skew_ms);
        if self.delta_ms < least {
            return bad(format!(
                "--delta {}: at least {least}, the longest write ({WRITE_MS_MAX}) and the skew ({})",
                self.delta_ms, self.skew_ms
            ));
        }
        if self.delta_ms > 3_600_000 {
            return bad("--delta: at most an hour; every pull brings back what changed in it".into());
        }
        if self.retention_days == 0 || self.retention_days > 36_500 {
            return bad("--retention: 1 to 36500 days".into());
        }
        if self.results_days == 0 || self.results_days > 36_500 {
            return bad("--results: 1 to 36500 days".into());
        }
        if self.journal_max > 100 {
            return bad("--journal: 1 to 100 states of each document, or 0 for all".into());
        }
        for (option, days) in [
            ("--upload-days", self.upload_days),
            ("--file-days", self.file_days),
            ("--purge-days", self.purge_days),
        ] {
            if days == 0 || days > 36_500 {
                return bad(format!("{option}: 1 to 36500 days"));
            }
        }
        if self.file_days < self.upload_days {
            // A session knows that the server keeps its upload for so long.
            return bad("--file-days: at least as many as --upload-days".into());
        }
        if self.file_bytes_max == 0 || self.file_bytes_max > FILE_BYTES_MAX {
            return bad(format!("--file-max: 1 to {FILE_BYTES_MAX} bytes"));
        }
        if self.page_bytes == 0 || self.page_bytes > 16 << 20 {
            return bad("--page-bytes: 1 to 16777216".into());
        }
        Ok(())
    }

    /// The retention in milliseconds.
    pub fn retention_ms(&self) -> u64 {
        self.retention_days * 86_400_000
    }

    /// How long an upload is kept that nothing references, in milliseconds.
    pub fn upload_ms(&self) -> u64 {
        self.upload_days * 86_400_000
    }

    /// How long a file is kept after its last reference, in milliseconds.
    pub fn file_ms(&self) -> u64 {
        self.file_days * 86_400_000
    }

    /// How long bytes stay after a file was given up, in milliseconds.
    pub fn purge_ms(&self) -> u64 {
        self.purge_days * 86_400_000
    }

    /// How long results are kept, in milliseconds.
    pub fn results_ms(&self) -> u64 {
        self.results_days * 86_400_000
    }
}
