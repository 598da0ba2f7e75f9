//! `bowline outbox`: webhooks and mails that nobody took, and trying them again.

use api::Delivery;
use clap::{Args, Subcommand};

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};
use crate::table::put_page;
use crate::times::when;

/// Webhooks and mails that nobody took, and trying them again
///
/// A webhook or a mail of a task is tried for about half a day. What nobody took until then waits here for a person.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  bowline outbox
  bowline outbox retry 0190163d-8694-739b-aea5-966c26f8ad91"
)]
pub struct OutboxArgs {
    #[command(subcommand)]
    pub action: Option<OutboxAction>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
pub enum OutboxAction {
    /// Try one again, from the beginning
    Retry(OutboxRetryArgs),
}

#[derive(Debug, Args)]
pub struct OutboxRetryArgs {
    /// The delivery's id
    pub id: String,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(before: &ConnectArgs, args: &OutboxArgs) -> Result<Exit, CliError> {
    match &args.action {
        None => list(before, args).await,
        Some(OutboxAction::Retry(args)) => retry(before, args).await,
    }
}

async fn list(before: &ConnectArgs, args: &OutboxArgs) -> Result<Exit, CliError> {
    let page = args.connect.client(before)?.outbox().await?;
    let row = |one: &Delivery| {
        vec![
            one.id.to_string(),
            one.job.to_string(),
            one.url.clone(),
            one.tries.to_string(),
            when(Some(one.created_at)),
            one.error.clone().unwrap_or_default(),
        ]
    };
    put_page(&page, args.json, &["id", "job", "to", "tries", "since", "error"], row, "nothing was given up")
}

async fn retry(before: &ConnectArgs, args: &OutboxRetryArgs) -> Result<Exit, CliError> {
    let one: Delivery = args.connect.client(before)?.retry_outbox(&args.id).await?;
    if args.json {
        put_json(&one)?;
    } else {
        say(&format!("{} to {} is {}", one.id, one.url, one.state.word()));
    }
    Ok(Exit::Success)
}
