//! `bowline attach`: follow a job that is already there.

use clap::Args;
use client::Client;

use super::run::follow_to_result;
use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::follow::Wish;

/// Follow a job as `run` does
///
/// Ctrl-C asks the job to end, twice forces it; closing the terminal leaves it running.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline attach last\n  bowline attach last --watch")]
pub struct AttachArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Show the steps and how long each takes, without their logs
    #[arg(long)]
    pub watch: bool,
    /// Print the job as JSON at its end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &AttachArgs) -> Result<Exit, CliError> {
    let job = client.job(&args.id).await?;
    follow_to_result(client, &job, Wish { json: args.json, watch: args.watch }).await
}
