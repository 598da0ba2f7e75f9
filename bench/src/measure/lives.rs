//! (c) Whole lives of jobs that do nothing, with simulated workers, against a queue on bare SQLite.

use std::time::{Duration, Instant};

use api::SubmitRequest;
use client::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::bowline::{Bowline, Server};
use crate::figure::{Figure, Target, Unit};
use crate::jobs::{self, Effects, TRUE};
use crate::limits::sqlite;
use crate::simulated::SimulatedWorker;
use crate::stats::rate;
use crate::{Effort, Outcome, checks};

const JOBS: usize = 20_000;

/// Those who submit, each on a connection of its own and one job at a time: what is under way is what can be
/// committed together.
const SUBMITTERS: usize = 64;

const WORKERS: usize = 4;
const SLOTS: u32 = 64;

/// Those who look at the jobs afterwards.
const CHECKERS: usize = 4;

/// Between two lives that end.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Group commit should win by far.
const TARGET: Target = Target::RatioAtLeast(3.0);

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let before = sqlite::lives_per_second(bowline.folder()?.path(), effort)?;
    let server = bowline.server().await?;
    let (forgotten, mut progress) = mpsc::unbounded_channel();
    let mut workers = JoinSet::new();
    for n in 0..WORKERS {
        let worker = SimulatedWorker::connect(&server, &format!("simulated-{n}"), SLOTS).await?;
        workers.spawn(worker.work(forgotten.clone()));
    }
    drop(forgotten);

    let share = effort.count(JOBS).div_ceil(SUBMITTERS);
    let begin = Instant::now();
    let submitters = submit(&server, share);
    let ends = ended(&mut progress, share * SUBMITTERS, &mut workers);
    let (ids, ()) = tokio::try_join!(submitters, ends)?;
    let lives = rate(ids.len(), begin.elapsed());

    workers.shutdown().await;
    check(&server, &ids).await?;
    server.stop().await?;
    let limit = before.max(sqlite::lives_per_second(bowline.folder()?.path(), effort)?);
    let figure = Figure::new("no-op job lives", lives, Unit::PerSecond);
    Ok(vec![figure.limit("bare SQLite, one by one", limit).target(TARGET)])
}

async fn submit(server: &Server<'_>, share: usize) -> Outcome<Vec<Uuid>> {
    let request = jobs::independent(1, &TRUE, Effects::Default);
    let mut submitters = JoinSet::new();
    for _ in 0..SUBMITTERS {
        submitters.spawn(submit_share(server.client(), request.clone(), share));
    }
    let mut ids = Vec::new();
    while let Some(share) = submitters.join_next().await {
        ids.extend(share??);
    }
    Ok(ids)
}

async fn submit_share(client: Client, request: SubmitRequest, share: usize) -> Outcome<Vec<Uuid>> {
    let mut ids = Vec::with_capacity(share);
    for _ in 0..share {
        ids.push(jobs::submit(&client, &request).await?.id);
    }
    Ok(ids)
}

/// Waits until the server has told the workers to forget so many attempts: it has their ends and their logs by then.
async fn ended(
    progress: &mut mpsc::UnboundedReceiver<usize>,
    goal: usize,
    workers: &mut JoinSet<Outcome<()>>,
) -> Outcome<()> {
    let mut count = 0;
    while count < goal {
        let news = tokio::select! {
            news = timeout(SILENCE_MAX, progress.recv()) => news,
            Some(worker) = workers.join_next() => {
                worker??;
                return Err("a simulated worker ended".into());
            }
        };
        let silence = |_| format!("{count} of {goal} lives ended, and none for {} s", SILENCE_MAX.as_secs());
        count += news.map_err(silence)?.ok_or("all simulated workers ended")?;
    }
    if count == goal { Ok(()) } else { Err(format!("{count} lives ended and not {goal}").into()) }
}

/// Every job again, from the store.
async fn check(server: &Server<'_>, ids: &[Uuid]) -> Outcome<()> {
    let mut checkers = JoinSet::new();
    for part in ids.chunks(ids.len().div_ceil(CHECKERS).max(1)) {
        checkers.spawn(check_part(server.client(), part.to_vec()));
    }
    while let Some(checked) = checkers.join_next().await {
        checked??;
    }
    Ok(())
}

async fn check_part(client: Client, ids: Vec<Uuid>) -> Outcome<()> {
    for id in ids {
        let job = client.job(&id.to_string()).await?;
        checks::job(&client, &job, 1).await?;
    }
    Ok(())
}
