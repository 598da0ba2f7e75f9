//! The database that stores are handles of, and what a simulation may do to it.

use std::sync::{Arc, Mutex, MutexGuard};

use engine::JobId;
use store::rows::JobRow;

use crate::rows::Rows;
use crate::store::MemoryStore;
use crate::tables::Tables;

/// How far back [`MemoryDatabase::forget_last`] reaches: more than any replica lags behind, and little to keep.
pub const FORGETTABLE_COMMITS: u64 = 4_096;

/// Any number of stores and readers share one.
#[derive(Debug, Clone, Default)]
pub struct MemoryDatabase {
    tables: Arc<Mutex<Tables>>,
}

/// A state to come back to. Shares its rows with the database.
#[derive(Debug, Clone)]
pub struct Snapshot(Tables);

impl MemoryDatabase {
    pub fn new() -> MemoryDatabase {
        MemoryDatabase::default()
    }

    pub fn open(&self) -> MemoryStore {
        MemoryStore::new(self.clone())
    }

    /// How many transactions made what it holds now; those that were forgotten do not count.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    /// Loses the newest `count` transactions, as a replica that lags behind and takes over does: with their events, logs
    /// and counters. Returns how many were lost: fewer where there are not that many, or the memory of them is too short.
    pub fn forget_last(&self, count: u64) -> u64 {
        self.lock().forget_last(count)
    }

    /// Rewrites a job as another server would that changed nothing else: whoever knows its old version comes too late.
    /// Returns whether there is such a job.
    pub fn touch(&self, job: JobId) -> bool {
        let touched = self.lock().transact(|tables| {
            Ok(tables.jobs.update(&job, |row| Some(JobRow { version: row.version + 1, ..row.clone() })))
        });
        touched.expect("nothing in it is refused")
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.lock().copy())
    }

    /// What happened before the snapshot can no longer be forgotten.
    pub fn restore(&self, snapshot: &Snapshot) {
        *self.lock() = snapshot.0.copy();
    }

    /// A look at everything, for checkers. It locks the database: drop it before a store is used.
    pub fn rows(&self) -> Rows<'_> {
        Rows::new(self.lock())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no transaction panics")
    }
}
