//! `bowline dispatch`: hand nothing new out, or go on.

use api::Dispatch;
use clap::{Args, Subcommand};

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};
use crate::times::when;

/// Pause and resume the handing out of steps
///
/// While it is paused what runs goes on, and what is queued stays queued. A restart of the server does not end a pause.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bowline dispatch pause\n  bowline dispatch resume\n  bowline dispatch status --json"
)]
pub struct DispatchArgs {
    #[command(subcommand)]
    pub action: DispatchAction,
}

#[derive(Debug, Subcommand)]
pub enum DispatchAction {
    /// Hand nothing new out
    Pause(DispatchActionArgs),
    /// Hand out again
    Resume(DispatchActionArgs),
    /// Say whether it is paused, since when and by whom
    Status(DispatchActionArgs),
}

#[derive(Debug, Args)]
pub struct DispatchActionArgs {
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(before: &ConnectArgs, args: &DispatchArgs) -> Result<Exit, CliError> {
    let (dispatch, json) = match &args.action {
        DispatchAction::Pause(args) => (args.connect.client(before)?.pause_dispatch().await?, args.json),
        DispatchAction::Resume(args) => (args.connect.client(before)?.resume_dispatch().await?, args.json),
        DispatchAction::Status(args) => (args.connect.client(before)?.dispatch().await?, args.json),
    };
    if json {
        put_json(&dispatch)?;
    } else {
        say(&told(&dispatch));
    }
    Ok(Exit::Success)
}

/// One sentence; `bowline workers` says it too.
pub(crate) fn told(dispatch: &Dispatch) -> String {
    match (dispatch.paused, &dispatch.by) {
        (false, _) => "steps are handed out".to_owned(),
        (true, by) => {
            let by = by.as_deref().unwrap_or("someone");
            format!("dispatch was paused by {by} {}: nothing new is handed out", when(dispatch.since))
        }
    }
}
