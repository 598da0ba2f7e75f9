//! (k) What a life costs while very many steps wait, against a short queue: nothing may grow with the queue.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::bowline::{Bowline, Server};
use crate::cluster::Cluster;
use crate::figure::{Figure, Target, Unit};
use crate::{Effort, Outcome, jobs, load};

const SHORT: usize = 1_000;

/// The queue is so many jobs, however long it is: what is measured is the queue, not what more jobs cost.
const JOBS: usize = 128;

/// Jobs that are submitted at the same time.
const AT_ONCE: usize = 4;

/// Lives that are timed. At their end so many steps still wait as the figure says.
const LIVES: usize = 5_000;

const TARGET: Target = Target::RatioAtMost(2.0);

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let cluster = Cluster::start(bowline)?;
    let long = effort.count(effort.queued).max(SHORT);
    let short = time(bowline, &cluster, "short", SHORT, effort).await?;
    let time = time(bowline, &cluster, "long", long, effort).await?;
    let per_life = |time: Duration| time.as_secs_f64() * 1_000.0 / effort.count(LIVES) as f64;
    let figure = Figure::new(format!("a life while {long} steps wait"), per_life(time), Unit::Millis);
    Ok(vec![figure.limit("while 1,000 wait", per_life(short)).target(TARGET)])
}

/// Fills the queue while nothing is handed out, and times lives from then on.
async fn time(bowline: &Bowline, cluster: &Cluster, name: &str, queued: usize, effort: Effort) -> Outcome<Duration> {
    let lives = effort.count(LIVES);
    let server = bowline.server_with(&format!("database: {}\n", cluster.database(name)?)).await?;
    let client = server.client();
    let mut crew = load::crew(&[&server]).await?;
    client.pause_dispatch().await?;
    fill(&server, (queued + lives).div_ceil(JOBS)).await?;
    let begin = Instant::now();
    client.resume_dispatch().await?;
    crew.ended_at_least(lives).await?;
    let time = begin.elapsed();
    client.pause_dispatch().await?;
    crew.come_to_rest().await;
    crew.leave().await;
    let done = cluster.count(name, "SELECT count(*) FROM steps WHERE state = 'success'")?;
    if done < lives as f64 {
        return Err(format!("{done} steps are done and not {lives}").into());
    }
    server.stop().await?;
    Ok(time)
}

/// Jobs of so many steps each.
async fn fill(server: &Server<'_>, steps: usize) -> Outcome<()> {
    let request = jobs::fan_out(steps);
    let mut submits = JoinSet::new();
    for n in 0..JOBS {
        let (client, request) = (server.client(), request.clone());
        submits.spawn(async move { jobs::submit(&client, &request).await });
        if submits.len() >= AT_ONCE || n + 1 == JOBS {
            while let Some(submitted) = submits.join_next().await {
                submitted??;
            }
        }
    }
    Ok(())
}
