//! Opening a database: what is refused, in which words, and that a refusal changes nothing.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use store::{Store, StoreError};
use store_sqlite::SqliteStore;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("bowline.db")
    }

    fn open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.database())
    }

    /// Opens, and closes again; then changes the file as someone else would.
    fn tampered(sql: &str) -> Folder {
        let folder = Folder::new();
        drop(folder.open().expect("a new database"));
        Connection::open(folder.database()).expect("the file").execute_batch(sql).expect("a change");
        folder
    }
}

#[test]
fn a_second_server_is_refused_and_readers_are_not() {
    let folder = Folder::new();
    let mut first = folder.open().expect("the first server");
    first.set_meta("who", "first").expect("a write");

    let error = folder.open().expect_err("the second server");
    let StoreError::InUse { holder, .. } = &error else { panic!("{error}") };
    assert_eq!(*holder, Some(std::process::id()));
    let text = error.to_string();
    assert!(text.contains("in use by another server (process ") && text.contains("stop that one"), "{text}");

    // By another name of the same file, too.
    let link = folder.0.path().join("link.db");
    std::os::unix::fs::symlink(folder.database(), &link).expect("a link");
    assert!(matches!(SqliteStore::open(&link), Err(StoreError::InUse { .. })));

    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let looker = Connection::open_with_flags(folder.database(), flags).expect("someone who looks");
    let read = || looker.query_row("SELECT value FROM meta WHERE key = 'who'", [], |row| row.get::<_, String>(0));
    assert_eq!(read().expect("a read"), "first");
    first.set_meta("who", "still the first").expect("a write beside the reader");
    assert_eq!(read().expect("a read"), "still the first");
    drop(first);
    folder.open().expect("the next server");
}

#[test]
fn a_reader_outlives_its_store() {
    let folder = Folder::new();
    let mut store = folder.open().expect("a database");
    store.set_meta("who", "me").expect("a write");
    let reader = store.reader();
    drop(store);
    assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("me"));
    // And does not keep the next server out, nor make it think of a crash.
    let wal = fs::metadata(folder.database().with_extension("db-wal")).map_or(0, |m| m.len());
    assert_eq!(wal, 0);
    folder.open().expect("the next server");
}

#[test]
fn many_readers_take_turns() {
    let folder = Folder::new();
    let mut store = folder.open().expect("a database");
    store.set_meta("who", "me").expect("a write");
    let reader = store.reader();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(reader.meta("who").expect("a read").as_deref(), Some("me"));
                }
            });
        }
        for n in 0..50 {
            store.set_meta("count", &n.to_string()).expect("a write beside the readers");
        }
    });
}

#[test]
fn what_is_not_a_database_is_said_to_be_damaged() {
    let folder = Folder::new();
    let text =
        b"this is a text file, and a long one at that: SQLite looks at the first hundred bytes of it. ".repeat(99);
    fs::write(folder.database(), &text).expect("a file");
    let message = assert_damaged(folder.open());
    assert!(message.contains("bowline.db") && message.contains("restore a backup"), "{message}");
    assert_eq!(fs::read(folder.database()).expect("the file"), text, "it is not ours to change");
}

#[test]
fn a_database_of_another_program_is_not_touched() {
    let folder = Folder::new();
    let other = Connection::open(folder.database()).expect("a database");
    other.execute_batch("CREATE TABLE recipes (name TEXT)").expect("a table");
    drop(other);
    let message = assert_damaged(folder.open());
    assert!(message.contains("another program"), "{message}");
}

#[test]
fn damage_after_a_crash_is_found_at_the_start() {
    let folder = Folder::new();
    drop(folder.open().expect("a new database"));
    let mut store = folder.open().expect("a sound database");
    store.set_meta("last", "word").expect("a write");
    let crash = || {
        let copy = Folder::new();
        for suffix in ["", "-wal"] {
            let name = format!("bowline.db{suffix}");
            fs::copy(folder.0.path().join(&name), copy.0.path().join(&name)).expect("a copy");
        }
        copy
    };
    drop(crash().open().expect("a crash alone is no damage"));

    // Of a table that nothing looks at when a server starts.
    let crashed = crash();
    scribble(&crashed.database(), root_page(&folder.database(), "tasks"));
    let message = assert_damaged(crashed.open());
    assert!(message.contains("bowline.db"), "{message}");
}

#[test]
fn a_newer_database_is_refused() {
    let folder = Folder::tampered("UPDATE meta SET value = '99' WHERE key = 'min_reader'");
    let error = folder.open().expect_err("a database from the future");
    assert!(matches!(error, StoreError::TooNew { needs: 99, .. }), "{error}");
    assert!(error.to_string().contains("use a newer build"), "{error}");
}

#[test]
fn a_newer_migration_that_we_may_read_is_fine() {
    let folder = Folder::tampered("INSERT INTO schema_migrations VALUES (99, 'more', zeroblob(32), 0)");
    folder.open().expect("a database that says that we may");
}

#[test]
fn a_database_that_does_not_say_who_may_read_it_is_damaged() {
    for sql in ["DELETE FROM meta WHERE key = 'min_reader'", "UPDATE meta SET value = 'x' WHERE key = 'min_reader'"] {
        let message = assert_damaged(Folder::tampered(sql).open());
        assert!(message.contains("min_reader"), "{message}");
    }
}

#[test]
fn a_changed_migration_is_refused() {
    let folder = Folder::tampered("UPDATE schema_migrations SET checksum = zeroblob(32)");
    let error = folder.open().expect_err("a history that is not ours");
    assert!(matches!(error, StoreError::MigrationChanged { version: 1, .. }), "{error}");
}

#[test]
fn the_schema_keeps_its_own_word() {
    let folder = Folder::new();
    let mut store = folder.open().expect("a database");
    assert!(matches!(store.set_meta("min_reader", "9"), Err(StoreError::Refused { .. })));
}

#[test]
fn a_missing_folder_is_said() {
    let folder = Folder::new();
    let error = SqliteStore::open(&folder.0.path().join("no/such/bowline.db")).expect_err("no folder");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("does its folder exist?"), "{error}");
    assert!(matches!(SqliteStore::open(Path::new("/")), Err(StoreError::Unavailable { .. })));
}

fn assert_damaged(opened: Result<SqliteStore, StoreError>) -> String {
    let error = opened.expect_err("a damaged database");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    error.to_string()
}

fn root_page(path: &Path, table: &str) -> u64 {
    let look = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the file");
    let find = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    look.query_row(find, [table], |row| row.get::<_, u32>(0)).expect("the table").into()
}

fn scribble(path: &Path, page: u64) {
    const PAGE_BYTES: u64 = 4096;
    let mut file = fs::OpenOptions::new().write(true).open(path).expect("the file");
    file.seek(SeekFrom::Start((page - 1) * PAGE_BYTES)).expect("a place");
    file.write_all(&[0xa5; 512]).expect("nonsense");
}
