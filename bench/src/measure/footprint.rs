//! (e) Memory of an idle server and worker, before and after work, and the time until `bowline up` is ready.

use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use crate::bowline::{Bowline, Server};
use crate::figure::{Figure, Target, Unit};
use crate::jobs::{self, Effects, TRUE};
use crate::memory::Memory;
use crate::process::Process;
use crate::stats::Times;
use crate::{Effort, Outcome, checks};

/// Idle means that what a start or a load began has come to rest.
const SETTLE: Duration = Duration::from_secs(1);

const LOAD_STEPS: usize = 1_000;
const LOAD_LINES: usize = 500_000;

const STARTS: usize = 11;

const SERVER_MAX_MB: f64 = 40.0;
const WORKER_MAX_MB: f64 = 20.0;
const READY_MAX_MS: f64 = 300.0;

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let server = bowline.server().await?;
    let worker = server.worker(None).await?;
    let mut figures = memory("after start", &server, &worker).await?;
    load(&server, effort).await?;
    figures.extend(memory("after load", &server, &worker).await?);
    worker.stop().await?;
    let data = server.data();
    let folder = server.stop().await?;
    figures.push(ready("`up` to ready, used data", bowline, folder.path(), |_| data.clone(), effort).await?);
    let empty = |n| folder.path().join(format!("empty-{n}"));
    figures.push(ready("`up` to ready, empty data", bowline, folder.path(), empty, effort).await?);
    Ok(figures)
}

async fn memory(when: &str, server: &Server<'_>, worker: &Process) -> Outcome<Vec<Figure>> {
    sleep(SETTLE).await;
    let mut figures = Vec::new();
    for (who, process, bound) in [("server", &server.process, SERVER_MAX_MB), ("worker", worker, WORKER_MAX_MB)] {
        let memory = Memory::of(process.pid())?;
        let figure = |what: &str, value| Figure::new(format!("{who} {when}, {what}"), value, Unit::Megabytes);
        figures.push(figure("resident", memory.resident).target(Target::Below(bound)));
        figures.push(figure("proportional", memory.proportional));
        figures.push(figure("private", memory.private));
    }
    Ok(figures)
}

/// Many steps, and one that writes many lines.
async fn load(server: &Server<'_>, effort: Effort) -> Outcome<()> {
    let client = server.client();
    let last = effort.count(LOAD_LINES).to_string();
    let steps = effort.count(LOAD_STEPS);
    let noisy = jobs::independent(1, &["/usr/bin/seq", "1", &last], Effects::Default);
    for (request, steps) in [(jobs::independent(steps, &TRUE, Effects::Default), steps), (noisy, 1)] {
        let submitted = jobs::submit(&client, &request).await?;
        let job = jobs::finished(&client, &submitted.id.to_string()).await?;
        checks::job(&client, &job, steps).await?;
    }
    Ok(())
}

/// The median of several starts; `data` names the folder of each.
async fn ready(
    name: &str,
    bowline: &Bowline,
    home: &Path,
    data: impl Fn(usize) -> std::path::PathBuf,
    effort: Effort,
) -> Outcome<Figure> {
    let mut times = Vec::new();
    for n in 0..effort.count(STARTS) {
        let (process, time) = bowline.up(home, &data(n)).await?;
        process.stop().await?;
        times.push(time);
    }
    let median = Times::new(&times).ok_or("no start was timed")?.median();
    Ok(Figure::new(format!("{name}, median"), median, Unit::Millis).target(Target::Below(READY_MAX_MS)))
}
