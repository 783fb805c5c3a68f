//! The rows of objects: the bytes of files, and lists of chunks.

use escale::Result;

use crate::provider::{Edit, File};

/// Gives a deadline to an object, if nothing references it any more.
pub(in crate::engine) fn end_reference(
    tx: &mut (impl Edit + ?Sized),
    org: &str,
    sha: &str,
    until: u64,
) -> Result<()> {
    let files = tx.snapshot().files();
    let is_over = files.referring(org, sha, 1)?.is_empty() && files.lists_of(org, sha, 1)?.is_empty();
    if let Some(file) = files.file(org, sha)?.filter(|_| is_over) {
        tx.edit_files().put_file(org, sha, &File { until: Some(until), ..file })?;
    }
    Ok(())
}
