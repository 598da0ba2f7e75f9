//! (m) A server with a thousand links dies: how long until another one has them all, with what they run.

use std::time::Instant;

use crate::bowline::Bowline;
use crate::cluster::Cluster;
use crate::figure::{Figure, Target, Unit};
use crate::herd::{self, Herd};
use crate::steady::News;
use crate::{Effort, Outcome};

const WORKERS: usize = 1_000;

/// Running steps of each.
const SLOTS: usize = 2;

const BACK_MAX_MS: f64 = 5_000.0;

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let (workers, attempts) = (effort.count(WORKERS), effort.count(WORKERS) * SLOTS);
    let cluster = Cluster::start(bowline)?;
    let lines = format!("database: {}\n", cluster.database("bowline")?);
    let (mut first, second) = (bowline.server_with(&lines).await?, bowline.server_with(&lines).await?);
    let mut herd = Herd::gather(&[&first, &second], workers, SLOTS).await?;
    let ids = herd::submit(&first, 1, attempts).await?;
    herd.await_news(News::Running, attempts).await?;

    let begin = Instant::now();
    first.kill().await?;
    herd.await_news(News::Connected, workers).await?;
    let back = begin.elapsed();
    herd::all_running(&second, &ids).await?;

    herd.end(attempts).await?;
    herd::all_succeeded(&second, &ids, attempts).await?;
    second.stop().await?;
    let name = format!("server killed to all {workers} links at another, with {attempts} running attempts");
    let figure = Figure::new(name, back.as_secs_f64() * 1_000.0, Unit::Millis);
    Ok(vec![figure.target(Target::Below(BACK_MAX_MS))])
}
