//! `bowline job`: one job in full.

use api::job::{Hook, HookKind};
use api::{Job, Step, StepState};
use clap::Args;
use client::Client;
use owo_colors::OwoColorize;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json};
use crate::style::job_state;
use crate::table::put_table;
use crate::times::{now, remaining, took, when};

/// Show a job with its steps
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline job last\n  bowline job 0193a5b2 --json")]
pub struct JobArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &JobArgs) -> Result<Exit, CliError> {
    let job = client.job(&args.id).await?;
    if args.json {
        put_json(&job)?;
        return Ok(Exit::Success);
    }
    put(&head(&job))?;
    let rows = job.steps.iter().map(|step| {
        let latest = step.attempts.last();
        vec![
            step.name.clone(),
            state(step),
            step.attempt.to_string(),
            latest.map_or_else(|| doer(step), |attempt| attempt.worker.clone()),
            took(latest.map(|attempt| attempt.started_at), latest.and_then(|attempt| attempt.ended_at)),
            step.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
        ]
    });
    put_table(&["step", "state", "attempt", "worker", "took", "error"], rows.collect(), "no steps")?;
    Ok(Exit::Success)
}

/// The state's word; for a step that is cut off, with the time that its worker has left; for one that waits for people,
/// with how many said yes and how many must.
fn state(step: &Step) -> String {
    match (&step.deadline, step.state) {
        (_, StepState::Held) => match &step.hold {
            Some(hold) => format!("held ({}/{})", hold.approvals.len(), hold.wanted),
            None => step.state.to_string(),
        },
        (Some(deadline), StepState::Recovering) => format!("recovering ({})", remaining(deadline.at, now())),
        _ => step.state.to_string(),
    }
}

/// Who does a step that no worker has.
fn doer(step: &Step) -> String {
    step.child.map_or_else(|| "-".to_owned(), |child| format!("job {child}"))
}

fn head(job: &Job) -> String {
    let mut lines = vec![
        format!("{} {}", "job".bold(), job.id),
        format!("task     {}", job.task),
        format!("state    {}", job_state(job.state)),
        format!("created  {}", when(Some(job.created_at))),
        format!("took     {}", took(job.started_at, job.ended_at)),
    ];
    if job.input.as_object().is_some_and(|input| !input.is_empty()) {
        lines.push(format!("input    {}", job.input));
    }
    if let Some(parent) = job.parent {
        lines.push(format!("begun by job {parent}"));
    } else if let Some(job) = job.hook_of {
        lines.push(format!("follows  job {job}"));
    }
    if let Some(old) = job.continues {
        lines.push(format!("continues job {old}"));
    }
    if let Some(next) = job.resolved_by {
        lines.push(format!("resolved by job {next}"));
    }
    if let Some(error) = &job.error {
        lines.push(format!("error    {} ({})", error.message, error.code));
    }
    lines.extend(job.hooks.iter().map(hook));
    lines.push(String::new());
    lines.join("\n")
}

/// What followed on the end: `on_error  page (job …): success`.
fn hook(hook: &Hook) -> String {
    let what = match hook.kind {
        HookKind::Task => format!("{} (job {})", hook.target, hook.id),
        HookKind::Webhook => hook.target.clone(),
    };
    let problem = hook.error.as_ref().map(|error| format!(", last time {error}")).unwrap_or_default();
    format!("{}  {what}: {}{problem}", hook.on, hook.state)
}
