//! (f) A chain of twenty steps, each of which needs the one before it.

use std::time::Instant;

use crate::bowline::Bowline;
use crate::figure::{Figure, Target, Unit};
use crate::jobs;
use crate::limits::spawn;
use crate::stats::Times;
use crate::{Effort, Outcome, checks};

const STEPS: usize = 20;
const CHAINS: usize = 30;
const MEDIAN_MAX_MS: f64 = 150.0;

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let process = spawn::latency(effort)?;
    let server = bowline.server().await?;
    let worker = server.worker(None).await?;
    let client = server.client();
    let request = jobs::chain(STEPS);
    let mut times = Vec::new();
    for n in 0..=effort.count(CHAINS) {
        let begin = Instant::now();
        let submitted = jobs::submit(&client, &request).await?;
        let job = jobs::finished(&client, &submitted.id.to_string()).await?;
        let time = begin.elapsed();
        checks::job(&client, &job, STEPS).await?;
        // The first finds cold caches.
        if n > 0 {
            times.push(time);
        }
    }
    worker.stop().await?;
    server.stop().await?;
    let times = Times::new(&times).ok_or("no chain was timed")?;
    let figure = Figure::new(format!("chain of {STEPS} steps, median"), times.median(), Unit::Millis);
    Ok(vec![figure.limit("20 processes in turn", process * STEPS as f64).target(Target::Below(MEDIAN_MAX_MS))])
}
