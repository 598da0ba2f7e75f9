//! Which attempts have begun, as their workers said. A worker whose disk was put back since says in good faith that such an
//! attempt never started, and is not believed.
//!
//! That it began changes no job. It is known here at once, and written in bulk a moment later, for other servers and for
//! the next start; of what is over by then nothing is written.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{AttemptId, Fence, Time};
use planted::Bug;
use protocol::attempt::Ticket;
use store::Store;

use crate::dispatch::LinkId;

use super::core::Core;
use super::round::Round;

/// What began waits so long for others to be written with. No machine is back sooner with another disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Rows written in one round; the rest follow.
const ROWS_PER_ROUND: usize = 2_000;

/// What was heard of attempts that are not over.
#[derive(Debug, Default)]
pub(super) struct Begun {
    heard: BTreeMap<AttemptId, Fence>,
    unwritten: BTreeMap<AttemptId, Fence>,
    flush_at: Option<Time>,
}

impl Begun {
    /// Also what is on record already: whoever says so again may do it because that was lost.
    fn heard(&mut self, ticket: Ticket, now: Time) {
        let (attempt, fence) = (AttemptId(ticket.attempt), Fence(ticket.fence));
        self.heard.insert(attempt, fence);
        self.unwritten.insert(attempt, fence);
        self.flush_at.get_or_insert(now + FLUSH_EVERY);
    }

    fn contains(&self, attempt: AttemptId) -> bool {
        self.heard.contains_key(&attempt)
    }

    /// What is to be written now. It stays to be written until [`Begun::written`]. Of attempts that nobody holds any more nothing
    /// is kept.
    fn due(&mut self, now: Time, is_held: impl Fn(AttemptId) -> bool) -> Vec<(AttemptId, Fence)> {
        if self.flush_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.heard.retain(|attempt, _| is_held(*attempt));
        self.unwritten.retain(|attempt, _| is_held(*attempt));
        self.flush_at = (!self.unwritten.is_empty()).then_some(now + FLUSH_EVERY);
        self.unwritten.iter().take(ROWS_PER_ROUND).map(|(attempt, fence)| (*attempt, *fence)).collect()
    }

    pub(super) fn written(&mut self, rows: &[(AttemptId, Fence)]) {
        for (attempt, _) in rows {
            self.unwritten.remove(attempt);
        }
        if self.unwritten.is_empty() {
            self.flush_at = None;
        }
    }

    pub(super) fn flush_at(&self) -> Option<Time> {
        self.flush_at
    }

    pub(super) fn len(&self) -> usize {
        self.heard.len()
    }
}

impl<S: Store> Core<S> {
    pub(super) fn began(&mut self, ticket: Ticket, round: &Round) {
        self.begun.heard(ticket, round.now);
    }

    pub(super) fn flush_begun(&mut self, round: &mut Round) {
        let roster = &self.roster;
        round.begun = self.begun.due(round.now, |attempt| roster.place(attempt).is_some());
    }

    /// Whether somebody heard that it began, or has lines of it.
    pub(super) fn has_begun(&mut self, link: LinkId, attempt: AttemptId, round: &Round) -> bool {
        if planted::is(Bug::PowerCutVoids) {
            return false;
        }
        if self.begun.contains(attempt) || self.log_position(link, attempt, round).is_some_and(|log| log.last_seq > 0) {
            return true;
        }
        let row = self.store.reader().attempt(attempt).inspect_err(|error| self.cache.missed(error));
        row.is_ok_and(|row| row.is_some_and(|row| row.begun))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn ticket(n: u64) -> Ticket {
        Ticket { attempt: Uuid::from_u128(u128::from(n)), fence: n }
    }

    fn row(n: u64) -> (AttemptId, Fence) {
        (AttemptId(Uuid::from_u128(u128::from(n))), Fence(n))
    }

    #[test]
    fn what_began_is_written_in_bulk_until_it_is_on_record() {
        let mut begun = Begun::default();
        begun.heard(ticket(1), Time(0));
        begun.heard(ticket(2), Time(500_000));
        begun.heard(ticket(3), Time(600_000));
        assert!(begun.contains(row(3).0));
        assert_eq!(begun.due(Time(999_999), |_| true), []);
        let held = |attempt| attempt != row(3).0;
        assert_eq!(begun.due(Time(1_000_000), held), [row(1), row(2)], "one is over");
        assert!(!begun.contains(row(3).0));
        assert_eq!(begun.flush_at(), Some(Time(2_000_000)), "should the batch be refused");
        begun.written(&[row(1), row(2)]);
        assert_eq!((begun.flush_at(), begun.len()), (None, 2));
        begun.heard(ticket(1), Time(5_000_000));
        assert_eq!(begun.due(Time(6_000_000), held), [row(1)], "its row may have been lost");
    }

    #[test]
    fn a_flood_is_written_in_parts() {
        let mut begun = Begun::default();
        (0..ROWS_PER_ROUND as u64 + 3).for_each(|n| begun.heard(ticket(n), Time(0)));
        let first = begun.due(Time(1_000_000), |_| true);
        begun.written(&first);
        let rest = begun.due(Time(2_000_000), |_| true);
        assert_eq!((first.len(), rest.len()), (ROWS_PER_ROUND, 3));
    }
}
