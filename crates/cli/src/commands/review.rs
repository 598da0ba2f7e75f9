//! `bowline approve` and `bowline reject`: a person's word on a step that waits for one.

use api::{ApproveRequest, Job, RejectRequest};
use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};

/// Say yes to a step that waits for a person
///
/// Who you are is your token's name: where several people must say yes, each counts once.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bowline approve last gate\n  bowline approve 0193a5b2 rollout --comment 'checked the graphs'"
)]
pub struct ApproveArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// The step
    pub step: String,
    /// Kept in the job's history
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Say no to a step that waits for a person: it is cancelled
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline reject last gate --reason 'not on a Friday'")]
pub struct RejectArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// The step
    pub step: String,
    /// Why; the step's error says it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn approve(client: &Client, args: &ApproveArgs) -> Result<Exit, CliError> {
    let request = ApproveRequest { comment: args.comment.clone() };
    let job = client.approve(&args.id, &args.step, &request).await?;
    tell(&job, &args.step, args.json)
}

pub(crate) async fn reject(client: &Client, args: &RejectArgs) -> Result<Exit, CliError> {
    let request = RejectRequest { reason: args.reason.clone() };
    let job = client.reject(&args.id, &args.step, &request).await?;
    tell(&job, &args.step, args.json)
}

fn tell(job: &Job, name: &str, json: bool) -> Result<Exit, CliError> {
    if json {
        put_json(job)?;
        return Ok(Exit::Success);
    }
    if let Some(step) = job.step(name) {
        let missing = step.hold.as_ref().map(|hold| (hold.approvals.len(), hold.wanted));
        let of = missing.map(|(given, wanted)| format!(", with {given} of {wanted} approvals")).unwrap_or_default();
        say(&format!("step {name} is {}{of}", step.state));
    }
    Ok(Exit::Success)
}
