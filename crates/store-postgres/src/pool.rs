//! A few connections that look, handed out one to a thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use store::StoreError;

use crate::place::{Place, Purpose};
use crate::session::Session;

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) place: Place,
    connections_max: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Session>,
    open: usize,
}

/// A connection that goes back when it is dropped, if it is still good.
pub(crate) struct Lent<'a> {
    pool: &'a Pool,
    session: Option<Session>,
}

impl Pool {
    pub(crate) fn new(place: Place, connections_max: usize) -> Pool {
        Pool { place, connections_max: connections_max.max(1), state: Mutex::default(), returned: Condvar::new() }
    }

    pub(crate) fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let mut state = self.state();
        loop {
            if let Some(session) = state.idle.pop() {
                if session.is_usable() {
                    return Ok(Lent { pool: self, session: Some(session) });
                }
                state.open -= 1;
                continue;
            }
            if state.open < self.connections_max {
                state.open += 1;
                drop(state);
                return self.open_another();
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open_another(&self) -> Result<Lent<'_>, StoreError> {
        // Gives the place back if opening fails.
        let mut lent = Lent { pool: self, session: None };
        lent.session = Some(self.place.connect(Purpose::Look)?);
        Ok(lent)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent<'_> {
    pub(crate) fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("a lent connection is there until it is dropped")
    }

    /// It did not answer: it goes, and does not come back.
    pub(crate) fn give_up(mut self) {
        if let Some(mut session) = self.session.take() {
            session.give_up();
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        match self.session.take().filter(Session::is_usable) {
            Some(session) => state.idle.push(session),
            None => state.open -= 1,
        }
        drop(state);
        self.pool.returned.notify_one();
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("idle", &self.idle.len()).field("open", &self.open).finish()
    }
}
