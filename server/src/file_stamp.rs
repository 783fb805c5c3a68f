//! Tells whether a file may have changed since it was read.

use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file that changed more recently than this may change again unnoticed: to the same length, within the
/// same tick of its clock.
const SETTLED: Duration = Duration::from_secs(2);

/// The time and the length of a file, as they were before it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileStamp {
    file: Option<(Option<SystemTime>, u64)>,
    is_settled: bool,
}

impl FileStamp {
    pub(crate) fn of(path: &Path) -> Self {
        let file = std::fs::metadata(path).ok().map(|m| (m.modified().ok(), m.len()));
        let now = SystemTime::now();
        let is_near = |at: SystemTime| at > now - SETTLED && at < now + SETTLED;
        let is_settled = !file.and_then(|(changed, _)| changed).is_some_and(is_near);
        FileStamp { file, is_settled }
    }

    /// Whether the file has to be read again, if `read` is its stamp of the last time.
    pub(crate) fn may_differ_from(&self, read: &FileStamp) -> bool {
        self.file != read.file || !read.is_settled
    }
}
