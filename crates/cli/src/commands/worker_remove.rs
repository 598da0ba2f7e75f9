//! `bowline worker-remove`: take a worker out of the fleet.

use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};

/// Take a worker out of the fleet
///
/// What it was only offered goes elsewhere. What it runs is decided as lost, by retry policy and effects. When the worker
/// hears of it, it ends its steps and itself; to use the machine again, enrol it anew. Drain it first to lose nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline worker-drain build-1 --wait && bowline worker-remove build-1")]
pub struct WorkerRemoveArgs {
    /// A worker's name, or its id where several share the name
    pub name: String,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &WorkerRemoveArgs) -> Result<Exit, CliError> {
    let removal = client.remove_worker(&args.name).await?;
    if args.json {
        put_json(&removal)?;
        return Ok(Exit::Success);
    }
    let host = removal.hostname.as_deref().unwrap_or("no host known");
    say(&format!("worker {} ({host}) is removed", removal.name));
    if removal.offers > 0 {
        say(&format!("{} steps that it was only offered are queued again", removal.offers));
    }
    if removal.attempts > 0 {
        say(&format!(
            "{} attempts may still run there until it says otherwise; `bowline why JOB` names them",
            removal.attempts
        ));
    }
    Ok(Exit::Success)
}
