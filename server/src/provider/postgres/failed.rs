//! Errors of PostgreSQL as errors of the server.

use std::error::Error as _;

use escale::{Code, Error};
use tokio_postgres::error::SqlState;

/// Converts the error of a statement. Contention and an unavailable database pass by themselves, and a full
/// disk is named.
pub(super) fn failed(error: tokio_postgres::Error) -> Error {
    let Some(state) = error.code() else {
        // No answer of the server: the connection is gone, and with it the transaction.
        return Error::new(
            Code::Unavailable,
            format!("the database's connection was lost: {}", cause(&error)),
        );
    };
    let code = code_of(state);
    let detail = match code {
        Code::Contention => "another write holds the org, or a lock that this one needs".to_owned(),
        Code::StorageFull => "the disk of the database is full".to_owned(),
        _ => cause(&error),
    };
    Error::new(code, detail)
}

fn code_of(state: &SqlState) -> Code {
    let contention =
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE];
    let unavailable = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::OUT_OF_MEMORY,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    if contention.contains(state) {
        Code::Contention
    } else if *state == SqlState::DISK_FULL {
        Code::StorageFull
    } else if unavailable.contains(state) || state.code().starts_with("08") {
        Code::Unavailable
    } else if *state == SqlState::INSUFFICIENT_PRIVILEGE || state.code().starts_with("XX") {
        Code::StorageFailed
    } else {
        Code::Internal
    }
}

/// The server's own words, or those of the innermost cause. They name no value: the parameters of a statement
/// are apart from its text.
pub(super) fn cause(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} ({})", said.message(), said.code().code());
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if error.source().is_some() { format!("{error}: {innermost}") } else { error.to_string() }
}

/// The error for a stored value that this code cannot have written.
pub(super) fn damaged(part: &str) -> Error {
    Error::new(Code::StorageFailed, format!("the database holds {part} that cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_passes_is_told_from_one_that_does_not() {
        let codes = [
            ("40001", Code::Contention),
            ("40P01", Code::Contention),
            ("55P03", Code::Contention),
            ("53100", Code::StorageFull),
            ("57P01", Code::Unavailable),
            ("57P02", Code::Unavailable),
            ("57P03", Code::Unavailable),
            ("08006", Code::Unavailable),
            ("25006", Code::Unavailable),
            ("42501", Code::StorageFailed),
            ("42P01", Code::Internal),
        ];
        for (state, code) in codes {
            assert_eq!(code_of(&SqlState::from_code(state)), code, "{state}");
        }
    }
}
