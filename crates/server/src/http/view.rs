//! Jobs as the API shows them, made from what is stored.

use std::collections::HashMap;

use api::job::{
    Approval, Attempt, Cleanup, CleanupState, Deadline, Hold, Job, JobConcurrency, JobError, JobSummary, Notice, Step,
    StepError, StepKind, Usage, Waiting,
};
use api::{AttemptState, HoldReason, JobState, Timestamp, WaitReason};
use engine::attempt::{self, Outcome};
use engine::definition::{StepDef, Work};
use engine::{Clocks, JobId, Origin, State, StepIx};
use serde_json::Value;
use store::read::AttemptView;
use uuid::Uuid;

use crate::app::App;
use crate::ledger::Made;
use crate::origins;

use super::error::ApiError;
use super::{command, ids, outbox};

/// Jobs of one line that are looked at for those that go on from one of them.
const LINE_MAX: usize = 100;

/// How the submitter of a trigger's jobs begins.
const TRIGGER: &str = "trigger:";

/// One job with its steps and attempts.
pub(super) fn job(app: &App, id: JobId) -> Result<Job, ApiError> {
    // Asked first: what happens meanwhile is then in the events after it, never in between.
    let last_event = app.reader.last_event()?;
    let stored = app.reader.job(id)?.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    let (job, _) = app.definitions.load(&stored)?;
    let (lineage, line) = (app.reader.lineage(id)?, line(app, id)?);
    let hook_of = followed(app, job.hook_of, &job.submitted_by)?;
    let mut origins = origins::of_steps(&*app.reader, &job, lineage.continues.is_some())?;
    let view = Job {
        hook_of: hook_of.map(|job| job.0),
        continues: lineage.continues.map(|job| job.0),
        continues_how: line.how,
        deleted: deleted(app, [job.parent.map(|parent| parent.job), hook_of, lineage.continues])?,
        continued_by: line.by.into_iter().map(|job| job.0).collect(),
        resolved_by: lineage.resolved_by.map(|job| job.0),
        ..without_kin(app, &job, last_event)?
    };
    Ok(Job { steps: steps(app, &job, &mut origins, &app.clocks()?)?, ..view })
}

/// A job that was only just submitted, from memory: it goes on for nobody, and nobody for it.
pub(super) fn made(app: &App, made: Made) -> Result<Job, ApiError> {
    let Made { job, clocks, last_event } = made;
    let steps = steps(app, &job, &mut HashMap::new(), &clocks)?;
    Ok(Job { steps, ..without_kin(app, &job, last_event)? })
}

/// What a job says by itself, without its steps.
fn without_kin(app: &App, job: &engine::Job, last_event: u64) -> Result<Job, ApiError> {
    let (definition, header) = (&job.definition, &job.header);
    Ok(Job {
        id: job.id.0,
        task: definition.name.to_string(),
        state: header.state.into(),
        input: (*job.input).clone(),
        created_at: job.created_at.into(),
        started_at: header.started_at.map(Timestamp::from),
        ended_at: header.ended_at.map(Timestamp::from),
        error: header.error.as_ref().map(|error| JobError {
            code: error.failure.kind.code().to_owned(),
            message: error.failure.message.clone(),
            step: error.step.map(|ix| job.name(ix).into_owned()),
        }),
        priority: definition.priority,
        submitted_by: job.submitted_by.to_string(),
        last_event,
        parent: job.parent.map(|parent| parent.job.0),
        hook_of: None,
        concurrency: concurrency(job),
        hooks: outbox::hooks(app, job)?,
        notices: job.notices().into_iter().map(notice).collect(),
        continues: None,
        continues_how: None,
        deleted: Vec::new(),
        continued_by: Vec::new(),
        resolved_by: None,
        steps: Vec::new(),
    })
}

/// The attempts are read, where there are any.
fn steps(
    app: &App,
    job: &engine::Job,
    origins: &mut HashMap<StepIx, Origin>,
    clocks: &Clocks,
) -> Result<Vec<Step>, ApiError> {
    let tried = job.steps.iter().any(|step| step.attempts > 0);
    let mut attempts = if tried { attempts_by_step(app.reader.attempts(job.id)?)? } else { HashMap::new() };
    let mut steps = Vec::with_capacity(job.steps.len());
    for ix in in_order(job) {
        let (tried, origin) = (attempts.remove(&ix).unwrap_or_default(), origins.remove(&ix));
        steps.push(step(job, ix, job.step(ix), tried, origin, clocks));
    }
    Ok(steps)
}

/// How a job goes on for another, and who goes on for it.
struct Line {
    continues: Option<JobId>,
    how: Option<String>,
    by: Vec<JobId>,
}

fn line(app: &App, id: JobId) -> Result<Line, ApiError> {
    let family = app.reader.family(id, LINE_MAX)?;
    let own = family.members.iter().find(|kin| kin.job == id);
    let (continues, how) = (own.map(|kin| kin.continues), own.map(|kin| kin.how.clone()));
    let by = family.members.iter().rev().filter(|kin| kin.continues == id).map(|kin| kin.job).collect();
    Ok(Line { continues, how, by })
}

/// The job that this one follows. What follows on times that a trigger missed follows on no job.
fn followed(app: &App, hook_of: Option<JobId>, submitted_by: &str) -> Result<Option<JobId>, ApiError> {
    match hook_of {
        Some(of) if submitted_by.starts_with(TRIGGER) && app.reader.definition_of(of)?.is_none() => Ok(None),
        hook_of => Ok(hook_of),
    }
}

/// Relatives that are known by name only.
fn deleted(app: &App, relatives: [Option<JobId>; 3]) -> Result<Vec<Uuid>, ApiError> {
    let mut deleted = Vec::new();
    // Those that it began, and that follow on it, go with it.
    for relative in relatives.into_iter().flatten() {
        if app.reader.definition_of(relative)?.is_none() {
            deleted.push(relative.0);
        }
    }
    Ok(deleted)
}

/// The steps of the task, each with its items after it; on record items come after all others.
fn in_order(job: &engine::Job) -> impl Iterator<Item = StepIx> {
    let of_task = (0..job.definition.steps().len()).map(StepIx::of);
    of_task.flat_map(|ix| std::iter::once(ix).chain(job.step(ix).fan.into_iter().flat_map(|fan| fan.items())))
}

/// A job in a list.
pub(super) fn summary(app: &App, row: store::read::JobSummary) -> Result<JobSummary, ApiError> {
    let Some(state) = JobState::from_word(&row.state) else {
        return Err(ApiError::internal(&format!("job {} is in the unknown state {}", row.id, row.state)));
    };
    let line = line(app, row.id)?;
    let hook_of = followed(app, row.hook_of, &row.submitted_by)?;
    Ok(JobSummary {
        command: command::of(app, &row),
        id: row.id.0,
        task: row.task,
        state,
        created_at: row.created_at.into(),
        started_at: row.started_at.map(Timestamp::from),
        ended_at: row.ended_at.map(Timestamp::from),
        error: row.error_code.map(|code| JobError {
            code,
            message: row.error_message.unwrap_or_default(),
            step: row.error_step,
        }),
        parent: row.parent.map(|parent| parent.job.0),
        hook_of: hook_of.map(|job| job.0),
        submitted_by: row.submitted_by,
        continues: line.continues.map(|job| job.0),
        continues_how: line.how,
        continued_by: line.by.into_iter().map(|job| job.0).collect(),
        group: row.group,
        in_line: row.in_line,
    })
}

fn concurrency(job: &engine::Job) -> Option<JobConcurrency> {
    let concurrency = job.definition.concurrency.as_ref()?;
    Some(JobConcurrency {
        group: job.group.as_deref()?.to_owned(),
        limit: concurrency.limit,
        when_full: concurrency.when_full.word().to_owned(),
        in_line: job.awaits_slot(),
        admitted_at: job.header.admitted_at.map(Timestamp::from),
    })
}

fn step(
    job: &engine::Job,
    ix: StepIx,
    step: &engine::Step,
    attempts: Vec<Attempt>,
    origin: Option<Origin>,
    clocks: &Clocks,
) -> Step {
    let (taken_over_from, settled_by) = match origin {
        Some(Origin::TakenOver(job)) => (Some(job.0), None),
        Some(Origin::Settled { by, .. }) => (None, Some(by)),
        None => (None, None),
    };
    let (kind, items) = kinds(job.def(ix), step);
    let started_at = attempts.first().map(|first| first.started_at).or(step.delegated_at.map(Timestamp::from));
    let over = started_at.is_some() && step.state.is_final();
    Step {
        name: job.name(ix).into_owned(),
        kind,
        items,
        item: step.item.as_ref().map(|item| (*item.value).clone()),
        child: job.child_of(ix).map(|child| child.0),
        state: step.state.name().into(),
        attempt: step.attempts,
        taken_over_from,
        settled_by,
        dispatch_attempts: step.unanswered_offers,
        error: step
            .error
            .as_ref()
            .map(|error| StepError { code: error.kind.code().to_owned(), message: error.message.clone() }),
        output: step.output.clone(),
        attempts,
        hold: hold(job.def(ix), step),
        waiting: waiting(step),
        deadline: step.check_at(clocks).map(|check| Deadline {
            at: check.at.into(),
            action: check.action.word().to_owned(),
            owner: check.owner.word().to_owned(),
        }),
        needs: job.def(ix).needs.iter().map(|need| job.name(need.step).into_owned()).collect(),
        updated_at: Some(step.updated_at.into()),
        started_at,
        ended_at: over.then(|| step.updated_at.into()),
    }
}

fn notice(notice: engine::Notice) -> Notice {
    let (kind, at) = (notice.kind.word().to_owned(), notice.at.into());
    Notice { kind, at, step: notice.step.map(|(_, name)| name), text: notice.text }
}

fn hold(def: &StepDef, step: &engine::Step) -> Option<Hold> {
    let State::Held(held) = &step.state else { return None };
    let approval = |given: &engine::state::Approval| Approval {
        by: given.by.clone(),
        at: given.at.into(),
        comment: given.comment.clone(),
    };
    Some(Hold {
        reason: if step.in_doubt { HoldReason::Restored } else { HoldReason::Approval },
        since: held.since.into(),
        expires_at: held.expires_at.map(Timestamp::from),
        wanted: held.wanted,
        approvals: held.approvals.iter().map(approval).collect(),
        allow_submitter: !def.protection.four_eyes,
        environment: def.protection.environment.as_deref().map(str::to_owned),
        message: def.protection.message.as_deref().map(str::to_owned),
    })
}

fn waiting(step: &engine::Step) -> Option<Waiting> {
    let State::Waiting(waiting) = &step.state else { return None };
    let reason = match waiting.reason {
        engine::state::WaitReason::Retry => WaitReason::Retry,
        engine::state::WaitReason::Protection => WaitReason::Environment,
    };
    Some(Waiting { until: waiting.until.into(), reason })
}

/// What kind of step it is, and of what kind its items are.
fn kinds(def: &StepDef, step: &engine::Step) -> (StepKind, Option<StepKind>) {
    let kind = match def.work {
        Work::Run(_) => StepKind::Run,
        Work::Approve => StepKind::Approve,
        Work::Child(_) => StepKind::Task,
    };
    let becomes_many = def.fan_out.is_some() && step.item.is_none();
    if becomes_many { (StepKind::FanOut, Some(kind)) } else { (kind, None) }
}

fn attempts_by_step(rows: Vec<AttemptView>) -> Result<HashMap<StepIx, Vec<Attempt>>, ApiError> {
    let mut by_step: HashMap<StepIx, Vec<Attempt>> = HashMap::new();
    for row in rows {
        by_step.entry(row.ix).or_default().push(attempt(row)?);
    }
    Ok(by_step)
}

/// What cannot be understood is not shown: no verdict depends on it.
fn cleanup(text: &str) -> Option<Cleanup> {
    let cleanup = store::codec::cleanup(text).ok()?;
    let (exit_code, signal) = match cleanup.outcome {
        Outcome::Exited(code) => (Some(code), None),
        Outcome::Signaled { signal, .. } => (None, Some(signal)),
        Outcome::SpawnFailed(_) => (None, None),
    };
    let state = match cleanup.state() {
        attempt::CleanupState::Success => CleanupState::Success,
        attempt::CleanupState::Failed => CleanupState::Failed,
        attempt::CleanupState::TimedOut => CleanupState::TimedOut,
        attempt::CleanupState::Killed => CleanupState::Killed,
    };
    Some(Cleanup { state, exit_code, signal, problem: cleanup.problem(), duration_ms: cleanup.duration_ms })
}

fn attempt(row: AttemptView) -> Result<Attempt, ApiError> {
    let Some(state) = AttemptState::from_word(&row.state) else {
        return Err(ApiError::internal(&format!("attempt {} is in the unknown state {}", row.id, row.state)));
    };
    Ok(Attempt {
        id: row.id.0,
        number: row.number,
        fence: row.fence,
        worker: row.worker_name.unwrap_or_else(|| row.worker.to_string()),
        worker_id: Some(row.worker.0),
        state,
        confirmed: row.confirmed,
        started_at: row.started_at.into(),
        ended_at: row.ended_at.map(Timestamp::from),
        exit_code: row.exit_code,
        signal: row.signal,
        error: row.error_code.map(|code| StepError { code, message: row.error_message.unwrap_or_default() }),
        // Kept as JSON; should it be something else, it is still evidence.
        late_outcome: row.late_outcome.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text))),
        cleanup: row.cleanup.and_then(|text| cleanup(&text)),
        duration_ms: row.duration_ms,
        // Of one that was lost nobody has measured anything.
        usage: (state == AttemptState::Ended)
            .then_some(Usage { cpu_ms: row.cpu_ms, memory_bytes_max: row.memory_bytes_max }),
    })
}
