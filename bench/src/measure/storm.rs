//! (g) A crash of the server with thousands of workers connected: how long until all are back with what they run.

use std::time::{Duration, Instant};

use crate::bowline::Bowline;
use crate::figure::{Figure, Target, Unit};
use crate::herd::{self, Herd};
use crate::memory::Memory;
use crate::steady::News;
use crate::{Effort, Outcome};

const WORKERS: usize = 2_000;
const SLOTS: usize = 10;
/// Jobs of so many steps.
const STEPS: usize = 1_000;

const BACK_MAX_MS: f64 = 10_000.0;
const SERVER_MAX_MB: f64 = 300.0;

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let (workers, attempts) = (effort.count(WORKERS), effort.count(WORKERS) * SLOTS);
    let mut server = bowline.server().await?;
    let mut herd = Herd::gather(&[&server], workers, SLOTS).await?;
    let ids = herd::submit(&server, attempts.div_ceil(STEPS), STEPS).await?;
    herd.await_news(News::Running, attempts).await?;

    let begin = Instant::now();
    server.crash().await?;
    let up = begin.elapsed();
    herd.await_news(News::Connected, workers).await?;
    let back = begin.elapsed();
    herd::all_running(&server, &ids).await?;
    let memory = Memory::peak(server.process.pid())?;

    herd.end(attempts).await?;
    herd::all_succeeded(&server, &ids, STEPS).await?;
    server.stop().await?;
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let name = format!("crash to all {workers} workers back with {attempts} running attempts");
    Ok(vec![
        Figure::new("crash to `ready`", millis(up), Unit::Millis),
        Figure::new(name, millis(back), Unit::Millis).target(Target::Below(BACK_MAX_MS)),
        Figure::new("server in the storm, most resident", memory, Unit::Megabytes).target(Target::Below(SERVER_MAX_MB)),
    ])
}
