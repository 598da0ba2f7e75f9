//! Where a database is, and how connections to it are opened and tuned.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use store::StoreError;

use crate::error::translate;
use crate::sql;

/// How long a statement waits for another process, such as an operator's `sqlite3`, to let go.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Hot pages of a busy queue fit; an idle server stays small because pages are only taken when used.
const WRITER_CACHE_KIB: u32 = 8 * 1024;

const READER_CACHE_KIB: u32 = 1024;

/// Pages in the write-ahead log before a commit copies them into the file (4 KiB each). A larger log saves syncs
/// and copies of pages that change often; a smaller one makes the one commit that has to do it wait less.
const CHECKPOINT_PAGES: u32 = 4_000;

/// What a burst leaves of the write-ahead log on disk.
const WAL_KEPT_BYTES: u32 = 64 * 1024 * 1024;

/// Checking a larger file would hold up a start for longer than anyone expects of it.
const CHECKED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What everybody may do with a file who is neither its owner nor of its group.
const OTHERS: u32 = 0o007;

/// A database, by what SQLite needs to open it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    target: PathBuf,
    in_memory: bool,
    /// For people.
    pub(crate) name: Arc<str>,
}

impl Place {
    pub(crate) fn file(path: &Path) -> Place {
        Place { target: path.to_owned(), in_memory: false, name: Arc::from(path.display().to_string()) }
    }

    /// A database that lives as long as a connection to it, under a name that no other has.
    pub(crate) fn memory() -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let target = PathBuf::from(format!("file:/bowline-{number}?vfs=memdb"));
        Place { target, in_memory: true, name: Arc::from("memory") }
    }

    pub(crate) fn open_writer(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let suspect = self.left_open();
        self.create_private();
        let connection = self.connect(flags, WRITER_CACHE_KIB)?;
        let tuned = || -> rusqlite::Result<String> {
            let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            connection.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
            Ok(mode)
        };
        let mode = tuned().map_err(|e| translate(&self.name, &e))?;
        if mode != "wal" && !self.in_memory {
            let name = &self.name;
            let message =
                format!("{name}: no write-ahead log is possible here (journal mode {mode}); use a local disk");
            return Err(StoreError::Unavailable { message });
        }
        if suspect {
            self.check(&connection)?;
        }
        self.close_to_others();
        Ok(connection)
    }

    /// Inputs, outputs and logs are nobody else's business, whatever folder they lie in. SQLite gives its files beside the database
    /// the same mode. Where this fails SQLite says why.
    fn create_private(&self) {
        if !self.in_memory {
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.target);
        }
    }

    /// One that is there keeps what its owner gave to a group on purpose. That everybody may read it was nobody's purpose: earlier
    /// versions left that to the umask. Only what has just been opened as a database is touched: whatever else a mistaken path leads
    /// to is somebody else's.
    fn close_to_others(&self) {
        for suffix in ["", "-wal", "-shm"] {
            let file = beside(&self.target, suffix);
            let Some(found) = fs::metadata(&file).ok().filter(|found| found.is_file() && !self.in_memory) else {
                continue;
            };
            let mode = found.permissions().mode() & 0o7777;
            if mode & OTHERS == 0 {
                continue;
            }
            let (was, is) = (format!("{mode:o}"), format!("{:o}", mode & !OTHERS));
            match fs::set_permissions(&file, fs::Permissions::from_mode(mode & !OTHERS)) {
                Ok(()) => {
                    tracing::warn!(file = %file.display(), was, is, "everybody on this machine could read the database; no more");
                }
                Err(error) => {
                    tracing::warn!(file = %file.display(), was, %error, "everybody on this machine can read the database; chmod o= it");
                }
            }
        }
    }

    pub(crate) fn open_reader(&self) -> Result<Connection, StoreError> {
        self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY, READER_CACHE_KIB)
    }

    fn connect(&self, flags: OpenFlags, cache_kib: u32) -> Result<Connection, StoreError> {
        // Without SQLite's own mutex: every connection of ours is used by one thread at a time.
        let mut flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if self.in_memory {
            flags |= OpenFlags::SQLITE_OPEN_URI;
        }
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(&self.target, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            // Plans do not depend on bound values. Otherwise a cached statement is prepared anew with every use.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            connection.set_prepared_statement_cache_capacity(sql::COUNT);
            connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            Ok(connection)
        };
        open().map_err(|e| translate(&self.name, &e))
    }

    /// SQLite removes the write-ahead log when the last connection closes; one that is still there means a crash.
    fn left_open(&self) -> bool {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
        !self.in_memory && size(&beside(&self.target, "-wal")) > 0 && size(&self.target) <= CHECKED_BYTES_MAX
    }

    fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        tracing::info!(database = %self.name, "the database was not closed; checking it");
        let verdict: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|e| translate(&self.name, &e))?;
        if verdict == "ok" {
            return Ok(());
        }
        Err(StoreError::Damaged { path: self.name.to_string(), message: verdict })
    }
}

/// The file that belongs to `database`, with `suffix` after its whole name.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_database_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let path = folder.path().join("test.db");
        let mode = |suffix: &str| {
            let file = fs::metadata(beside(&path, suffix)).expect("it is there");
            format!("{:o}", file.permissions().mode() & 0o777)
        };
        let _lock = crate::lock::ServerLock::take(&path).expect("nobody else has it");
        let connection = Place::file(&path).open_writer().expect("a database");
        connection.execute_batch("CREATE TABLE t (a)").expect("written");
        assert_eq!(["", "-wal", "-shm", ".lock"].map(mode), ["600", "600", "600", "600"]);
        drop(connection);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("ours");
        drop(Place::file(&path).open_writer().expect("a database"));
        assert_eq!(mode(""), "640", "as its owner wants it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
        let connection = Place::file(&path).open_writer().expect("a database");
        connection.execute_batch("CREATE TABLE u (a)").expect("written");
        assert_eq!(["", "-wal", "-shm"].map(mode), ["640"; 3], "nobody wants everybody to read it");
    }

    #[test]
    fn what_is_no_database_is_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("notes.txt");
        fs::write(&file, "of somebody else").expect("written");
        for path in [folder.path(), &file] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
            Place::file(path).open_writer().expect_err("no database");
            let mode = fs::metadata(path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{}", path.display());
        }
    }

    #[test]
    fn a_commit_is_on_the_disk_before_it_is_answered() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = Place::file(&folder.path().join("test.db")).open_writer().expect("a database");
        let pragma = |name: &str| -> String {
            let text = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
            connection.query_row(&text, [], |row| row.get(0)).expect("a pragma")
        };
        const FULL: &str = "2";
        assert_eq!((pragma("journal_mode"), pragma("synchronous")), ("wal".to_owned(), FULL.to_owned()));
    }
}
