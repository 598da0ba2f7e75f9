//! What must be true of every job before its figure counts: each step ran once and succeeded, its exit record is in
//! the store, and so is its whole log.

use std::time::Duration;

use api::job::StepKind;
use api::{Attempt, AttemptState, Job, JobState, LogsQuery, Step, StepState};
use client::Client;
use tokio::time::{sleep, timeout};

use crate::Outcome;

/// A result may be on record before the last frame of its log; never by much.
const LOG_PATIENCE: Duration = Duration::from_secs(10);
const LOG_POLL: Duration = Duration::from_millis(2);

/// Checks a final job with all the steps that workers did, and their logs.
pub(crate) async fn job(client: &Client, job: &Job, steps: usize) -> Outcome<()> {
    for step in exit_records(job, steps)? {
        log(client, job, &step.name).await?;
    }
    Ok(())
}

/// Checks a final job; gives the steps that workers did.
pub(crate) fn exit_records(job: &Job, steps: usize) -> Outcome<Vec<&Step>> {
    if job.state != JobState::Success {
        return Err(format!("job {} is {}: {:?}", job.id, job.state, job.error).into());
    }
    let on_workers: Vec<&Step> = job.steps.iter().filter(|step| step.kind == StepKind::Run).collect();
    if on_workers.len() != steps {
        return Err(format!("job {} has {} steps and not {steps}", job.id, on_workers.len()).into());
    }
    for step in &on_workers {
        exit_record(step).map_err(|what| format!("job {}, step {}: {what}", job.id, step.name))?;
    }
    Ok(on_workers)
}

/// Waits until a step's log is whole.
pub(crate) async fn log(client: &Client, job: &Job, step: &str) -> Outcome<()> {
    let id = job.id.to_string();
    let query = LogsQuery { tail: Some(1), ..LogsQuery::default() };
    let whole = async {
        while !client.logs(&id, step, &query).await?.complete {
            sleep(LOG_POLL).await;
        }
        Ok(())
    };
    let late = |_| format!("job {id}, step {step}: the log is not complete after {} s", LOG_PATIENCE.as_secs());
    timeout(LOG_PATIENCE, whole).await.map_err(late)?
}

/// The step whose end came last.
pub(crate) fn last_step(job: &Job) -> Option<&Step> {
    job.steps.iter().max_by_key(|step| step.attempts.last().and_then(|attempt| attempt.ended_at))
}

fn exit_record(step: &Step) -> Result<(), String> {
    if step.state != StepState::Success {
        return Err(format!("it is {}", step.state));
    }
    match step.attempts.as_slice() {
        [Attempt { state: AttemptState::Ended, exit_code: Some(0), .. }] => Ok(()),
        [attempt] => Err(format!("its attempt is {} with exit code {:?}", attempt.state, attempt.exit_code)),
        attempts => Err(format!("it has {} attempts and not one", attempts.len())),
    }
}
