//! `bowline why`: who owns a job, what is known, what happens next and when.

use api::WhyStep;
use clap::Args;
use client::Client;
use owo_colors::OwoColorize;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json};
use crate::style::step_state;
use crate::times::when;

/// Say why a job is where it is, and what happens next
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline why last")]
pub struct WhyArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &WhyArgs) -> Result<Exit, CliError> {
    let why = client.why(&args.id).await?;
    if args.json {
        put_json(&why)?;
        return Ok(Exit::Success);
    }
    put(&why.summary.bold().to_string())?;
    for step in &why.steps {
        put(&about(step))?;
    }
    Ok(Exit::Success)
}

fn about(step: &WhyStep) -> String {
    let mut lines = vec![format!("\n{}  {}", step.name.bold(), step_state(step.state)), format!("  {}", step.reason)];
    if let Some(owner) = &step.owner {
        lines.push(format!("  owner: {owner}"));
    }
    if step.last_sign_of_life.is_some() {
        lines.push(format!("  last sign of life: {}", when(step.last_sign_of_life)));
    }
    if let Some(next) = &step.next {
        lines.push(format!("  next: {} {}", next.action.replace('_', " "), when(Some(next.at))));
    }
    lines.join("\n")
}
