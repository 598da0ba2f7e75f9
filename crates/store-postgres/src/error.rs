//! PostgreSQL's errors in the words of the store: what may pass, what never will, and what is broken.

use std::error::Error as _;

use store::{NO_ROOM, SLOW, StoreError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// A statement that we prepared is not there, or one that we did not prepare is: it is not our session.
const HANDED_OUT: [SqlState; 2] = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT];

/// `name` is the database's name for people.
pub(crate) fn translate(name: &str, error: &Error) -> StoreError {
    let mut message = words(error);
    if error.code().is_some_and(|code| HANDED_OUT.contains(code)) {
        message.push_str("; if a connection pooler is in between, say so with `postgres.pooled: true`");
    }
    let unavailable = |message| StoreError::Unavailable { message: format!("{name}: {message}") };
    let Some(code) = error.code() else {
        // Without a code it never reached the database, or its answer never reached us; or a value has another type than we think.
        return match error.source().is_some_and(|source| source.is::<tokio_postgres::types::WrongType>()) {
            true => StoreError::Damaged { path: name.to_owned(), message },
            false => unavailable(message),
        };
    };
    match class(code) {
        // Data exceptions, violated constraints, limits of the program: the same data would be refused for ever.
        "22" | "23" | "54" => StoreError::Refused { message },
        // The database itself says that it is broken, or tables are missing that once were there.
        "XX" if *code != SqlState::INTERNAL_ERROR => StoreError::Damaged { path: name.to_owned(), message },
        _ if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code) => {
            StoreError::Damaged { path: name.to_owned(), message }
        }
        // Connections lost, starting or stopping servers, too many connections, full disks, standbys that only read, locks that
        // others hold for long, missing rights: someone can mend them while we wait.
        _ if *code == SqlState::DISK_FULL => unavailable(format!("{NO_ROOM}: {message}")),
        _ if [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED].contains(code) => {
            unavailable(format!("{SLOW}: {message}"))
        }
        _ => unavailable(message),
    }
}

/// Somebody else was faster with the same rows, and only that: tried again, it will be seen what they wrote.
pub(crate) fn is_race(error: &Error) -> bool {
    let races = [SqlState::UNIQUE_VIOLATION, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| races.contains(code))
}

/// Somebody else has a lock that is wanted, and keeps it; or both want what the other has.
pub(crate) fn is_locked_out(error: &Error) -> bool {
    let locked = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| locked.contains(code))
}

/// Whether the connection may be used again after this.
pub(crate) fn is_fatal(error: &Error) -> bool {
    let Some(code) = error.code() else { return true };
    // Statements that are not known any more, or that were planned for another schema, are prepared anew with a new connection.
    let stale = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::READ_ONLY_SQL_TRANSACTION];
    stale.contains(code)
        || HANDED_OUT.contains(code)
        || ["08", "57", "58", "XX"].contains(&class(code)) && *code != SqlState::QUERY_CANCELED
}

/// What the server says, and not only that it said something.
pub(crate) fn words(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => match db.detail() {
            Some(detail) => format!("{} ({}): {detail}", db.message(), db.code().code()),
            None => format!("{} ({})", db.message(), db.code().code()),
        },
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}
