//! `bowline attach`: follow a job that is already there.

use clap::Args;
use client::Client;

use super::run::follow_to_result;
use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;

/// Follow a job as `run` does
///
/// Ctrl-C asks the job to end, twice forces it; closing the terminal leaves it running.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline attach last")]
pub struct AttachArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Print the job as JSON at its end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &AttachArgs) -> Result<Exit, CliError> {
    let job = client.job(&args.id).await?;
    follow_to_result(client, &job, args.json).await
}
