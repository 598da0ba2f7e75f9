//! (a) Trivial steps per second through the whole system, against bare processes.

use std::time::Instant;

use api::{Job, SubmitRequest};
use client::Client;
use tokio::task::JoinSet;

use crate::bowline::{Bowline, Server};
use crate::figure::{Figure, Target, Unit};
use crate::jobs::{self, Effects, TRUE};
use crate::limits::spawn;
use crate::stats::rate;
use crate::{Effort, Outcome, checks};

/// Some seconds of work.
const STEPS: usize = 2_000;

/// Enough that two cores are always busy although each step spends most of its time waiting for the disk.
const MANY_SLOTS: u32 = 16;

/// Those who submit separate jobs, each on a connection of its own.
const SUBMITTERS: usize = 8;

/// Bare processes need one core per process; a step needs a runner, a child, a worker and a server.
const TARGET: Target = Target::RatioAtLeast(0.25);

#[derive(Debug, Clone, Copy)]
enum Shape {
    OneJob,
    SeparateJobs,
}

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let before = spawn::per_second(effort)?;
    let steps = effort.count(STEPS);
    let mut rates = Vec::new();
    for slots in [None, Some(MANY_SLOTS)] {
        let server = bowline.server().await?;
        let worker = server.worker(slots).await?;
        for shape in [Shape::OneJob, Shape::SeparateJobs] {
            for effects in [Effects::Default, Effects::None] {
                let rate = match shape {
                    Shape::OneJob => one_job(&server, steps, effects).await?,
                    Shape::SeparateJobs => separate_jobs(&server, steps, effects).await?,
                };
                rates.push((name(shape, effects, slots), rate));
            }
        }
        worker.stop().await?;
        server.stop().await?;
    }
    // The better of two: the machine's limit is what it can do when it is not disturbed.
    let limit = before.max(spawn::per_second(effort)?);
    let figure =
        |(name, rate)| Figure::new(name, rate, Unit::PerSecond).limit("posix_spawn, 2 threads", limit).target(TARGET);
    Ok(rates.into_iter().map(figure).collect())
}

/// From the submit until the job is over and the log of the last step is in the store.
async fn one_job(server: &Server<'_>, steps: usize, effects: Effects) -> Outcome<f64> {
    let client = server.client();
    let request = jobs::independent(steps, &TRUE, effects);
    let begin = Instant::now();
    let submitted = jobs::submit(&client, &request).await?;
    let job = jobs::finished(&client, &submitted.id.to_string()).await?;
    let last = checks::last_step(&job).ok_or("the job has no steps")?;
    checks::log(&client, &job, &last.name).await?;
    let rate = rate(steps, begin.elapsed());
    checks::job(&client, &job, steps).await?;
    Ok(rate)
}

/// From the first submit until all are over. Each submitter has its share of the jobs, and waits for them in turn.
async fn separate_jobs(server: &Server<'_>, steps: usize, effects: Effects) -> Outcome<f64> {
    let request = jobs::independent(1, &TRUE, effects);
    let share = steps.div_ceil(SUBMITTERS);
    let begin = Instant::now();
    let mut submitters = JoinSet::new();
    for _ in 0..SUBMITTERS {
        submitters.spawn(submit_share(server.client(), request.clone(), share));
    }
    let mut finished = Vec::new();
    while let Some(jobs) = submitters.join_next().await {
        finished.extend(jobs??);
    }
    let rate = rate(finished.len(), begin.elapsed());
    let client = server.client();
    for job in &finished {
        checks::job(&client, job, 1).await?;
    }
    Ok(rate)
}

async fn submit_share(client: Client, request: SubmitRequest, share: usize) -> Outcome<Vec<Job>> {
    let mut submitted = Vec::with_capacity(share);
    for _ in 0..share {
        submitted.push(jobs::submit(&client, &request).await?.id);
    }
    let mut finished = Vec::with_capacity(share);
    for id in submitted {
        finished.push(jobs::finished(&client, &id.to_string()).await?);
    }
    Ok(finished)
}

fn name(shape: Shape, effects: Effects, slots: Option<u32>) -> String {
    let shape = match shape {
        Shape::OneJob => "steps of one job",
        Shape::SeparateJobs => "one-step jobs",
    };
    let effects = match effects {
        Effects::Default => "writes",
        Effects::None => "none",
    };
    let slots = slots.map_or("default slots".to_owned(), |slots| format!("{slots} slots"));
    format!("{shape}, effects {effects}, {slots}")
}
