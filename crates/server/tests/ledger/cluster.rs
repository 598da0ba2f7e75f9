//! Several ledgers on one database and one clock, each on a desk of its own.

use std::time::Duration;

use engine::Time;
use protocol::attempt::AttemptSpec;
use protocol::link::{HeldAttempt, HeldState};
use store::Store;
use store_memory::{MemoryDatabase, MemoryStore};

use crate::desk::Desk;

pub(crate) struct Cluster<S: Store = MemoryStore> {
    pub(crate) database: MemoryDatabase,
    pub(crate) now: Time,
    /// How each server sees the database.
    wrap: fn(MemoryStore) -> S,
    desks: Vec<Option<Seat<S>>>,
}

struct Seat<S: Store> {
    desk: Desk<S>,
    /// It does nothing, and time goes by.
    frozen: bool,
}

impl Cluster {
    pub(crate) fn new(servers: usize) -> Cluster {
        Cluster::with(servers, |store| store)
    }
}

impl<S: Store> Cluster<S> {
    /// So many servers, started one after the other, that have heard for long enough to judge.
    pub(crate) fn with(servers: usize, wrap: fn(MemoryStore) -> S) -> Cluster<S> {
        let now = Time(1_700_000_000_000_000);
        let mut cluster = Cluster { database: MemoryDatabase::new(), now, wrap, desks: Vec::new() };
        for _ in 0..servers {
            cluster.start();
            cluster.pass(Duration::from_secs(1));
        }
        cluster.pass(Duration::from_secs(100));
        cluster
    }

    /// One more server; returns its place.
    pub(crate) fn start(&mut self) -> usize {
        let place = self.desks.len();
        let seed = u8::try_from(place + 1).expect("few servers");
        let store = (self.wrap)(self.database.open());
        self.desks.push(Some(Seat { desk: Desk::beside(store, self.now, seed), frozen: false }));
        place
    }

    pub(crate) fn desk(&mut self, place: usize) -> &mut Desk<S> {
        let seat = self.desks[place].as_mut().expect("it runs");
        seat.desk.now = self.now;
        &mut seat.desk
    }

    /// Its process is gone, and whatever it had in memory.
    pub(crate) fn kill(&mut self, place: usize) {
        self.desks[place] = None;
    }

    pub(crate) fn freeze(&mut self, place: usize) {
        self.desks[place].as_mut().expect("it runs").frozen = true;
    }

    pub(crate) fn thaw(&mut self, place: usize) {
        self.desks[place].as_mut().expect("it runs").frozen = false;
    }

    /// Time goes by for all of them, and each is awake whenever it wants to be.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            for seat in self.desks.iter_mut().flatten().filter(|seat| !seat.frozen) {
                seat.desk.now = self.now;
                if seat.desk.core().wake_at() <= self.now {
                    seat.desk.round(Vec::new());
                }
            }
            if self.now >= end {
                return;
            }
            let awake = self.desks.iter_mut().flatten().filter(|seat| !seat.frozen);
            let next = awake.map(|seat| seat.desk.core().wake_at()).min().unwrap_or(end);
            self.now = next.max(self.now + Duration::from_millis(10)).min(end);
        }
    }
}

/// What a worker says of an attempt that it has, when it comes back.
pub(crate) fn running(spec: &AttemptSpec) -> HeldAttempt {
    HeldAttempt {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        state: HeldState::Running,
        log_first_seq: 0,
        log_last_seq: 0,
        events: 0,
        unsure: false,
    }
}
