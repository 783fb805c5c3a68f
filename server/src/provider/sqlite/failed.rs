//! Errors of SQLite, as those of a provider.

use escale::{Code, Error};
use rusqlite::ErrorCode;

/// Converts the error of a statement, and separates contention from real failures.
pub(super) fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::new(Code::Contention, "another write holds the database")
        }
        Some(ErrorCode::DiskFull) => Error::new(Code::StorageFull, "the server's disk is full"),
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly,
        ) => Error::new(Code::StorageFailed, error.to_string()),
        _ => Error::new(Code::Internal, error.to_string()),
    }
}

/// The error for a stored value that this code cannot have written.
pub(super) fn damaged(what: &str) -> Error {
    Error::new(Code::StorageFailed, format!("the database holds {what} that cannot be read"))
}
