//! The sweeper: four looks over the rows, every so often, for whatever the index of check times or a message should have
//! found and did not. It is always on; what fails is tried again for ever, and one bad row stops nobody else.
//!
//! A runner's silence is judged here too, but at its own time and not only when a sweep comes around.

use std::time::Duration;

use engine::event::Ticket;
use engine::{AttemptId, Clocks, Epoch, Event, Heard, Time, WorkerId};
use pause::Point;
use store::{Due, HeldStep, Lease, Store, StoreError, Tenure};

use crate::dispatch::Place;

use super::command::Command;
use super::core::Core;
use super::losses::Seen;
use super::round::Round;

/// The index has had its chance when a check time is past by this.
const OVERDUE: Duration = Duration::from_secs(1);

/// Rows handled by one phase of one sweep; the rest wait for the next.
const ROWS_PER_PHASE: usize = 1_000;

/// A sweep with a phase that failed is repeated so soon, unless sweeps come around sooner anyway.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Old signs of life are deleted in pieces of this size, so many per sweep: neither the writer nor the log of the
/// database is held for long.
const PRUNE_ROWS: usize = 500;
const PRUNE_PIECES: usize = 10;

/// Longer than anybody who is over can hold a slot of it.
const GROUP_IDLE: Duration = Duration::from_secs(3 * 24 * 3600);

/// When silence is too long, and how often everything is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepRules {
    pub interval: Duration,
    pub claimed_stale: Duration,
    pub running_stale: Duration,
    /// How long signs of life are kept; none: for ever.
    pub heartbeat_retention: Option<Duration>,
}

impl Default for SweepRules {
    fn default() -> Self {
        SweepRules {
            interval: Duration::from_secs(60),
            claimed_stale: Duration::from_secs(120),
            running_stale: Duration::from_secs(300),
            heartbeat_retention: Some(Duration::from_secs(24 * 3600)),
        }
    }
}

/// What a sweep found about one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    pub(super) place: Place,
    pub(super) attempt: AttemptId,
    pub(super) what: Finding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// Its worker has no link, the last one was of this epoch, and the row does not say so.
    CutOff(Epoch),
    Silent(Duration),
    /// An operator was asked about its silence, and now it is heard.
    HeardAgain,
}

/// Where a worker's link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Here, and its last heartbeat came then.
    Here(Heard),
    /// Another server has it, and judges it.
    Elsewhere,
    /// And the last one was of this epoch.
    Nowhere(Epoch),
}

/// What the server has heard, for the plan of the first phase.
trait Ears {
    fn worker(&self, id: WorkerId) -> Link;
    fn runner(&self, attempt: AttemptId) -> Option<Heard>;
}

/// Phase 1: what is held by workers that are not there, or by senders that have fallen silent.
fn stale(rows: &[HeldStep], ears: &impl Ears, clocks: &Clocks, rules: &SweepRules) -> Vec<Swept> {
    let find = |row: &HeldStep| {
        let beat = match ears.worker(row.worker) {
            Link::Here(beat) => beat,
            Link::Elsewhere => return None,
            Link::Nowhere(epoch) => {
                let unsaid = matches!(row.state.as_str(), "queued" | "running" | "cancelling");
                return unsaid.then_some(Finding::CutOff(epoch));
            }
        };
        let (last, limit) = match row.state.as_str() {
            // An offer that has not stood for so long is not to blame for what was before it.
            "queued" if row.since + rules.claimed_stale > clocks.now && !row.for_operator => return None,
            "queued" => (Some(beat), rules.claimed_stale),
            "running" => (ears.runner(row.attempt), rules.running_stale),
            _ => return None,
        };
        match last {
            Some(last) if clocks.may_judge(last + limit) => Some(Finding::Silent(silence(last, clocks))),
            Some(_) if row.for_operator => Some(Finding::HeardAgain),
            Some(_) | None => None,
        }
    };
    let found = rows.iter().filter_map(|row| {
        let place = Place { job: row.job, step: row.ix };
        find(row).map(|what| Swept { place, attempt: row.attempt, what })
    });
    found.collect()
}

/// Phases 2 to 4: deadlines of steps, deadlines of jobs, and queued steps that nobody may be able to run.
fn overdue(rows: &[Due], phase: Phase) -> Vec<Due> {
    let belongs = |due: &&Due| match phase {
        Phase::Stale => false,
        Phase::Steps => due.step.is_some() && !due.queued,
        Phase::Jobs => due.step.is_none(),
        Phase::Unmatched => due.queued,
    };
    rows.iter().filter(belongs).copied().collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Stale,
    Steps,
    Jobs,
    Unmatched,
}

fn silence(last: Heard, clocks: &Clocks) -> Duration {
    Duration::from_micros(u64::try_from(clocks.heard.0.saturating_sub(last.0)).unwrap_or(0))
}

impl<S: Store> Ears for Core<S> {
    fn worker(&self, id: WorkerId) -> Link {
        match self.roster.get(id) {
            Some(w) if w.link.is_some() => Link::Here(w.last_beat),
            Some(w) if w.elsewhere => Link::Elsewhere,
            Some(w) => Link::Nowhere(w.epoch),
            // Its row is gone, and all its links with it.
            None => Link::Nowhere(Epoch(u64::MAX)),
        }
    }

    fn runner(&self, attempt: AttemptId) -> Option<Heard> {
        self.beats.last_of_runner(attempt)
    }
}

impl<S: Store> Core<S> {
    /// When the next sweep, or the verdict on a runner's silence, is due.
    pub(super) fn sweep_wake_at(&self) -> Time {
        let clocks = self.hearing.clocks(self.tick.now);
        let stale = self.beats.oldest().map(|(heard, _)| clocks.verdict_at(heard + self.config.sweep.running_stale));
        stale.into_iter().fold(self.next_sweep, Time::min)
    }

    /// Runners whose silence is too long as of now, whenever the next sweep is.
    pub(super) fn judge_silent_runners(&mut self, commands: &mut Vec<Command>, round: &mut Round) {
        while let Some((heard, attempt)) = self.beats.oldest()
            && round.clocks.may_judge(heard + self.config.sweep.running_stale)
        {
            let holder = self.roster.holder(attempt);
            let Some((_, place)) = holder.filter(|(worker, _)| matches!(self.worker(*worker), Link::Here(_))) else {
                // Whoever has its worker's link hears it. When that comes back it says how long each of its runners has been silent.
                self.beats.forget_runner(attempt);
                continue;
            };
            let what = Finding::Silent(silence(heard, &round.clocks));
            self.take_swept(Swept { place, attempt, what }, commands, round);
            self.beats.judged(attempt);
        }
    }

    pub(super) fn sweep_if_due(&mut self, commands: &mut Vec<Command>, round: &mut Round) {
        if round.now < self.next_sweep {
            return;
        }
        let under = self.tenure(Lease::Sweep);
        let mut well = true;
        for phase in [Phase::Stale, Phase::Steps, Phase::Jobs, Phase::Unmatched] {
            if let Err(error) = self.sweep_phase(phase, under, commands, round) {
                tracing::warn!(?phase, %error, "a phase of the sweep failed; it is tried again");
                self.metrics.sweep_failures.inc();
                well = false;
            }
        }
        // Whoever waits for a group is found by the rows, whatever was missed.
        self.groups.stir_all();
        if let Err(error) = self.alarm_of_stray_slots(round) {
            tracing::warn!(%error, "concurrency groups could not be swept; it is tried again");
        }
        if let Some(tenure) = under {
            round.under.insert(tenure);
            if let Err(error) = self.sweep_out(tenure, round.now) {
                tracing::warn!(%error, "what nobody needs could not be deleted; it is tried again");
            }
        }
        let interval = self.config.sweep.interval;
        self.next_sweep = round.now + if well { interval } else { interval.min(AGAIN_AFTER) };
        self.metrics.sweeps.inc();
        self.metrics.last_sweep_ms.set(round.now.0 / 1_000);
    }

    /// When the last sweep was, in Unix milliseconds; 0 before the first.
    pub(super) fn swept_at(&self) -> i64 {
        self.metrics.last_sweep_ms.get()
    }

    pub(super) fn sweep_took(&self, time: Duration) {
        self.metrics.sweep_took_ms.set(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    }

    /// Every server judges the links that it has; the rest is one server's, `under` its lease.
    fn sweep_phase(
        &mut self,
        phase: Phase,
        under: Option<Tenure>,
        commands: &mut Vec<Command>,
        round: &mut Round,
    ) -> Result<(), StoreError> {
        if phase == Phase::Stale {
            let rows = self.store.held_steps()?;
            for swept in stale(&rows, self, &round.clocks, &self.config.sweep) {
                if under.is_some() || !matches!(swept.what, Finding::CutOff(_)) {
                    self.take_swept(swept, commands, round);
                }
            }
            return Ok(());
        }
        if under.is_none() {
            return Ok(());
        }
        let rows = self.store.due(round.now - OVERDUE, ROWS_PER_PHASE)?;
        for due in overdue(&rows, phase) {
            if !self.is_set_aside(due.job) && self.sees_to(due, round) {
                self.check(due, round);
                commands.push(Command::Check(due));
            }
        }
        Ok(())
    }

    /// Findings are commands like any other, so that one which cannot be written is found like any other.
    fn take_swept(&mut self, swept: Swept, commands: &mut Vec<Command>, round: &mut Round) {
        if !self.is_set_aside(swept.place.job) {
            if matches!(swept.what, Finding::Silent(_)) {
                self.beats.judged(swept.attempt);
            }
            self.swept(swept, round);
            commands.push(Command::Swept(swept));
        }
    }

    /// Another server wrote the job first. A verdict on a runner has its own time, and does not wait for the next sweep.
    pub(super) fn swept_in_vain(&mut self, swept: Swept) {
        if matches!(swept.what, Finding::Silent(_)) {
            self.beats.not_judged(swept.attempt);
        }
    }

    pub(super) fn swept(&mut self, swept: Swept, round: &mut Round) {
        let Swept { place, attempt, what } = swept;
        if let Finding::CutOff(epoch) = what {
            return self.link_gone(attempt, place, Seen::UpTo(epoch), round);
        }
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return };
        let Some((current, fence)) = cached.job.state(place.step).ticket() else { return };
        if current != attempt {
            return;
        }
        let ticket = Ticket { step: place.step, attempt, fence };
        let event = match what {
            Finding::Silent(silent) => Event::FellSilent { ticket, silent, by: None },
            Finding::HeardAgain => Event::HeardAgain { ticket },
            Finding::CutOff(_) => return,
        };
        if let Err(error) = self.apply(place.job, &event, round) {
            tracing::debug!(job = %place.job, step = place.step.0, %error, "a finding of the sweep changed nothing");
        }
    }

    /// Deletes what nobody needs any more. A group that nobody was admitted to for so long, and that is empty, needs no row.
    fn sweep_out(&mut self, tenure: Tenure, now: Time) -> Result<(), StoreError> {
        pause::at(Point::Sweeping);
        let groups = self.store.prune_groups(now - GROUP_IDLE, PRUNE_ROWS, Some(tenure));
        let swept = groups.and_then(|_| self.prune_beats(tenure, now));
        if matches!(swept, Err(StoreError::Moved { .. })) {
            self.relieved(tenure);
        }
        swept
    }

    fn prune_beats(&mut self, tenure: Tenure, now: Time) -> Result<(), StoreError> {
        let Some(retention) = self.config.sweep.heartbeat_retention else { return Ok(()) };
        for _ in 0..PRUNE_PIECES {
            if self.store.prune_beats(now - retention, PRUNE_ROWS, Some(tenure))? == 0 {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use engine::{JobId, StepIx};
    use uuid::Uuid;

    use super::*;

    const NOW: i64 = 10_000;

    #[derive(Default)]
    struct Known {
        workers: BTreeMap<WorkerId, Link>,
        runners: BTreeMap<AttemptId, Heard>,
    }

    impl Ears for Known {
        fn worker(&self, id: WorkerId) -> Link {
            self.workers.get(&id).copied().unwrap_or(Link::Nowhere(Epoch(3)))
        }

        fn runner(&self, attempt: AttemptId) -> Option<Heard> {
            self.runners.get(&attempt).copied()
        }
    }

    fn heard(seconds_ago: i64) -> Heard {
        Heard((NOW - seconds_ago) * 1_000_000)
    }

    fn row(state: &str, for_operator: bool) -> HeldStep {
        HeldStep {
            job: JobId(Uuid::nil()),
            ix: StepIx(0),
            state: state.to_owned(),
            for_operator,
            worker: WorkerId(Uuid::nil()),
            attempt: AttemptId(Uuid::nil()),
            since: Time((NOW - 1_000) * 1_000_000),
        }
    }

    /// What is found in one row, with a worker and a runner that were heard so many seconds ago.
    fn found(row: HeldStep, worker: Option<i64>, runner: Option<i64>) -> Option<Finding> {
        found_at(row, worker, runner, &Clocks::never_deaf(Time(NOW * 1_000_000)))
    }

    fn found_at(row: HeldStep, worker: Option<i64>, runner: Option<i64>, clocks: &Clocks) -> Option<Finding> {
        let known = Known {
            workers: worker.map(|ago| (row.worker, Link::Here(heard(ago)))).into_iter().collect(),
            runners: runner.map(|ago| (row.attempt, heard(ago))).into_iter().collect(),
        };
        stale(&[row], &known, clocks, &SweepRules::default()).first().map(|swept| swept.what)
    }

    #[test]
    fn who_is_stale() {
        let silent = |seconds| Some(Finding::Silent(Duration::from_secs(seconds)));
        assert_eq!(found(row("queued", false), Some(119), None), None);
        assert_eq!(found(row("queued", false), Some(120), None), silent(120));
        let fresh = HeldStep { since: Time((NOW - 20) * 1_000_000), ..row("queued", false) };
        assert_eq!(found(fresh, Some(500), None), None, "an offer of just now");
        assert_eq!(found(row("running", false), Some(1), Some(299)), None);
        assert_eq!(found(row("running", false), Some(1), Some(301)), silent(301));
        assert_eq!(found(row("running", false), Some(1), None), None, "a runner that never beats is not judged by it");
        for state in ["recovering", "cancelling"] {
            assert_eq!(found(row(state, false), Some(1), Some(9_999)), None, "{state}");
        }
    }

    #[test]
    fn a_worker_without_a_link_is_cut_off_and_nothing_else() {
        for state in ["queued", "running", "cancelling"] {
            assert_eq!(found(row(state, false), None, Some(9_999)), Some(Finding::CutOff(Epoch(3))), "{state}");
        }
        assert_eq!(found(row("recovering", false), None, None), None);
    }

    #[test]
    fn an_operator_is_told_when_it_is_heard_again() {
        assert_eq!(found(row("running", true), Some(1), Some(10)), Some(Finding::HeardAgain));
        assert_eq!(found(row("queued", true), Some(1), None), Some(Finding::HeardAgain));
        assert!(matches!(found(row("running", true), Some(1), Some(301)), Some(Finding::Silent(_))), "a reminder");
    }

    #[test]
    fn nobody_is_judged_right_after_deaf_time() {
        let quiet = Clocks { verdicts_from: heard(-10), ..Clocks::never_deaf(Time(NOW * 1_000_000)) };
        assert_eq!(found_at(row("running", false), Some(1), Some(9_000), &quiet), None);
        assert_eq!(found_at(row("queued", false), Some(900), None, &quiet), None);
    }

    #[test]
    fn every_overdue_row_belongs_to_one_phase() {
        let due = |step, queued| Due { at: Time(0), job: JobId(Uuid::nil()), step, queued };
        let rows = [due(None, false), due(Some(StepIx(0)), false), due(Some(StepIx(1)), true)];
        assert_eq!(overdue(&rows, Phase::Jobs), [rows[0]]);
        assert_eq!(overdue(&rows, Phase::Steps), [rows[1]]);
        assert_eq!(overdue(&rows, Phase::Unmatched), [rows[2]]);
    }
}
