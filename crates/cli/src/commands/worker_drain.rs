//! `bowline worker-drain`: give a worker no new work.

use std::time::Duration;

use api::Worker;
use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};

/// Between two looks at a worker that still has something to do.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Give a worker no new work
///
/// What it runs goes on. With `--wait` this returns once it has nothing left; `--off` gives it work again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline worker-drain build-1 --wait\n  bowline worker-drain build-1 --off")]
pub struct WorkerDrainArgs {
    /// A worker's name, or its id where several share the name
    pub name: String,
    /// Return when it has nothing left to do
    #[arg(long, conflicts_with = "off")]
    pub wait: bool,
    /// Give it work again
    #[arg(long)]
    pub off: bool,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &WorkerDrainArgs) -> Result<Exit, CliError> {
    let mut worker = client.drain_worker(&args.name, !args.off).await?;
    if args.wait {
        worker = until_idle(client, worker).await?;
    }
    if args.json {
        put_json(&worker)?;
    } else {
        say(&told(&worker, args.off));
    }
    Ok(Exit::Success)
}

/// By its id: another worker may get the name meanwhile.
async fn until_idle(client: &Client, mut worker: Worker) -> Result<Worker, CliError> {
    while worker.busy > 0 {
        tokio::time::sleep(LOOK_EVERY).await;
        let page = client.workers().await?;
        match page.items.into_iter().find(|one| one.id == worker.id) {
            Some(now) => worker = now,
            // Removed: it has nothing left to do here.
            None => worker.busy = 0,
        }
    }
    Ok(worker)
}

fn told(worker: &Worker, off: bool) -> String {
    let who = format!("worker {} ({})", worker.name, worker.hostname.as_deref().unwrap_or("no host known"));
    match (off, worker.busy) {
        (true, _) if worker.draining_by.is_empty() => format!("{who} gets new work again"),
        (true, _) => format!("{who} still gets no new work: {} wants so", worker.draining_by.join(" and ")),
        (false, 0) => format!("{who} gets no new work and has nothing left"),
        (false, busy) => format!("{who} gets no new work; {busy} of its slots are still taken"),
    }
}
