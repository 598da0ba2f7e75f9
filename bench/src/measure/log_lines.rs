//! (d) Log lines per second from one noisy step to the store, and every one of them read back.

use std::time::{Duration, Instant};

use api::{Job, LogsQuery};
use client::Client;

use crate::bowline::Bowline;
use crate::figure::{Figure, Target, Unit};
use crate::jobs::{self, Effects};
use crate::limits::disk;
use crate::stats::Times;
use crate::{Effort, Outcome, checks};

/// Below the default limit of a worker's spool (a million lines): a step that outruns its link by more than that loses
/// its oldest lines by design.
const LINES: usize = 800_000;
const ROUNDS: usize = 3;

/// As many as the server gives in one answer.
const PAGE_LINES: u32 = 10_000;

const PER_SECOND_MIN: f64 = 200_000.0;

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let lines = effort.count(LINES);
    let last = lines.to_string();
    let argv = ["/usr/bin/seq", "1", &last];
    let request = jobs::independent(1, &argv, Effects::Default);
    let server = bowline.server().await?;
    let worker = server.worker(None).await?;
    let client = server.client();
    let (mut stored, mut read) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let submitted = jobs::submit(&client, &request).await?;
        let job = jobs::finished(&client, &submitted.id.to_string()).await?;
        checks::job(&client, &job, 1).await?;
        stored.push(begin.elapsed());
        let begin = Instant::now();
        read_back(&client, &job, lines).await?;
        read.push(begin.elapsed());
    }
    worker.stop().await?;
    let folder = server.stop().await?;
    let limit = disk::lines_per_second(folder.path(), &argv, lines)?;
    Ok(vec![
        Figure::new("log lines to the store, median", median_rate(lines, &stored)?, Unit::PerSecond)
            .limit("the same to a file", limit)
            .target(Target::AtLeast(PER_SECOND_MIN)),
        Figure::new("log lines read back over HTTP, median", median_rate(lines, &read)?, Unit::PerSecond),
    ])
}

fn median_rate(lines: usize, times: &[Duration]) -> Outcome<f64> {
    let median_ms = Times::new(times).ok_or("nothing was timed")?.median();
    Ok(lines as f64 / median_ms * 1_000.0)
}

/// Line n says n, from the first to the last: nothing is missing, doubled or out of place.
async fn read_back(client: &Client, job: &Job, lines: usize) -> Outcome<()> {
    let id = job.id.to_string();
    let step = &job.steps.first().ok_or("the job has no step")?.name;
    let mut query = LogsQuery { from: Some(1), limit: Some(PAGE_LINES), ..LogsQuery::default() };
    let mut expected = 1;
    loop {
        let page = client.logs(&id, step, &query).await?;
        for line in &page.lines {
            if line.seq != expected || line.text.parse() != Ok(expected) {
                return Err(format!("log line {expected} is number {} and says {:?}", line.seq, line.text).into());
            }
            expected += 1;
        }
        if page.complete {
            break;
        }
        if page.lines.is_empty() {
            return Err(format!("the log ends before line {expected} and is not complete").into());
        }
        query.from = Some(page.next);
    }
    let found = expected - 1;
    if found == lines as u64 { Ok(()) } else { Err(format!("the log has {found} lines and not {lines}").into()) }
}
