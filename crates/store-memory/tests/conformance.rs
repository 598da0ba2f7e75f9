//! The suite that every store must pass.

use store::Store;
use store::conformance::Fixture;
use store_memory::MemoryDatabase;

/// The database outlives the server that had it open.
struct Memory(MemoryDatabase);

impl Fixture for Memory {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(self.0.open())
    }

    fn open_beside(&mut self) -> Option<Box<dyn Store>> {
        Some(Box::new(self.0.open()))
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        drop(store);
    }
}

store::conformance_tests!(Memory(MemoryDatabase::new()));
