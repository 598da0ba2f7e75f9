//! SQLite against the suite that every store must pass, on disk and in memory.

use std::path::PathBuf;

use rusqlite::Connection;
use store::Store;
use store::conformance::Fixture;
use store_sqlite::SqliteStore;
use tempfile::TempDir;

/// A file in a folder of its own; after a crash, the copy that a power cut would have left.
struct OnDisk {
    folders: Vec<TempDir>,
}

impl OnDisk {
    fn new() -> OnDisk {
        OnDisk { folders: vec![tempfile::tempdir().expect("a folder")] }
    }

    fn path(&self) -> PathBuf {
        self.folders.last().expect("a folder").path().join("bowline.db")
    }
}

impl Fixture for OnDisk {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.path()).expect("a database"))
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        let copy = tempfile::tempdir().expect("a folder");
        for suffix in ["", "-wal"] {
            let name = format!("bowline.db{suffix}");
            std::fs::copy(self.path().with_file_name(&name), copy.path().join(&name)).expect("a copy");
        }
        // Only now, so that closing cannot tidy up what the next start has to deal with.
        drop(store);
        self.folders.push(copy);
    }
}

/// Memory does not outlive a crash, so the same store lives on.
#[derive(Default)]
struct InMemory {
    survivor: Option<Box<dyn Store>>,
}

impl Fixture for InMemory {
    fn open(&mut self) -> Box<dyn Store> {
        self.survivor.take().unwrap_or_else(|| Box::new(SqliteStore::open_in_memory().expect("a database")))
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        self.survivor = Some(store);
    }
}

/// A file that a newer build has migrated, as far as builds like this one may use it.
struct Ahead(OnDisk);

impl Ahead {
    fn new() -> Ahead {
        let on_disk = OnDisk::new();
        drop(SqliteStore::open(&on_disk.path()).expect("a database"));
        let file = Connection::open(on_disk.path()).expect("the file");
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let mut tables = file.prepare(tables).expect("a query");
        let tables = tables.query_map([], |row| row.get::<_, String>(0)).expect("rows");
        for table in tables.collect::<Result<Vec<_>, _>>().expect("names") {
            let later = format!(
                "ALTER TABLE {table} ADD COLUMN later TEXT; ALTER TABLE {table} ADD COLUMN later_still INTEGER NOT NULL DEFAULT 7"
            );
            file.execute_batch(&later).expect("changed");
        }
        let told = "INSERT INTO schema_migrations (version, name, checksum, applied_at)
                    SELECT max(version) + 1, 'later', zeroblob(32), 0 FROM schema_migrations";
        file.execute_batch(told).expect("changed");
        Ahead(on_disk)
    }
}

impl Fixture for Ahead {
    fn open(&mut self) -> Box<dyn Store> {
        self.0.open()
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        self.0.crash(store);
    }
}

mod on_disk {
    use super::OnDisk;
    store::conformance_tests!(OnDisk::new());
}

mod ahead {
    use super::Ahead;
    store::conformance_tests!(Ahead::new());
}

mod in_memory {
    use super::InMemory;
    store::conformance_tests!(InMemory::default());
}
