//! (b) How long one trivial step takes over HTTP, from the submit to the answer that it is over.

use std::time::Instant;

use crate::bowline::Bowline;
use crate::figure::{Figure, Target, Unit};
use crate::jobs::{self, Effects, TRUE};
use crate::limits::spawn;
use crate::stats::Times;
use crate::{Effort, Outcome, checks};

const JOBS: usize = 500;

/// The first jobs find cold caches.
const WARM_UP: usize = 20;

const MEDIAN_MAX_MS: f64 = 8.0;

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let process = spawn::latency(effort)?;
    let server = bowline.server().await?;
    let worker = server.worker(None).await?;
    let client = server.client();
    let request = jobs::independent(1, &TRUE, Effects::Default);
    let mut times = Vec::new();
    let mut finished = Vec::new();
    for n in 0..WARM_UP + effort.count(JOBS) {
        let begin = Instant::now();
        let submitted = jobs::submit(&client, &request).await?;
        finished.push(jobs::finished(&client, &submitted.id.to_string()).await?);
        if n >= WARM_UP {
            times.push(begin.elapsed());
        }
    }
    for job in &finished {
        checks::job(&client, job, 1).await?;
    }
    worker.stop().await?;
    server.stop().await?;
    let times = Times::new(&times).ok_or("no job was timed")?;
    let figure = |name: &str, value| Figure::new(name, value, Unit::Millis).limit("one process", process);
    Ok(vec![
        figure("submit to finished, median", times.median()).target(Target::Below(MEDIAN_MAX_MS)),
        figure("submit to finished, p95", times.percentile(95)),
    ])
}
