//! (c) Whole lives of jobs that do nothing, with simulated workers, against a queue on bare SQLite.

use std::time::Instant;

use api::SubmitRequest;
use client::Client;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::bowline::{Bowline, Server};
use crate::figure::{Figure, Target, Unit};
use crate::jobs::{self, Effects, TRUE};
use crate::limits::sqlite;
use crate::simulated::Crew;
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

/// Group commit should win by far.
const TARGET: Target = Target::RatioAtLeast(3.0);

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let before = sqlite::lives_per_second(bowline.folder()?.path(), effort)?;
    let server = bowline.server().await?;
    let mut crew = Crew::connect(&server, WORKERS, SLOTS).await?;

    let share = effort.count(JOBS).div_ceil(SUBMITTERS);
    let begin = Instant::now();
    let submitters = submit(&server, share);
    let (ids, ()) = tokio::try_join!(submitters, crew.ended(share * SUBMITTERS))?;
    let lives = rate(ids.len(), begin.elapsed());

    crew.leave().await;
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
