//! PostgreSQL against the suite that every store must pass, and against memory: whatever both are told, they answer alike.

use proptest::prelude::*;
use store::Store;
use store::conformance::{Fixture, alike};
use store_memory::MemoryDatabase;
use store_postgres::PostgresStore;
use testkit::postgres::Database;

/// The database outlives the servers that have it open.
struct Shared(Database);

impl Fixture for Shared {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(PostgresStore::open(&self.0.url()).expect("a database"))
    }

    fn open_beside(&mut self) -> Option<Box<dyn Store>> {
        Some(self.open())
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        drop(store);
    }
}

store::conformance_tests!(Shared(Database::new()));

/// A script of this many choices writes about forty times. After every third time all that can be asked is asked.
const CHOICES_MAX: usize = 600;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_answer_alike(choices in prop::collection::vec(any::<u32>(), CHOICES_MAX / 5..CHOICES_MAX)) {
        let database = Database::new();
        let mut postgres = PostgresStore::open(&database.url()).expect("a database");
        alike::play(&mut postgres, &mut MemoryDatabase::new().open(), &choices);
    }
}
