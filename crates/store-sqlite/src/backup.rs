//! A copy of a whole database in one file, beside a server that writes to it or without one.

use std::path::Path;

use rusqlite::OpenFlags;
use store::StoreError;

use crate::error::translate;
use crate::place::Place;

/// Writes all that the database at `path` holds at this moment to `to`, which is an empty file, or not there. Servers go on writing:
/// what they commit meanwhile is not in it.
///
/// Not by SQLite's page-by-page backup: that begins anew whenever another process has written, and would never end beside a busy server.
pub fn back_up(path: &Path, to: &Path) -> Result<(), StoreError> {
    let place = Place::file(path);
    let Some(target) = to.to_str() else {
        let message = format!("{} is no text, and SQLite takes no other names of files", to.display());
        return Err(StoreError::Refused { message });
    };
    let connection = place.open_reader()?;
    connection.execute("VACUUM INTO ?1", [target]).map_err(|e| translate(&place.name, &e))?;
    Ok(())
}

/// Whether a file that [`back_up`] wrote is a database without damage. It is not changed, and nothing is made beside it.
pub fn verify_backup(path: &Path) -> Result<(), StoreError> {
    let name = path.display().to_string();
    let ask = || -> rusqlite::Result<Vec<String>> {
        let connection = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.query_row("SELECT count(*) FROM schema_migrations", [], |_| Ok(()))?;
        let mut statement = connection.prepare("PRAGMA quick_check(3)")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let verdict = ask().map_err(|e| translate(&name, &e))?;
    match verdict.as_slice() {
        [word] if word == "ok" => Ok(()),
        found => Err(StoreError::Damaged { path: name, message: found.join("; ") }),
    }
}
