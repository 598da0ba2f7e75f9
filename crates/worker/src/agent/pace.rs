//! Work prepared ahead: while short steps follow each other, the next ones get their folder and runner ready before a
//! slot is free, and ask for their start together with the report that frees it.
//!
//! It is the worker that says how far it goes, with its heartbeats, and only while its steps are short: an offer that
//! waits here could have gone elsewhere, so none waits longer than [`AHEAD_PATIENCE`].

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::attempt::Ticket;
use protocol::link::RefuseReason;

use super::Agent;
use super::held::{AfterVoid, Phase};

/// A step that took longer says that the next slot is not free soon.
const SHORT_MS: u64 = 50;
/// So many short steps in a row, and the next ones are expected to be short as well.
const SHORT_STEPS: u32 = 4;
/// The longest wait of a prepared attempt for a slot; then it is given back.
const AHEAD_PATIENCE: Duration = Duration::from_millis(100);
/// More would only wait longer.
const AHEAD_MAX: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Pace {
    short_in_a_row: u32,
    /// What the server was last told.
    told_brisk: bool,
    /// Attempts that are ready while no slot is free, and since when. In the order of their tickets, which is that of
    /// the offers.
    ready: BTreeMap<Ticket, Duration>,
}

impl Pace {
    pub(super) fn step_took(&mut self, duration_ms: u64) {
        self.short_in_a_row = if duration_ms <= SHORT_MS { self.short_in_a_row.saturating_add(1) } else { 0 };
    }

    fn is_brisk(&self) -> bool {
        self.short_in_a_row >= SHORT_STEPS
    }

    /// Whether the server should hear of it before the next heartbeat.
    pub(super) fn is_news(&self) -> bool {
        self.is_brisk() != self.told_brisk
    }

    pub(super) fn is_ahead(&self, ticket: Ticket) -> bool {
        self.ready.contains_key(&ticket)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.ready.values().min().map(|since| *since + AHEAD_PATIENCE)
    }
}

impl Agent {
    /// Offers beyond its slots that this worker takes now.
    pub(super) fn ahead(&self) -> u32 {
        let none = self.draining || self.once || !self.pace.is_brisk();
        if none { 0 } else { self.hello.slots.min(AHEAD_MAX) }
    }

    pub(super) fn brisk_was_told(&mut self) {
        self.pace.told_brisk = self.pace.is_brisk();
    }

    pub(super) fn has_room_ahead(&self) -> bool {
        let active = self.held.values().filter(|held| held.is_active()).count();
        active < self.hello.slots.saturating_add(self.ahead()) as usize
    }

    /// A runner is ready: asks for its start now, or as soon as a slot is free.
    pub(super) fn ask_when_free(&mut self, ticket: Ticket, now: Duration) {
        self.pace.ready.insert(ticket, now);
    }

    /// Asks for as many starts as there are slots, oldest first, and gives back what has waited too long.
    pub(super) fn fill_slots(&mut self, now: Duration) {
        if self.pace.ready.is_empty() {
            return;
        }
        let held = &self.held;
        self.pace.ready.retain(|ticket, _| held.get(ticket).is_some_and(|held| held.phase == Phase::Waiting));
        let taken = held.iter().filter(|(ticket, held)| match held.phase {
            Phase::Waiting => !self.pace.ready.contains_key(ticket),
            Phase::Going | Phase::Running { .. } | Phase::Unreadable => true,
            Phase::Voiding { told, .. } => told,
            Phase::Preparing { .. } | Phase::Ended { .. } | Phase::Lost { .. } => false,
        });
        let free = (self.hello.slots as usize).saturating_sub(taken.count());
        for _ in 0..free {
            let Some((ticket, _)) = self.pace.ready.pop_first() else { return };
            self.ask(ticket, now);
        }
        let late: Vec<Ticket> = self
            .pace
            .ready
            .iter()
            .filter(|(_, since)| now >= **since + AHEAD_PATIENCE)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in late {
            self.give_back(ticket);
        }
    }

    fn give_back(&mut self, ticket: Ticket) {
        self.pace.ready.remove(&ticket);
        self.pace.short_in_a_row = 0;
        self.session.ask_for_slots_later();
        let detail = format!("all {} slots are taken for longer than expected", self.hello.slots);
        self.refuse(ticket, RefuseReason::Busy, detail);
        self.make_void(ticket, AfterVoid::Discard);
    }
}
