//! Memory against SQLite: whatever they are told, they answer alike.

use proptest::prelude::*;
use store::conformance::alike;
use store_memory::MemoryDatabase;
use store_sqlite::SqliteStore;

/// A script of this many choices writes about a hundred times.
const CHOICES_MAX: usize = 1_500;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_answer_alike(choices in prop::collection::vec(any::<u32>(), CHOICES_MAX / 5..CHOICES_MAX)) {
        let mut sqlite = SqliteStore::open_in_memory().expect("a database");
        alike::play(&mut sqlite, &mut MemoryDatabase::new().open(), &choices);
    }
}
