//! A database that a newer build has migrated, as far as builds like this one may use it: everything is as it was.

use store::conformance::Fixture;
use store::{Batch, Store, StoreError};
use store_postgres::PostgresStore;
use testkit::postgres::{Database, LATER};

struct Ahead {
    database: Database,
    migrated: bool,
}

impl Ahead {
    fn new() -> Ahead {
        Ahead { database: Database::new(), migrated: false }
    }
}

impl Fixture for Ahead {
    /// The first one is there already when it happens, and those after it find it so.
    fn open(&mut self) -> Box<dyn Store> {
        let store = PostgresStore::open(&self.database.url()).expect("a database");
        if !self.migrated {
            self.database.psql(LATER);
            self.migrated = true;
        }
        Box::new(store)
    }

    fn open_beside(&mut self) -> Option<Box<dyn Store>> {
        Some(self.open())
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        drop(store);
    }
}

store::conformance_tests!(Ahead::new());

/// A migration that a build must not go on after: what it was about to write waits for one that may.
#[test]
fn a_store_that_is_too_old_by_now_writes_nothing_more() {
    let database = Database::new();
    let mut store = PostgresStore::open(&database.url()).expect("a database");
    let batch = |word: &str| Batch { meta: vec![("word", word.to_owned())], ..Batch::default() };
    store.commit(&batch("first")).expect("a write");
    let readers = |version: u32| {
        database.psql(&format!("UPDATE meta SET value = '{version}' WHERE key = 'min_reader'"));
    };
    readers(99);
    for _ in 0..2 {
        let error = store.commit(&batch("second")).expect_err("too old");
        assert!(matches!(error, StoreError::Unavailable { .. }), "nothing is wrong with the batch: {error}");
        assert!(error.to_string().contains("this server is too old for it"), "{error}");
        // Nor does a new connection.
        database.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bowline' AND datname = current_database()");
    }
    assert_eq!(store.reader().meta("word").expect("a read").as_deref(), Some("first"));
    readers(1);
    testkit::await_that("it is let in again", || store.commit(&batch("third")).ok());
}
