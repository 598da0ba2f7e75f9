//! `bowline wait`: nothing until jobs are over.

use std::time::Duration;

use api::Job;
use clap::Args;
use client::Client;
use tokio::time::sleep;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

/// One long poll; the server answers at once when the job is over.
const POLL: Duration = Duration::from_secs(30);

/// Between two polls of a server that is away.
const PAUSE: Duration = Duration::from_secs(1);

/// Wait until jobs are over
///
/// The exit code is that of the job; of several, a failure goes before a cancel.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline wait last\n  bowline wait $a $b && echo both succeeded")]
pub struct WaitArgs {
    /// Jobs' ids, unique prefixes of them, or `last`
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// Print the jobs as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &WaitArgs) -> Result<Exit, CliError> {
    // `last` must not come to mean another job while we wait for the first.
    let mut jobs = Vec::new();
    for id in &args.ids {
        jobs.push(client.job(id).await?);
    }
    let mut exit = Exit::Success;
    for job in &mut jobs {
        *job = until_over(client, job).await?;
        exit = exit.worse(Exit::of_job(job.state));
        if !args.json {
            put(&format!("{} {}", job.id, job.state))?;
        }
    }
    if args.json {
        put_json(&jobs)?;
    }
    Ok(exit)
}

async fn until_over(client: &Client, job: &Job) -> Result<Job, CliError> {
    if job.state.is_final() {
        return Ok(job.clone());
    }
    let id = job.id.to_string();
    let mut away = false;
    loop {
        match client.job_wait(&id, POLL).await {
            Ok(job) if job.state.is_final() => return Ok(job),
            Ok(_) => away = false,
            Err(error) if error.is_passing() => {
                if !away {
                    say(&format!("bowline: {error}; trying again"));
                }
                away = true;
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
