//! Signs of life: of a worker for everything that it holds (the claimer), of a runner for what it runs.
//!
//! They come with every heartbeat, change no job, and are written in bulk. How long a runner has been silent is known
//! here; what follows from it is [`super::sweep`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, Heard, Time, WorkerId};
use protocol::link::Heartbeat;
use store::Store;
use store::rows::{BeatRole, BeatRow};

use crate::dispatch::LinkId;

use super::core::Core;
use super::round::Round;

/// Beats wait so long for others to be written with.
const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// Rows written in one round, so that a fleet's beats never hold up an offer by much; the rest follow in the next.
const ROWS_PER_ROUND: usize = 2_000;

/// What was heard and is not written yet, and when each runner was last heard.
#[derive(Debug, Default)]
pub(super) struct Beats {
    waiting: BTreeMap<(AttemptId, BeatRole), BeatRow>,
    flush_at: Option<Time>,
    runners: BTreeMap<AttemptId, Heard>,
    /// Runners whose silence is not judged yet, the longest silent first.
    by_age: BTreeSet<(Heard, AttemptId)>,
}

impl Beats {
    fn add(&mut self, beat: &BeatRow, now: Time) {
        self.flush_at.get_or_insert(now + FLUSH_EVERY);
        let known =
            self.waiting.entry((beat.attempt, beat.role)).or_insert_with(|| BeatRow { count: 0, ..beat.clone() });
        if (known.pid, &known.hostname) != (beat.pid, &beat.hostname) {
            // Another process: what is known of the one before is in the database, but for a few seconds.
            *known = BeatRow { count: 0, ..beat.clone() };
        }
        known.longest_gap = known.longest_gap.max(beat.last_at.since(known.last_at));
        known.last_at = known.last_at.max(beat.last_at);
        known.count += beat.count;
    }

    /// Takes note of when a runner was last heard. Whether that is a new beat, and not the last one told again: its time
    /// is measured anew with every heartbeat, and never quite the same.
    fn runner(&mut self, attempt: AttemptId, heard: Heard, interval: Duration) -> bool {
        let known = self.runners.get(&attempt).copied();
        if known.is_some_and(|known| heard <= known + interval / 2) {
            return false;
        }
        if let Some(known) = known {
            self.by_age.remove(&(known, attempt));
        }
        self.runners.insert(attempt, heard);
        self.by_age.insert((heard, attempt));
        true
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.runners.len()
    }

    pub(super) fn last_of_runner(&self, attempt: AttemptId) -> Option<Heard> {
        self.runners.get(&attempt).copied()
    }

    /// The runner that has been silent for the longest time, of those that are not judged.
    pub(super) fn oldest(&self) -> Option<(Heard, AttemptId)> {
        self.by_age.first().copied()
    }

    /// Its silence was judged; the next beat puts it back.
    pub(super) fn judged(&mut self, attempt: AttemptId) {
        if let Some(heard) = self.runners.get(&attempt) {
            self.by_age.remove(&(*heard, attempt));
        }
    }

    /// What was judged came to nothing: its silence is to be judged again.
    pub(super) fn not_judged(&mut self, attempt: AttemptId) {
        if let Some(heard) = self.runners.get(&attempt) {
            self.by_age.insert((*heard, attempt));
        }
    }

    /// What was known of it is not true any more: another server may have heard it since.
    pub(super) fn forget_runner(&mut self, attempt: AttemptId) {
        if let Some(heard) = self.runners.remove(&attempt) {
            self.by_age.remove(&(heard, attempt));
        }
    }

    /// Runners could not be heard for so long.
    pub(super) fn grow_younger(&mut self, by: Duration) {
        self.runners.values_mut().for_each(|heard| *heard = *heard + by);
        self.by_age = self.by_age.iter().map(|(heard, attempt)| (*heard + by, *attempt)).collect();
    }

    pub(super) fn flush_at(&self) -> Option<Time> {
        self.flush_at
    }

    /// What is to be written now. Of attempts that nobody holds any more nothing is kept.
    fn take_due(&mut self, now: Time, is_held: impl Fn(AttemptId) -> bool) -> Vec<BeatRow> {
        if self.flush_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.waiting.retain(|(attempt, _), _| is_held(*attempt));
        self.runners.retain(|attempt, _| is_held(*attempt));
        self.by_age.retain(|(_, attempt)| is_held(*attempt));
        let rest = match self.waiting.keys().nth(ROWS_PER_ROUND).copied() {
            Some(key) => self.waiting.split_off(&key),
            None => BTreeMap::new(),
        };
        self.flush_at = (!rest.is_empty()).then_some(now);
        std::mem::replace(&mut self.waiting, rest).into_values().collect()
    }
}

impl<S: Store> Core<S> {
    /// A heartbeat is a beat of the worker for each attempt that it names, and brings its runners' own.
    pub(super) fn take_beats(&mut self, link: LinkId, worker: WorkerId, beat: &Heartbeat, round: &Round) {
        let (Some(known), Some(pid)) = (self.roster.get(worker), self.links.get(&link).map(|l| l.pid)) else { return };
        let row = |attempt, role, pid, at| BeatRow {
            attempt,
            sender: worker,
            role,
            hostname: known.hostname.clone(),
            pid,
            first_at: at,
            last_at: at,
            count: 1,
            longest_gap: Duration::ZERO,
        };
        let holds = |attempt: &AttemptId| known.held.contains_key(attempt);
        for attempt in beat.held.iter().map(|ticket| AttemptId(ticket.attempt)).filter(holds) {
            self.beats.add(&row(attempt, BeatRole::Claimer, pid, round.now), round.now);
        }
        let interval = Duration::from_millis(self.config.link.runner_heartbeat_ms);
        for runner in &beat.runners {
            let (attempt, age) = (AttemptId(runner.ticket.attempt), Duration::from_millis(runner.age_ms));
            let heard = Heard(round.clocks.heard.0.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)));
            if holds(&attempt) && self.beats.runner(attempt, heard, interval) {
                self.beats.add(&row(attempt, BeatRole::Runner, runner.pid, round.now - age), round.now);
            }
        }
    }

    pub(super) fn flush_beats(&mut self, round: &mut Round) {
        let roster = &self.roster;
        round.beats.rows = self.beats.take_due(round.now, |attempt| roster.place(attempt).is_some());
        round.beats.silence = Duration::from_millis(self.config.link.heartbeat_ms) * 2;
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn beat(n: u128, at: i64, pid: u32) -> BeatRow {
        BeatRow {
            attempt: AttemptId(Uuid::from_u128(n)),
            sender: WorkerId(Uuid::nil()),
            role: BeatRole::Claimer,
            hostname: "h".to_owned(),
            pid,
            first_at: Time(at * 1_000_000),
            last_at: Time(at * 1_000_000),
            count: 1,
            longest_gap: Duration::ZERO,
        }
    }

    #[test]
    fn beats_are_written_together_and_only_of_what_is_held() {
        let mut beats = Beats::default();
        for (at, pid) in [(1, 7), (2, 7), (4, 7)] {
            beats.add(&beat(1, at, pid), Time(at * 1_000_000));
        }
        beats.add(&beat(2, 4, 7), Time(4_000_000));
        assert_eq!(beats.take_due(Time(5_999_999), |_| true), []);
        let rows = beats.take_due(Time(6_000_000), |attempt| attempt == AttemptId(Uuid::from_u128(1)));
        let first_at = Time(1_000_000);
        assert_eq!(rows, [BeatRow { first_at, count: 3, longest_gap: Duration::from_secs(2), ..beat(1, 4, 7) }]);
        assert_eq!(beats.flush_at(), None);
        // Another process begins anew.
        beats.add(&beat(1, 10, 7), Time(10_000_000));
        beats.add(&beat(1, 11, 8), Time(11_000_000));
        assert_eq!(beats.take_due(Time(20_000_000), |_| true), [beat(1, 11, 8)]);
    }

    #[test]
    fn a_flood_of_beats_is_written_in_parts() {
        let mut beats = Beats::default();
        for n in 0..ROWS_PER_ROUND as u128 + 3 {
            beats.add(&beat(n, 1, 7), Time(0));
        }
        let now = Time(5_000_000);
        assert_eq!(beats.take_due(now, |_| true).len(), ROWS_PER_ROUND);
        assert_eq!(beats.flush_at(), Some(now), "the rest at once");
        assert_eq!(beats.take_due(now, |_| true).len(), 3);
    }

    #[test]
    fn a_beat_that_is_told_again_is_no_new_one() {
        let mut beats = Beats::default();
        let (attempt, interval) = (AttemptId(Uuid::nil()), Duration::from_secs(30));
        let heard = |seconds: i64| Heard(seconds * 1_000_000);
        assert!(beats.runner(attempt, heard(100), interval));
        assert!(!beats.runner(attempt, heard(101), interval), "the same, on a slower way");
        assert_eq!(beats.oldest(), Some((heard(100), attempt)));
        beats.judged(attempt);
        assert_eq!(beats.oldest(), None);
        assert!(beats.runner(attempt, heard(130), interval));
        assert_eq!(beats.oldest(), Some((heard(130), attempt)));
    }
}
