//! Promise: nobody is judged for a silence that is not theirs. A step is given up for its worker's absence only after a whole
//! window in which the installation listened, not before those who could not be heard had the time to call in, and never
//! while that worker is heard and has it.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{AttemptId, WorkerId};

use super::FASTEST_CLOCK;
use super::ears::Ears;
use super::rows::{Place, Rows, put_back};
use super::{Accepted, Findings};
use crate::setup::Setup;

const CHECKER: &str = "silence";

/// How a verdict on silence begins, whoever it is about.
const VERDICT: &str = "Job failed: agent disconnected and did not reconnect";

/// The installation's idea of what it heard and the truth differ by this at most in one window.
const SLACK: Duration = Duration::from_secs(15);

/// A worker that is connected is heard so often.
const HEARTBEAT: Duration = Duration::from_secs(35);

/// A word that long after the cut was not said before it.
const HERE_FOR: Duration = Duration::from_secs(60);

pub(crate) struct Silence {
    window: Duration,
    /// What had been listened to when each step's worker was cut off, and when that was.
    cuts: BTreeMap<Place, Cut>,
    /// The same for each worker without a link: what it has may be on record as cut off only later.
    left: BTreeMap<WorkerId, Cut>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    listened: Duration,
    at: Duration,
}

impl Silence {
    pub(crate) fn new(setup: &Setup) -> Silence {
        Silence { window: setup.core.rules.recovery_window, cuts: BTreeMap::new(), left: BTreeMap::new() }
    }

    pub(super) fn cut(&self, place: Place) -> Option<Cut> {
        self.cuts.get(&place).copied()
    }

    pub(super) fn put_back(&mut self, cuts: Vec<(Place, Option<Cut>)>) {
        put_back(&mut self.cuts, cuts);
        self.left.clear();
    }

    /// `rows` are those before the batch. `lives`: whether something of an attempt runs, where its worker can find it.
    pub(crate) fn committed(
        &mut self,
        now: Duration,
        ears: &Ears,
        rows: &Rows,
        accepted: &Accepted<'_>,
        lives: impl Fn(AttemptId) -> bool,
        found: &mut Findings,
    ) {
        for row in accepted.attempts() {
            let place = Place { job: row.job, step: row.ix };
            let known = rows.attempts.get(&row.id).is_some_and(|before| before.is_over());
            let judged = row.error_message.as_deref().is_some_and(|message| message.starts_with(VERDICT));
            let Some(cut) = self.cuts.get(&place).filter(|_| judged && !known) else { continue };
            let name =
                || format!("attempt {} of step {} of {} was given up for silence", row.number, row.ix.0, row.job);
            let listened = ears.listened() - cut.listened;
            if listened.mul_f64(FASTEST_CLOCK) + SLACK < self.window {
                found.add(CHECKER, format!("{} after {listened:?} in which anybody listened", name()));
            }
            if !ears.might_judge(SLACK) {
                found.add(CHECKER, format!("{}, {:?} after nobody could be heard", name(), ears.unbroken()));
            }
            let voice = ears.worker(row.worker);
            let is_here = voice.seen > cut.at + HERE_FOR && voice.seen + HEARTBEAT > now;
            if is_here && lives(row.id) {
                found.add(CHECKER, format!("{}, and its worker is heard all the time", name()));
            }
        }
        let cut_now = Cut { listened: ears.listened(), at: now };
        for hello in &accepted.batch.hellos {
            self.left.remove(&hello.id);
        }
        for (worker, ..) in &accepted.batch.left {
            self.left.entry(*worker).or_insert(cut_now);
        }
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            let attempt = rows.step(place).and_then(|step| rows.attempts.get(step.attempts.last()?));
            let left = attempt.and_then(|attempt| self.left.get(&attempt.worker)).copied();
            match row.disconnected_at {
                Some(_) => drop(self.cuts.entry(place).or_insert(left.unwrap_or(cut_now))),
                None => drop(self.cuts.remove(&place)),
            }
        }
    }
}
