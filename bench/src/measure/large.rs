//! (h) What a step costs in a large job, against as many steps in jobs of ten: nothing may grow with the job's size.

use std::time::{Duration, Instant};

use api::SubmitRequest;
use tokio::task::JoinSet;

use crate::bowline::{Bowline, Server};
use crate::figure::{Figure, Target, Unit};
use crate::simulated::Crew;
use crate::stats::Times;
use crate::{Effort, Outcome, checks, jobs};

const DIAMOND: usize = 1_000;
const FAN_OUT: usize = 10_000;

/// The steps of a small job.
const SMALL: usize = 10;

/// How often each is done.
const ROUNDS: usize = 3;

const WORKERS: usize = 4;
const SLOTS: u32 = 64;

const TARGET: Target = Target::RatioAtMost(1.5);

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let (diamond, fan_out) = (effort.count(DIAMOND), effort.count(FAN_OUT));
    Ok(vec![
        compare(bowline, &format!("a diamond of {diamond} steps"), diamond, jobs::diamond).await?,
        compare(bowline, &format!("a fan-out of {fan_out} items"), fan_out, jobs::fan_out).await?,
    ])
}

async fn compare(bowline: &Bowline, what: &str, steps: usize, task: fn(usize) -> SubmitRequest) -> Outcome<Figure> {
    let server = bowline.server().await?;
    let mut crew = Crew::connect(&[&server], WORKERS, SLOTS).await?;
    let (mut small, mut large) = (Vec::new(), Vec::new());
    // In turn: what else the machine does meets both.
    for n in 0..=ROUNDS {
        let times = (
            time(&server, &mut crew, &task(SMALL), steps / SMALL, SMALL).await?,
            time(&server, &mut crew, &task(steps), 1, steps).await?,
        );
        // The first finds cold caches.
        if n > 0 {
            small.push(times.0);
            large.push(times.1);
        }
    }
    crew.leave().await;
    server.stop().await?;
    let per_step = |times: &[Duration]| Times::new(times).map(|times| times.median() / steps as f64);
    let (small, large) = per_step(&small).zip(per_step(&large)).ok_or("nothing was timed")?;
    let figure = Figure::new(format!("{what}, per step, median"), large, Unit::Millis);
    Ok(figure.limit("as many in jobs of ten, at once", small).target(TARGET))
}

/// From the submit of so many jobs at once until the server has the end and the log of every step.
async fn time(
    server: &Server<'_>,
    crew: &mut Crew,
    request: &SubmitRequest,
    count: usize,
    steps: usize,
) -> Outcome<Duration> {
    let begin = Instant::now();
    let mut submits = JoinSet::new();
    for _ in 0..count {
        let (client, request) = (server.client(), request.clone());
        submits.spawn(async move { jobs::submit(&client, &request).await });
    }
    crew.ended(count * steps).await?;
    let time = begin.elapsed();
    let client = server.client();
    while let Some(job) = submits.join_next().await {
        let job = jobs::finished(&client, &job??.id.to_string()).await?;
        checks::exit_records(&job, steps)?;
    }
    Ok(time)
}
