//! Promise: no state lasts for longer than its own rule says, whatever fails meanwhile: an offer as long as its answer may
//! take, a stop its grace and cleanup, a window twice itself, a runner's silence its limit. And a cancel acts at once, in every state.
//!
//! Nor is a stop given up sooner: what was told to end has its whole grace, and its cleanup all its time, unless by force.
//!
//! Time counts while somebody listens: nobody decides without that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, JobId, Time};
use store::Batch;

use super::ears::Ears;
use super::plans::Plans;
use super::rows::{Place, Rows};
use super::{Accepted, FASTEST_CLOCK, Findings};
use crate::setup::Setup;

const CHECKER: &str = "dwell";

/// Rounds, messages, the times at which things are looked at.
const SLACK: Duration = Duration::from_secs(15);

/// A server that is up notices by then that commits are lost.
const NOTICED: Duration = Duration::from_secs(5);

/// What an order to stop may take beyond its grace and cleanup.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// A refused job is left alone for a minute, and may be refused again when that is over.
const ASIDE_MAX: Duration = Duration::from_secs(125);

/// How the rows say that somebody wanted it at once, and that nobody answered an order to stop.
const BY_FORCE: &str = ", by force";
const UNANSWERED: &str = "no answer to the order to stop";

/// Runners beat, and workers tell of it, so often; a runner that has not run for so long has not beaten yet.
const BEATS: Duration = Duration::from_secs(90);

pub(crate) struct Dwell {
    answer: Duration,
    window: Duration,
    runner_stale: Duration,
    /// Nobody but a person gives up what is silent.
    asks: bool,
    stays: BTreeMap<Place, Stay>,
    /// Jobs of refused batches, and until how much listening they may be left alone for that.
    refused: BTreeMap<JobId, Duration>,
    /// Jobs that somebody has cancelled by force.
    forced: BTreeSet<JobId>,
    /// What had been listened to when marks were last lost, and how much of it was lost.
    lost: Option<(Duration, Duration)>,
}

/// A step's stay in a state that has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stay {
    state: &'static str,
    attempt: AttemptId,
    /// What had been listened to when it began.
    from: Duration,
    began: Duration,
    /// When that was decided, by the servers' clock. A commit may take long.
    decided: Time,
    /// Hearing that was lost right before it began: whoever had not noticed yet counted with it.
    unrecorded: Duration,
}

/// How the word of a silent runner begins, and what it has where a person gave it up, or is asked to.
const SILENT: &str = "no sign of life from the step's runner";
const BY_PEOPLE: &str = "; ordered by ";
const ASKS: &str = "`bowline recover";

/// A person does so within this.
const LOOKED_AFTER: Duration = Duration::from_secs(180);

impl Dwell {
    pub(crate) fn new(setup: &Setup) -> Dwell {
        let (rules, sweep) = (&setup.core.rules, &setup.core.sweep);
        let asks = setup.leaves_silence_to_people();
        Dwell {
            answer: rules.dispatch_ack,
            window: rules.recovery_window,
            runner_stale: sweep.running_stale + if asks { LOOKED_AFTER } else { Duration::ZERO },
            asks,
            stays: BTreeMap::new(),
            refused: BTreeMap::new(),
            forced: BTreeSet::new(),
            lost: None,
        }
    }

    /// Since when this step is in its state is not on record any more.
    pub(super) fn forget(&mut self, place: Place) {
        self.stays.remove(&place);
    }

    /// The marks of so much hearing are lost: for all that is decided, nobody listened then.
    pub(super) fn was_deaf(&mut self, ears: &Ears, lost: Duration) {
        self.stays.values_mut().for_each(|stay| stay.from = (stay.from + lost).min(ears.listened()));
        self.lost = Some((ears.listened(), lost));
    }

    /// `rows` are those after the batch.
    pub(crate) fn committed(
        &mut self,
        now: Duration,
        ears: &Ears,
        (rows, plans): (&Rows, &Plans),
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        let asked = |kind| batch.events.iter().filter(move |event| event.kind == kind && accepted.job(event.job));
        self.forced
            .extend(asked("cancel_asked").filter(|event| event.reason.ends_with(BY_FORCE)).map(|event| event.job));
        for event in asked("step").filter(|event| event.reason == UNANSWERED) {
            let Some(step) = event.ix else { continue };
            self.given_up((now, batch.now), ears, Place { job: event.job, step }, (rows, plans), found);
        }
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            let Some(attempt) = row.attempt.filter(|_| matches!(row.state, "queued" | "recovering" | "cancelling"))
            else {
                self.stays.remove(&place);
                continue;
            };
            let from = ears.listened();
            // After commits were lost it may have been in this state before it is written again.
            let began = rows.step(place).map_or(now, |step| step.since);
            let unrecorded = self.lost.filter(|(at, _)| from < *at + NOTICED).map(|(_, lost)| lost).unwrap_or_default();
            let begun = Stay { state: row.state, attempt, from, began, decided: batch.now, unrecorded };
            let known = self.stays.entry(place).or_insert(begun);
            if (known.state, known.attempt) != (row.state, attempt) {
                *known = begun;
            }
        }
        let by_people = |reason: &str| [BY_PEOPLE, ASKS].iter().any(|word| reason.contains(word));
        let is_servers = |reason: &str| reason.starts_with(SILENT) && !by_people(reason);
        if let Some(event) = batch.events.iter().find(|event| self.asks && is_servers(&event.reason)) {
            found.add(CHECKER, format!("job {} is judged, and that is for people: {}", event.job, event.reason));
        }
        for event in asked("cancel_asked") {
            cancel_acts(now, event.job, rows, found);
        }
        self.look(ears, rows, plans, found);
        self.look_at_frozen(now, ears, rows, found);
    }

    pub(crate) fn refused(&mut self, ears: &Ears, batch: &Batch) {
        let until = ears.listened() + ASIDE_MAX;
        self.refused.extend(batch.jobs.iter().map(|write| (write.row.id, until)));
    }

    fn look(&self, ears: &Ears, rows: &Rows, plans: &Plans, found: &mut Findings) {
        let may_be_aside = |job: &JobId| self.refused.get(job).is_some_and(|until| ears.listened() <= *until);
        for (place, stay) in self.stays.iter().filter(|(place, _)| !may_be_aside(&place.job)) {
            let stop = plans.step(rows, *place).map(|step| step.stop_time()).unwrap_or_default();
            let most = match stay.state {
                "queued" => self.answer,
                "cancelling" => stop + STOP_MARGIN,
                // Many lost at once have one window more; and nobody judges right after nobody was heard.
                _ if !ears.may_judge(Duration::ZERO) || ears.unbroken() < ears.stretch + SLACK => Duration::MAX,
                _ if ears.is_without_judge(SLACK) => Duration::MAX,
                _ if ears.has_leapt(SLACK) || ears.may_have_begun_anew(SLACK) => Duration::MAX,
                // A clock that was set back is waited for: it goes a tenth slower.
                _ => (2 * self.window).mul_f64(1.0 / 0.9) + stay.unrecorded,
            };
            let stayed = ears.listened() - stay.from;
            if stayed > most.saturating_add(SLACK) {
                let (step, job, state) = (place.step.0, place.job, stay.state);
                found.add(CHECKER, format!("step {step} of {job} has been {state} for {stayed:?}, {most:?} at most"));
                return;
            }
        }
    }

    /// Nobody has answered an order to stop, and its deadline is over: not before its time.
    fn given_up(
        &self,
        (now, decided): (Duration, Time),
        ears: &Ears,
        place: Place,
        (rows, plans): (&Rows, &Plans),
        found: &mut Findings,
    ) {
        let Some(stay) = self.stays.get(&place).filter(|stay| stay.state == "cancelling") else { return };
        let least = plans.step(rows, place).map(|step| step.stop_time()).unwrap_or_default();
        let (stayed, leapt) = (now - stay.began, ears.has_leapt_since(stay.from));
        // Where the order took as long to be written as it may take to be answered, its time was over before it was sent.
        let was_slow = decided.since(stay.decided) >= least + STOP_MARGIN;
        let too_soon = stayed.mul_f64(FASTEST_CLOCK) < least && !leapt && !was_slow;
        if too_soon && !self.forced.contains(&place.job) {
            let (step, job) = (place.step.0, place.job);
            found.add(CHECKER, format!("step {step} of {job} is given up after {stayed:?}, and has {least:?} to stop"));
        }
    }

    /// A runner that has been frozen for too long, while its worker was heard.
    fn look_at_frozen(&self, now: Duration, ears: &Ears, rows: &Rows, found: &mut Findings) {
        let most = self.runner_stale + BEATS;
        for (id, freeze) in ears.freezes().filter(|(_, freeze)| freeze.until > now && freeze.from + most < now) {
            let Some(attempt) = rows.attempts.get(&id).filter(|attempt| !attempt.is_over()) else { continue };
            let runs = rows.step(attempt.place).filter(|step| step.state == "running");
            let known = runs.is_some_and(|step| step.since + BEATS < freeze.from);
            let voice = ears.worker(attempt.worker);
            let heard = voice.hello < freeze.from && voice.seen > freeze.from + most && ears.unbroken() > most;
            if known && heard {
                let silent = now - freeze.from;
                found.add(CHECKER, format!("the runner of attempt {id} has been silent for {silent:?}, and runs on"));
            }
        }
    }
}

/// Whatever a job had in hand when it was cancelled is told to stop or over by the same commit.
fn cancel_acts(now: Duration, job: JobId, rows: &Rows, found: &mut Findings) {
    let Some(seen) = rows.job(job) else { return };
    let untouched = seen.steps.iter().find(|(_, step)| {
        step.since < now && matches!(step.state, "queued" | "waiting" | "held" | "recovering" | "running")
    });
    if let Some((ix, step)) = untouched {
        found.add(CHECKER, format!("job {job} is cancelled, and its step {} stays {}", ix.0, step.state));
    }
}
