//! Promise: after an operator's word that the database was restored, nothing that does something to the world begins before a
//! person wants it to, as often as its rules want that anew: it may have run in the time that is lost. Every job that was open
//! is told before anything of it begins, and its history says so; what follows on the end of one that was told is
//! told with its birth. Whatever workers bring may go on: what runs, runs.
//!
//! That nothing is held for ever is the promise of [liveness](super::liveness).

use std::collections::BTreeSet;
use std::time::Duration;

use engine::{AttemptId, JobId, StepIx, Time};
use store::Batch;
use store::rows::AttemptRow;

use super::ears::Ears;
use super::plans::Plans;
use super::rows::{Place, Rows, StepSeen};
use super::{Accepted, Checks, Findings};
use crate::workload::{Kind, StepPlan};

const CHECKER: &str = "restored";

/// Servers that are up look for such a word with each mark, where they can.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// Whoever wants something to run looks around first: what is on its way may start for so long.
const LOOKS_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Restored {
    words: Vec<Word>,
    /// Jobs of refused batches: they may be such as cannot be told.
    refused: BTreeSet<JobId>,
}

/// What an operator said.
#[derive(Debug)]
struct Word {
    /// As it is on record.
    at: Time,
    said: Duration,
    /// Jobs that were not over.
    open: BTreeSet<JobId>,
    /// What is listened to when all of them were told; at once, where no server was up.
    told_by: Option<Duration>,
}

impl StepPlan {
    /// Nobody knows by the record alone whether it may run once more.
    fn is_doubtful(&self) -> bool {
        self.kind != Kind::Approve && (self.child.is_some() || self.effects != "none")
    }
}

impl Restored {
    /// `up`: some server is.
    pub(super) fn said(&mut self, now: Duration, at: Time, up: bool, ears: &Ears, rows: &Rows) {
        let open = rows.open_jobs().map(|(id, _)| id).collect();
        self.words.push(Word { at, said: now, open, told_by: up.then(|| ears.listened() + TOLD_WITHIN) });
    }

    /// Commits were lost, and this is the last word that is left on record. `up`: some server is, and has to notice it.
    pub(super) fn left(&mut self, last: Option<Time>, up: bool, ears: &Ears) {
        self.words.retain(|word| last.is_some_and(|last| word.at <= last));
        for word in &mut self.words {
            word.told_by = up.then(|| ears.listened() + TOLD_WITHIN);
        }
    }

    pub(super) fn refused(&mut self, batch: &Batch) {
        self.refused.extend(batch.jobs.iter().map(|write| write.row.id));
    }

    pub(super) fn is_said(&self) -> bool {
        !self.words.is_empty()
    }

    /// An attempt that was not known before; `rows` are those before it. `brought`: its worker has it, whatever the record says.
    pub(super) fn granted(
        &self,
        ears: &Ears,
        row: &AttemptRow,
        (rows, plans): (&Rows, &Plans),
        brought: bool,
        found: &mut Findings,
    ) {
        let place = Place { job: row.job, step: row.ix };
        if let Some(wrong) = self.forbids(ears, (rows, plans), place).filter(|_| !brought) {
            found.add(CHECKER, format!("attempt {} of {} begins, and {wrong}", row.number, name(place)));
        }
    }

    /// Why this step must not begin.
    fn forbids(&self, ears: &Ears, (rows, plans): (&Rows, &Plans), place: Place) -> Option<&'static str> {
        if awaits_a_person(rows, plans, place) {
            return Some("may have run before the database was restored; nobody has said since that it may run");
        }
        let doubtful = plans.step(rows, place).is_some_and(StepPlan::is_doubtful);
        let untold = doubtful && self.is_untold(ears, rows, place.job);
        untold.then_some("its job was not told that the database was restored")
    }

    /// The job should have heard of it by now.
    fn is_untold(&self, ears: &Ears, rows: &Rows, job: JobId) -> bool {
        let told_at = rows.job(job).and_then(|job| job.told_at);
        let untold = |word: &&Word| word.open.contains(&job) && told_at.is_none_or(|at| at < word.said);
        let late = |word: &Word| word.told_by.is_none_or(|by| by < ears.listened());
        !self.refused.contains(&job) && self.words.iter().find(untold).is_some_and(late)
    }

    /// `rows` are those after the batch.
    pub(super) fn committed(
        &self,
        now: Duration,
        ears: &Ears,
        (rows, plans): (&Rows, &Plans),
        accepted: &Accepted<'_>,
        found: &mut Findings,
    ) {
        if self.words.is_empty() {
            return;
        }
        for row in accepted.jobs() {
            let Some(job) = rows.job(row.id) else { continue };
            // What it begins in turn is asked for where it is begun; and what goes on for another does so by a person's word.
            let is_born = job.since == now && row.parent.is_none() && !job.continues;
            let after = row.hook_of.and_then(|of| rows.job(of)).filter(|_| is_born);
            if after.is_some_and(|after| after.told_at.is_some()) && job.told_at.is_none() && !job.is_final {
                found.add(CHECKER, format!("job {} follows on one that was told, and is not told itself", row.id));
            }
        }
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            let Some(step) = rows.step(place) else { continue };
            let begins = row.state == "queued" || (row.state == "running" && row.attempt.is_none());
            if !begins || !step.moved {
                continue;
            }
            if let Some(wrong) = self.forbids(ears, (rows, plans), place) {
                found.add(CHECKER, format!("{} is {}, and {wrong}", name(place), row.state));
            }
        }
    }
}

fn name(place: Place) -> String {
    format!("step {} of {}", place.step.0, place.job)
}

/// Whether this step may begin only when somebody wants it to, and not enough do yet.
pub(super) fn awaits_a_person(rows: &Rows, plans: &Plans, place: Place) -> bool {
    let Some(yeses) = rows.step(place).and_then(|step| step.yeses) else { return false };
    plans.step(rows, place).is_some_and(|plan| plan.is_doubtful() && yeses < plan.reviewers().max(1))
}

/// Whether enough people want this step to run since its record is in doubt, and it has not begun yet. Whoever wants a list wants
/// its items.
pub(super) fn is_vouched_for(rows: &Rows, plans: &Plans, place: Place) -> bool {
    let is_new = rows.before(place).is_none();
    let of_list = || list_of(rows, plans, place).and_then(|list| rows.step(list)).is_some_and(|list| list.was_doubted);
    (is_in_doubt(rows, plans, place) && !awaits_a_person(rows, plans, place)) || (is_new && of_list())
}

/// The step that has become many, of which this is one.
fn list_of(rows: &Rows, plans: &Plans, place: Place) -> Option<Place> {
    let name = rows.step(place)?.item_of()?;
    let list = plans.job(rows, place.job)?.steps.iter().position(|step| step.name == name)?;
    Some(Place { job: place.job, step: StepIx::of(list) })
}

/// Whether this step may have run before the database was restored, and has not begun since.
pub(super) fn is_in_doubt(rows: &Rows, plans: &Plans, place: Place) -> bool {
    let doubted = rows.step(place).is_some_and(|step| step.yeses.is_some());
    doubted && plans.step(rows, place).is_some_and(StepPlan::is_doubtful)
}

/// Whether somebody who looks into it has had the time to.
fn was_looked_into(now: Duration, rows: &Rows, job: JobId) -> bool {
    rows.job(job).and_then(|job| job.told_at).is_none_or(|at| at + LOOKS_FOR < now)
}

/// The attempt that a step is held with.
fn held_attempt(rows: &Rows, step: &StepSeen) -> Option<AttemptId> {
    let last = *step.attempts.last()?;
    rows.attempts.get(&last).is_some_and(|attempt| !attempt.is_over()).then_some(last)
}

impl Checks {
    /// An operator says that the database was restored, at this time by the installation's clock. `up`: some server is.
    pub(crate) fn restored(&mut self, at: Time, up: bool) {
        self.restored.said(self.now, at, up, &self.ears, &self.rows);
    }

    /// After commits were lost: the last such word that is left.
    pub(crate) fn left_of_words(&mut self, last: Option<Time>) {
        self.restored.left(last, self.remembers, &self.ears);
    }

    /// Steps that are held because the database was restored, and the attempts that they are held with.
    pub(crate) fn held_in_doubt(&self) -> Vec<(Place, Option<AttemptId>)> {
        let (rows, plans) = (&self.rows, &self.plans);
        let mut found = Vec::new();
        for (job, seen) in rows.open_jobs() {
            let held = seen.steps.iter().filter(|(_, step)| step.state == "held");
            let held = held.map(|(ix, step)| (Place { job, step: *ix }, held_attempt(rows, step)));
            found.extend(held.filter(|(place, _)| awaits_a_person(rows, plans, *place)));
        }
        found
    }

    /// Whether somebody who has looked can say that a step which may have run in a time that is lost does not run now.
    pub(crate) fn is_at_rest(&self, job: JobId, step: StepIx) -> bool {
        let (rows, plans, place) = (&self.rows, &self.plans, Place { job, step });
        if !awaits_a_person(rows, plans, place) {
            return true;
        }
        let origin = rows.origin(place);
        was_looked_into(self.now, rows, job) && self.lives.alive_places().all(|alive| rows.origin(alive) != origin)
    }

    /// How long this step has been as it is.
    pub(crate) fn stays_for(&self, place: Place) -> Duration {
        self.rows.step(place).map_or(Duration::ZERO, |step| self.now.saturating_sub(step.since))
    }
}
