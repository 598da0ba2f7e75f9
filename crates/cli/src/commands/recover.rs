//! `bowline recover`: what has been silent for long, and giving it up by hand.

use std::time::Duration;

use api::{Page, RecoverRequest, Stale};
use clap::{Args, Subcommand};

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};
use crate::table::put_table;
use crate::times::short;

/// Find what has been silent for long, and give it up by hand
///
/// The server does this by itself unless its config says otherwise.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline recover stale
  bowline recover requeue --older-than 1m
  bowline recover fail")]
pub struct RecoverArgs {
    #[command(subcommand)]
    pub action: RecoverAction,
}

#[derive(Debug, Subcommand)]
pub enum RecoverAction {
    /// List attempts without a sign of life [default: for 5m]
    Stale(RecoverActionArgs),
    /// Take back what was only offered, and hand it to another worker [default: silent for 120s]
    Requeue(RecoverActionArgs),
    /// Give up what runs: told to stop, then its policy and effects decide [default: silent for 300s]
    Fail(RecoverActionArgs),
}

#[derive(Debug, Args)]
pub struct RecoverActionArgs {
    /// Only what has been silent for longer
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<String>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(before: &ConnectArgs, args: &RecoverArgs) -> Result<Exit, CliError> {
    let (page, args, done) = match &args.action {
        RecoverAction::Stale(args) => {
            (args.connect.client(before)?.stale(args.older_than.as_deref()).await?, args, "without a sign of life")
        }
        RecoverAction::Requeue(args) => {
            (args.connect.client(before)?.recover_requeue(&args.request()).await?, args, "queued again")
        }
        RecoverAction::Fail(args) => {
            (args.connect.client(before)?.recover_fail(&args.request()).await?, args, "told to stop and given up")
        }
    };
    if args.json {
        put_json(&page)?;
    } else {
        put_page(&page, done)?;
    }
    Ok(Exit::Success)
}

impl RecoverActionArgs {
    fn request(&self) -> RecoverRequest {
        RecoverRequest { older_than: self.older_than.clone() }
    }
}

fn put_page(page: &Page<Stale>, done: &str) -> Result<(), CliError> {
    let rows = page.items.iter().map(|stale| {
        vec![
            stale.job.to_string(),
            stale.step.clone(),
            stale.state.to_string(),
            stale.worker.clone(),
            stale.hostname.clone().unwrap_or_else(|| "-".to_owned()),
            short(Duration::from_millis(stale.silent_ms)),
        ]
    });
    let count = page.items.len();
    say(&format!("{count} {} {done}", if count == 1 { "attempt" } else { "attempts" }));
    if count == 0 {
        return Ok(());
    }
    put_table(&["job", "step", "state", "worker", "host", "silent for"], rows.collect(), "")
}

fn duration(text: &str) -> Result<String, String> {
    spec::parse_duration(text).map(|_| text.to_owned())
}
