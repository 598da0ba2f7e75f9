//! The engine's types to rows and back. What cannot be understood is an error, never a guess.

mod cleanup;
mod header;
mod parts;
mod step;

use std::sync::Arc;

use engine::attempt::{Attempt, Cleanup};
use engine::definition::Definition;
use engine::event::{About, AttemptNews, Note, OfferNews};
use engine::job::{Counts, Header, Job, Step};
use engine::state::Queued;
use engine::{JobId, State, StateName, StepIx};

use crate::rows::{AttemptRow, EventRow, JobRow, LoadedStep, StepRow, StoredJob};

#[derive(Debug, thiserror::Error)]
pub enum Corrupt {
    #[error("job {job}: {what}")]
    Job { job: JobId, what: String },
    #[error("step {} of job {job}: {what}", .ix.0)]
    Step { job: JobId, ix: StepIx, what: String },
}

/// What a job's row holds beyond what the engine knows.
#[derive(Debug, Clone)]
pub struct JobMeta {
    pub definition: [u8; 32],
    /// The job's input as JSON text.
    pub input: Arc<str>,
}

pub fn job_row(job: &Job, meta: &JobMeta) -> JobRow {
    let header = &job.header;
    let error = header.error.as_ref();
    JobRow {
        id: job.id,
        parent: job.parent,
        hook_of: job.hook_of,
        group: job.group.as_deref().map(str::to_owned),
        admitted_at: header.admitted_at,
        strays: header.strays,
        version: header.version,
        state: header.state.word(),
        task: job.definition.name.to_string(),
        definition: meta.definition,
        input: meta.input.to_string(),
        priority: job.definition.priority,
        submitted_by: job.submitted_by.to_string(),
        created_at: job.created_at,
        started_at: header.started_at,
        ended_at: header.ended_at,
        expires_at: job.definition.expires.map(|d| job.created_at + d),
        error_code: error.map(|e| e.failure.kind.code()),
        error_message: error.map(|e| e.failure.message.clone()),
        error_step: error.and_then(|e| e.step).map(|ix| job.name(ix).into_owned()),
        owner: header.check.map(|d| d.owner.word()),
        check_at: header.check.map(|d| d.at),
        action: header.check.map(|d| d.action.word()),
        data: header::encode(header),
    }
}

pub fn step_row(job: JobId, ix: StepIx, name: &str, step: &Step) -> StepRow {
    let (worker, attempt, fence) = match (step.state.live(), step.state.offer()) {
        (Some(live), _) => (Some(live.worker), Some(live.attempt), Some(live.fence)),
        (None, Some(offer)) => (Some(offer.worker), Some(offer.attempt), Some(offer.fence)),
        (None, None) => (None, None, None),
    };
    let (disconnected_at, recovery_deadline, queued_at) = match &step.state {
        engine::State::Recovering(r) => (Some(r.disconnected_at), Some(r.deadline), None),
        engine::State::Cancelling(c) => (c.cut.map(|cut| cut.at), None, None),
        engine::State::Queued(q) => (None, None, Some(q.since)),
        _ => (None, None, None),
    };
    StepRow {
        job,
        ix,
        name: name.to_owned(),
        state: step.state.name().word(),
        owner: step.check.map(|d| d.owner.word()),
        check_at: step.check.map(|d| d.at),
        action: step.check.map(|d| d.action.word()),
        worker,
        attempt,
        fence,
        dispatch_attempts: step.unanswered_offers,
        error_code: step.error.as_ref().map(|e| e.kind.code()),
        error_message: step.error.as_ref().map(|e| e.message.clone()),
        queued_at,
        disconnected_at,
        recovery_deadline,
        updated_at: step.updated_at,
        artifacts: step.artifacts.map(|set| step::hex(&set.id)),
        data: step::encode(step),
    }
}

/// Whether it waits for a worker and was offered to none. One that cannot be understood is for whoever reads all of it to say.
pub fn may_be_offered(row: &LoadedStep) -> bool {
    let offered = |step: &Step| !matches!(step.state, State::Queued(Queued { offer: None, .. }));
    row.state == StateName::Queued.word() && !step::decode(row).is_ok_and(|step| offered(&step))
}

pub fn attempt_row(job: JobId, attempt: &Attempt) -> AttemptRow {
    AttemptRow {
        id: attempt.live.attempt,
        job,
        ix: attempt.step,
        number: attempt.live.number,
        fence: attempt.live.fence,
        worker: attempt.live.worker,
        epoch: attempt.live.epoch,
        state: attempt.state.word(),
        confirmed: attempt.confirmed,
        started_at: attempt.live.started_at,
        ended_at: attempt.ended_at,
        exit_code: attempt.exit_code,
        signal: attempt.signal,
        error_code: attempt.error.as_ref().map(|e| e.kind.code()),
        error_message: attempt.error.as_ref().map(|e| e.message.clone()),
        duration_ms: attempt.usage.duration_ms,
        cpu_ms: attempt.usage.cpu_ms,
        memory_bytes_max: attempt.usage.memory_bytes_max,
        cleanup: attempt.cleanup.as_ref().map(cleanup::encode),
    }
}

/// The end of a cleanup as an attempt's row has it.
pub fn cleanup(text: &str) -> Result<Cleanup, String> {
    cleanup::decode(text)
}

pub fn event_row(job: JobId, note: &Note) -> EventRow {
    let mut row = EventRow {
        job,
        ix: None,
        at: note.at,
        kind: "step",
        verb: None,
        from: None,
        to: None,
        worker: None,
        reason: note.reason.clone(),
    };
    match &note.about {
        About::Step { step, verb, from, to } => {
            row.ix = Some(*step);
            row.verb = Some(verb.word());
            row.from = Some(from.word());
            row.to = Some(to.word());
        }
        About::Offer { step, worker, what } => {
            row.kind = "offer";
            row.ix = Some(*step);
            row.worker = Some(*worker);
            row.verb = Some(match what {
                OfferNews::Made => "made",
                OfferNews::Refused => "refused",
                OfferNews::Unanswered => "unanswered",
                OfferNews::Lost => "lost",
            });
        }
        About::Attempt { step, worker, what } => {
            row.kind = "attempt";
            row.ix = Some(*step);
            row.worker = Some(*worker);
            row.verb = Some(match what {
                AttemptNews::Unconfirmed => "unconfirmed",
                AttemptNews::Confirmed => "confirmed",
                AttemptNews::LateOutcome => "late_outcome",
                AttemptNews::Silent => "silent",
                AttemptNews::HeardAgain => "heard_again",
                AttemptNews::MoreTime => "more_time",
                AttemptNews::Stale => "stale",
            });
        }
        About::Job { from, to } => {
            row.kind = "job";
            row.from = Some(from.word());
            row.to = Some(to.word());
        }
        About::Approved { step } => {
            row.kind = "approved";
            row.ix = Some(*step);
        }
        About::CancelAsked => row.kind = "cancel_asked",
        About::Continued => row.kind = "continued",
        About::Restored => row.kind = "restored",
        About::Hook => row.kind = "hook",
        About::Slot => row.kind = "slot",
        About::Notice { step } => {
            row.kind = "notice";
            row.ix = *step;
        }
    }
    row
}

/// The set of files that an end which came late brought with it; late ends are stored as their worker told them.
pub fn late_artifacts(outcome: &str) -> Option<String> {
    let outcome: serde_json::Value = serde_json::from_str(outcome).ok()?;
    outcome.pointer("/artifacts/stored/id")?.as_str().map(str::to_owned)
}

/// Whether a step stands where its kind belongs: those of the definition first, then items of its fan-outs.
fn check_family(step: &Step, index: usize, definition: &Definition) -> Result<(), String> {
    let steps = definition.steps();
    match &step.item {
        None if index < steps.len() => Ok(()),
        None => Err("it is in no definition, and no item".to_owned()),
        Some(item) if index < steps.len() => Err(format!("it is an item of step {}, and in the definition", item.of.0)),
        Some(item) => match steps.get(item.of.get()) {
            Some(of) if of.fan_out.is_some() => Ok(()),
            Some(_) | None => Err(format!("it is an item of step {}, which has none", item.of.0)),
        },
    }
}

/// A stored job back into the engine's shape; `definition` comes from its stored text.
pub fn load(stored: &StoredJob, definition: Arc<Definition>) -> Result<(Job, JobMeta), Corrupt> {
    let id = stored.job.id;
    let bad = |what: String| Corrupt::Job { job: id, what };
    if stored.steps.len() < definition.steps().len() {
        let (rows, steps) = (stored.steps.len(), definition.steps().len());
        return Err(bad(format!("it has {rows} step rows, and its definition {steps} steps")));
    }
    let input: serde_json::Value =
        serde_json::from_str(&stored.job.input).map_err(|e| bad(format!("its input is not JSON: {e}")))?;
    let mut steps = Vec::with_capacity(stored.steps.len());
    for (index, row) in stored.steps.iter().enumerate() {
        let corrupt = |what: String| Corrupt::Step { job: id, ix: row.ix, what };
        if row.ix != StepIx::of(index) {
            return Err(corrupt(format!("it stands at place {index}")));
        }
        let step = step::decode(row).map_err(corrupt)?;
        check_family(&step, index, &definition).map_err(corrupt)?;
        if step.state.name().word() != row.state {
            return Err(corrupt(format!("its column says {} and its data {}", row.state, step.state.name())));
        }
        steps.push(step);
    }
    let mut header: Header = header::decode(&stored.job).map_err(bad)?;
    if header.state.word() != stored.job.state {
        return Err(bad(format!("its column says {} and its data {}", stored.job.state, header.state)));
    }
    let counts = Counts::of(&steps);
    header.counts.take_held_children(&counts);
    if header.counts != counts {
        return Err(bad("its counts do not fit its steps".to_owned()));
    }
    let meta = JobMeta { definition: stored.definition.hash, input: Arc::from(stored.job.input.as_str()) };
    let submitted_by = Arc::from(stored.job.submitted_by.as_str());
    let (parent, input, created_at) = (stored.job.parent, Arc::new(input), stored.job.created_at);
    let (hook_of, group) = (stored.job.hook_of, stored.job.group.as_deref().map(Arc::from));
    let job = Job { id, parent, hook_of, definition, input, group, submitted_by, created_at, header, steps };
    Ok((job, meta))
}
