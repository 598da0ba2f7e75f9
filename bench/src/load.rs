//! Whole lives of jobs that do nothing: many submit, simulated workers take all there is, and every job is looked at
//! afterwards.

use std::time::{Duration, Instant};

use api::SubmitRequest;
use client::Client;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::bowline::Server;
use crate::jobs::{self, Effects, TRUE};
use crate::simulated::Crew;
use crate::{Outcome, checks};

/// Those who submit, each on a connection of its own and one job at a time: what is under way is what can be
/// committed together.
const SUBMITTERS: usize = 64;

const WORKERS: usize = 4;
const SLOTS: u32 = 64;

/// Those who look at the jobs afterwards.
const CHECKERS: usize = 4;

/// The workers of a load, spread over the servers.
pub(crate) async fn crew(servers: &[&Server<'_>]) -> Outcome<Crew> {
    Crew::connect(servers, WORKERS, SLOTS).await
}

/// About so many lives, submitted to the servers in equal shares. From the first submit until the workers were told to
/// forget the last attempt: results and logs are committed by then.
pub(crate) async fn lives(servers: &[&Server<'_>], crew: &mut Crew, count: usize) -> Outcome<(Vec<Uuid>, Duration)> {
    let share = count.div_ceil(SUBMITTERS);
    let begin = Instant::now();
    let (ids, ()) = tokio::try_join!(submit(servers, share), crew.ended(share * SUBMITTERS))?;
    Ok((ids, begin.elapsed()))
}

async fn submit(servers: &[&Server<'_>], share: usize) -> Outcome<Vec<Uuid>> {
    let request = jobs::independent(1, &TRUE, Effects::Default);
    let mut submitters = JoinSet::new();
    for (_, server) in (0..SUBMITTERS).zip(servers.iter().cycle()) {
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
pub(crate) async fn check(server: &Server<'_>, ids: &[Uuid]) -> Outcome<()> {
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
