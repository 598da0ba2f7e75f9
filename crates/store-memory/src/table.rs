//! One table: rows by key, whatever else they are found by, and what it held before the newest transactions.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;
use std::sync::Arc;

/// What a table needs to know of its rows.
pub(crate) trait Row: Clone {
    type Key: Ord + Clone;
    /// What rows are found by besides their key.
    type Index: Default + Clone;

    fn enter(&self, _key: &Self::Key, _index: &mut Self::Index) {}

    fn leave(&self, _key: &Self::Key, _index: &mut Self::Index) {}
}

/// Rows are shared with snapshots and with the journal, and never changed in place.
#[derive(Debug)]
pub(crate) struct Table<R: Row> {
    rows: BTreeMap<R::Key, Arc<R>>,
    index: R::Index,
    journal: VecDeque<Before<R>>,
    transaction: u64,
}

/// What a key held before a transaction changed it.
#[derive(Debug)]
struct Before<R: Row> {
    transaction: u64,
    key: R::Key,
    row: Option<Arc<R>>,
}

impl<R: Row> Table<R> {
    pub(crate) fn get(&self, key: &R::Key) -> Option<&R> {
        self.rows.get(key).map(Arc::as_ref)
    }

    pub(crate) fn contains(&self, key: &R::Key) -> bool {
        self.rows.contains_key(key)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&R::Key, &R)> {
        self.rows.iter().map(|(key, row)| (key, row.as_ref()))
    }

    pub(crate) fn range(&self, range: impl RangeBounds<R::Key>) -> impl DoubleEndedIterator<Item = (&R::Key, &R)> {
        self.rows.range(range).map(|(key, row)| (key, row.as_ref()))
    }

    pub(crate) fn index(&self) -> &R::Index {
        &self.index
    }

    pub(crate) fn put(&mut self, key: R::Key, row: R) {
        let row = self.set(&key, Some(Arc::new(row)));
        self.journal.push_back(Before { transaction: self.transaction, key, row });
    }

    pub(crate) fn remove(&mut self, key: R::Key) {
        let row = self.set(&key, None);
        self.journal.push_back(Before { transaction: self.transaction, key, row });
    }

    /// Changes a row that is there and says whether it was; `change` says whether it has anything to change.
    pub(crate) fn update(&mut self, key: &R::Key, change: impl FnOnce(&R) -> Option<R>) -> bool {
        let changed = self.get(key).and_then(change);
        let written = changed.is_some();
        if let Some(row) = changed {
            self.put(key.clone(), row);
        }
        written
    }

    /// Puts a row in place, or takes it away; returns what was there.
    fn set(&mut self, key: &R::Key, row: Option<Arc<R>>) -> Option<Arc<R>> {
        let old = match &row {
            Some(new) => self.rows.insert(key.clone(), new.clone()),
            None => self.rows.remove(key),
        };
        if let Some(old) = &old {
            old.leave(key, &mut self.index);
        }
        if let Some(new) = row {
            new.enter(key, &mut self.index);
        }
        old
    }
}

/// A copy has no past: what it holds cannot be forgotten.
impl<R: Row> Clone for Table<R> {
    fn clone(&self) -> Table<R> {
        let (rows, index) = (self.rows.clone(), self.index.clone());
        Table { rows, index, journal: VecDeque::new(), transaction: self.transaction }
    }
}

impl<R: Row> Default for Table<R> {
    fn default() -> Table<R> {
        Table { rows: BTreeMap::new(), index: R::Index::default(), journal: VecDeque::new(), transaction: 0 }
    }
}

/// A table's past, whatever its rows are.
pub(crate) trait Journal {
    /// What comes now belongs to this transaction; those before `oldest` can no longer be undone.
    fn begin(&mut self, transaction: u64, oldest: u64);

    /// Takes back this transaction and all after it.
    fn undo_from(&mut self, transaction: u64);
}

impl<R: Row> Journal for Table<R> {
    fn begin(&mut self, transaction: u64, oldest: u64) {
        self.transaction = transaction;
        while self.journal.front().is_some_and(|before| before.transaction < oldest) {
            self.journal.pop_front();
        }
    }

    fn undo_from(&mut self, transaction: u64) {
        while let Some(before) = self.journal.pop_back_if(|before| before.transaction >= transaction) {
            self.set(&before.key, before.row);
        }
    }
}
