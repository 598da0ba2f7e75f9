//! `bowline resolve`: settle a step by hand.

use api::{Attempt, Job, ResolveHow, ResolveRequest, Step};
use clap::Args;
use client::Client;
use serde_json::{Map, Value};

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

/// Settle a step by hand
///
/// For a step that is recovering, and for any step of a job that is over. A job that is over never changes: a new one
/// goes on where it ended, takes over what stands, and its id is printed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline resolve last deploy --succeeded -o version=v1.2
  bowline resolve last deploy --rerun --confirm-dead
  bowline resolve last deploy --accept-late")]
#[command(group(clap::ArgGroup::new("how").required(true).args(["succeeded", "failed", "rerun", "accept_late"])))]
pub struct ResolveArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// The step's name
    pub step: String,
    /// It did what it should
    #[arg(long)]
    pub succeeded: bool,
    /// It did not
    #[arg(long)]
    pub failed: bool,
    /// Run it once more
    #[arg(long)]
    pub rerun: bool,
    /// Take the end that its attempt reported after it was given up
    #[arg(long)]
    pub accept_late: bool,
    /// Nothing of its last attempt runs any more: you made sure
    #[arg(long)]
    pub confirm_dead: bool,
    /// An output of the step (with --succeeded)
    #[arg(short = 'o', long = "output", value_name = "KEY=VALUE", value_parser = pair,
        conflicts_with_all = ["failed", "rerun", "accept_late"])]
    pub output: Vec<(String, String)>,
    /// Why (with --failed)
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["succeeded", "rerun", "accept_late"])]
    pub reason: Option<String>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &ResolveArgs) -> Result<Exit, CliError> {
    let old = client.job(&args.id).await?;
    let request = request(args, &old);
    // By the whole id: what was looked at is what is settled, whatever `last` is by now.
    let job = client.resolve(&old.id.to_string(), &args.step, &request).await?;
    if args.json {
        put_json(&job)?;
    } else if job.id == old.id {
        let state = job.step(&args.step).map_or("gone", |step| step.state.word());
        say(&format!("step {} of job {} is {state}", args.step, job.id));
    } else {
        say(&format!("job {} continues job {}", job.id, old.id));
        put(&job.id.to_string())?;
    }
    Ok(Exit::Success)
}

/// Names what was seen, so that nothing newer is overruled. An unknown step is left for the server to tell.
fn request(args: &ResolveArgs, job: &Job) -> ResolveRequest {
    let how = match (args.succeeded, args.failed, args.rerun) {
        (true, ..) => ResolveHow::Succeeded,
        (_, true, _) => ResolveHow::Failed,
        (_, _, true) => ResolveHow::Rerun,
        _ => ResolveHow::AcceptLate,
    };
    let seen = job.step(&args.step).and_then(|step| looked_at(step, how));
    if let Some(late) = seen.and_then(|attempt| attempt.late_outcome.as_ref()) {
        let (number, late) = (seen.map_or(0, |attempt| attempt.number), api::late_outcome_in_words(late));
        say(&format!("attempt {number} reported its end late: {late}"));
    }
    let output: Map<String, Value> =
        args.output.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect();
    ResolveRequest {
        how,
        attempt: seen.map(|attempt| attempt.id),
        late_outcome: seen.and_then(|attempt| attempt.late_outcome.clone()),
        confirm_dead: args.confirm_dead,
        output,
        reason: args.reason.clone(),
    }
}

fn looked_at(step: &Step, how: ResolveHow) -> Option<&Attempt> {
    match how {
        ResolveHow::AcceptLate => step.attempts.iter().rev().find(|attempt| attempt.late_outcome.is_some()),
        ResolveHow::Succeeded | ResolveHow::Failed | ResolveHow::Rerun => step.attempts.last(),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it must be KEY=VALUE".to_owned()),
    }
}
