//! Every check finds what it should, and nothing else, in a database of this store.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use rusqlite::Connection;
use store::Store;
use store::check::Finding;
use store::conformance::healthy;
use store_sqlite::{SqliteStore, check};
use tempfile::TempDir;

#[path = "../../store/tests/support/damages.rs"]
mod damages;

use damages::{LIMIT, Patient, READERS, names};

struct File(TempDir);

impl File {
    fn path(&self) -> PathBuf {
        self.0.path().join("bowline.db")
    }
}

impl Patient for File {
    fn new() -> File {
        File(tempfile::tempdir().expect("a folder"))
    }

    fn open(&mut self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.path()).expect("a database"))
    }

    fn execute(&mut self, sql: &str) {
        let connection = Connection::open(self.path()).expect("the database");
        assert!(connection.execute(sql, []).expect(sql) > 0, "it changes nothing: {sql}");
    }

    fn check(&mut self) -> Vec<Finding> {
        check(&self.path(), Some(healthy::NOW), LIMIT, &READERS).expect("an answer")
    }
}

#[test]
fn each_damage_is_named() {
    damages::each_damage_is_named::<File>(&[]);
}

#[test]
fn what_cannot_be_read_is_found_too() {
    damages::what_cannot_be_read_is_found_too::<File>();
}

#[test]
fn many_are_counted_and_few_are_named() {
    damages::many_are_counted_and_few_are_named::<File>();
}

/// A page that is not what it was.
#[test]
fn a_file_that_is_torn_is_named() {
    let mut file = File::new();
    healthy::fill(&mut *file.open());
    let page = {
        let connection = Connection::open(file.path()).expect("the database");
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("all of it is in the file");
        let asked = "SELECT rootpage FROM sqlite_schema WHERE name = 'beats_by_age'";
        connection.query_row(asked, [], |row| row.get::<_, u32>(0)).expect("its page")
    };
    let mut raw = std::fs::OpenOptions::new().write(true).open(file.path()).expect("the file");
    raw.seek(SeekFrom::Start(u64::from(page - 1) * 4096)).expect("in its place");
    raw.write_all(&[0xff; 200]).expect("written");
    drop(raw);
    assert_eq!(names(&file.check()), ["file"]);
}

/// A server has the database, and goes on writing.
#[test]
fn it_looks_beside_a_server() {
    let mut file = File::new();
    let mut store = file.open();
    healthy::fill(&mut *store);
    assert_eq!(names(&file.check()), Vec::<&str>::new());
    store.set_meta("key", "value").expect("nobody is in the way");
    assert_eq!(names(&file.check()), Vec::<&str>::new());
}

#[test]
fn it_changes_nothing() {
    let mut file = File::new();
    healthy::fill(&mut *file.open());
    let before = std::fs::read(file.path()).expect("the file");
    file.check();
    assert!(std::fs::read(file.path()).expect("the file") == before);
    drop(file.open());
}

#[test]
fn a_file_that_is_not_there_is_not_made() {
    let file = File::new();
    assert!(check(&file.path(), None, LIMIT, &READERS).is_err());
    assert!(!file.path().exists());
}
