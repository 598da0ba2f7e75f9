//! SQLite's errors in the words of the store: what may pass, what never will, and what is broken.

use rusqlite::{Error, ErrorCode};
use store::StoreError;

/// `path` is the database's name for people.
pub(crate) fn translate(path: &str, error: &Error) -> StoreError {
    let message = error.to_string();
    let damaged = |message| StoreError::Damaged { path: path.to_owned(), message };
    let refused = |message| StoreError::Refused { message };
    match error {
        Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => damaged(message),
            ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch => refused(message),
            ErrorCode::DiskFull => {
                StoreError::Unavailable { message: format!("{path}: {}: {message}", store::NO_ROOM) }
            }
            // Busy, failing disks, missing rights: someone can mend them while we wait.
            _ => StoreError::Unavailable { message: format!("{path}: {message}") },
        },
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => damaged(message),
        _ => refused(message),
    }
}
