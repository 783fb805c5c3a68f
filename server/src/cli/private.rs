//! Files that only the server's own user reads: without `--site-key` they hold all data in plain text, and with it they
//! still name orgs, keys and times.

/// Lets every file and folder that this process makes belong to its user alone: databases, their logs, marks, objects and
/// backups. The process, and not each place that makes a file, because SQLite makes some of them.
#[cfg(unix)]
pub fn keep_private() {
    use rustix::fs::Mode;
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

#[cfg(not(unix))]
pub fn keep_private() {}

/// Warns if others may read the folder, as one that an earlier version has made.
#[cfg(unix)]
pub fn warn_if_open(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let is_open = std::fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    if is_open {
        let path = folder.display();
        tracing::warn!("other users of this machine may read {path}: chmod -R go= {path}");
    }
}

#[cfg(not(unix))]
pub fn warn_if_open(_: &std::path::Path) {}
