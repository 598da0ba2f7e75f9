//! `bowline cancel`: ask a job to end.

use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::say;

/// Ask a job to end
///
/// Its steps get a signal and some time, then they are killed. Does not wait for the end; `bowline wait` does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline cancel last\n  bowline cancel 0193a5b2 --force && bowline wait 0193a5b2")]
pub struct CancelArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Kill at once
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &CancelArgs) -> Result<Exit, CliError> {
    let job = client.cancel(&args.id, args.force).await?;
    say(&format!("job {} is {}", job.id, job.state));
    Ok(Exit::Success)
}
