//! A few read-only connections, handed out one to a thread.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use store::StoreError;

use crate::place::Place;

/// More would not read faster on the machines that this runs on, and each keeps pages of its own.
const CONNECTIONS_MAX: usize = 4;

#[derive(Debug)]
pub(crate) struct Pool {
    place: Place,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug)]
struct State {
    idle: Vec<Connection>,
    open: usize,
}

/// A connection that goes back when it is dropped.
pub(crate) struct Lent<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Pool {
    /// Opens the first connection at once: it keeps a database in memory alive.
    pub(crate) fn new(place: Place) -> Result<Pool, StoreError> {
        let first = place.open_reader()?;
        Ok(Pool { place, state: Mutex::new(State { idle: vec![first], open: 1 }), returned: Condvar::new() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.place.name
    }

    pub(crate) fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let mut state = self.state();
        loop {
            if let Some(connection) = state.idle.pop() {
                return Ok(Lent { pool: self, connection: Some(connection) });
            }
            if state.open < CONNECTIONS_MAX {
                state.open += 1;
                drop(state);
                return self.open_another();
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open_another(&self) -> Result<Lent<'_>, StoreError> {
        // Gives the place back if opening fails.
        let mut lent = Lent { pool: self, connection: None };
        lent.connection = Some(self.place.open_reader()?);
        Ok(lent)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Lent<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("a lent connection is there until it is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        match self.connection.take() {
            Some(connection) => state.idle.push(connection),
            None => state.open -= 1,
        }
        drop(state);
        self.pool.returned.notify_one();
    }
}
