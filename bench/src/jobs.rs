//! Task files of trivial steps, and submitting them.

use std::time::Duration;

use api::{Job, SubmitRequest};
use client::{Client, new_idempotency_key};
use serde_json::{Map, Value, json};

use crate::Outcome;

/// One request waits no longer than this; the job may take several of them.
const WAIT: Duration = Duration::from_secs(10);

/// A job of the bench that takes longer than this will not end.
const WAITS_MAX: usize = 30;

/// The argument vector that does nothing.
pub(crate) const TRUE: [&str; 1] = ["/bin/true"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    /// As in a file that says nothing about them.
    Default,
    None,
}

/// A task of `count` steps that do not need each other.
pub(crate) fn independent(count: usize, argv: &[&str], effects: Effects) -> SubmitRequest {
    request(&(0..count).map(|n| (name(n), step(argv, effects))).collect())
}

/// A task of `count` steps, each of which needs the one before it.
pub(crate) fn chain(count: usize) -> SubmitRequest {
    let mut steps = Map::new();
    for n in 0..count {
        let mut step = step(&TRUE, Effects::Default);
        if n > 0 {
            step["needs"] = json!([name(n - 1)]);
        }
        steps.insert(name(n), step);
    }
    request(&steps)
}

/// A task whose first step releases all others but the last, which needs them all; `count` steps in all.
pub(crate) fn diamond(count: usize) -> SubmitRequest {
    let last = count.saturating_sub(1);
    let mut steps = Map::new();
    for n in 0..count {
        let mut step = step(&TRUE, Effects::Default);
        match n {
            0 => {}
            n if n == last => step["needs"] = (1..last).map(name).collect(),
            _ => step["needs"] = json!([name(0)]),
        }
        steps.insert(name(n), step);
    }
    request(&steps)
}

/// A task of one step that is done for each of `count` items.
pub(crate) fn fan_out(count: usize) -> SubmitRequest {
    let mut step = step(&TRUE, Effects::Default);
    step["for_each"] = (0..count).collect();
    request(&Map::from_iter([(name(0), step)]))
}

pub(crate) async fn submit(client: &Client, request: &SubmitRequest) -> Outcome<Job> {
    Ok(client.submit(request, &new_idempotency_key()?).await?)
}

/// Waits until a job is final, whatever it then is.
pub(crate) async fn finished(client: &Client, job: &str) -> Outcome<Job> {
    for _ in 0..WAITS_MAX {
        let found = client.job_wait(job, WAIT).await?;
        if found.state.is_final() {
            return Ok(found);
        }
    }
    Err(format!("job {job} did not end").into())
}

fn request(steps: &Map<String, Value>) -> SubmitRequest {
    let task = json!({ "name": "bench", "steps": steps });
    SubmitRequest { spec: Some(task.to_string()), ..SubmitRequest::default() }
}

fn step(argv: &[&str], effects: Effects) -> Value {
    match effects {
        Effects::Default => json!({ "run": argv }),
        Effects::None => json!({ "run": argv, "effects": "none" }),
    }
}

fn name(n: usize) -> String {
    format!("s{n}")
}
