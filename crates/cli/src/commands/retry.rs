//! `bowline retry`: run a job again that is over.

use api::RetryRequest;
use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

/// Run a job again that is over
///
/// A new job with the same definition and input; its id is printed. Follow it with `bowline attach`. Where the same was
/// asked before and that job is not over yet, it is that one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline retry last --from-failed\n  bowline attach $(bowline retry 0193a5b2)")]
pub struct RetryArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Take over what ended well, with its outputs
    #[arg(long)]
    pub from_failed: bool,
    /// Nothing of the old job runs any more: you made sure
    #[arg(long)]
    pub confirm_dead: bool,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &RetryArgs) -> Result<Exit, CliError> {
    let request = RetryRequest { from_failed: args.from_failed, confirm_dead: args.confirm_dead };
    let job = client.retry(&args.id, &request).await?;
    if args.json {
        put_json(&job)?;
        return Ok(Exit::Success);
    }
    if let Some(old) = job.continues {
        say(&format!("job {old} goes on as job {}", job.id));
    }
    put(&job.id.to_string())?;
    Ok(Exit::Success)
}
