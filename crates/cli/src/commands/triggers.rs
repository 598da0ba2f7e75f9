//! `bowline triggers`: what starts jobs by itself, what comes next, pause and resume.

use api::Trigger;
use clap::{Args, Subcommand};
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};
use crate::table::put_page;
use crate::times::when;

/// List what starts jobs by itself, or pause and resume it
///
/// A paused trigger stays paused until it is resumed, whatever is restarted. Times that passed meanwhile were missed: with
/// `missed: once` there is one run for all of them.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  bowline triggers\n  bowline triggers pause nightly:cron:1")]
pub struct TriggersArgs {
    #[command(subcommand)]
    pub action: Option<TriggersAction>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
pub enum TriggersAction {
    /// Let a trigger rest
    Pause(TriggerArgs),
    /// Let a trigger go on
    Resume(TriggerArgs),
}

#[derive(Debug, Args)]
pub struct TriggerArgs {
    /// The trigger, as `bowline triggers` lists it
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(before: &ConnectArgs, args: &TriggersArgs) -> Result<Exit, CliError> {
    let (trigger, json) = match &args.action {
        None => return list(&args.connect.client(before)?, args.json).await,
        Some(TriggersAction::Pause(args)) => (args.connect.client(before)?.pause_trigger(&args.id).await?, args.json),
        Some(TriggersAction::Resume(args)) => (args.connect.client(before)?.resume_trigger(&args.id).await?, args.json),
    };
    if json {
        put_json(&trigger)?;
    } else {
        say(&told(&trigger));
    }
    Ok(Exit::Success)
}

async fn list(client: &Client, json: bool) -> Result<Exit, CliError> {
    let page = client.triggers().await?;
    let row = |trigger: &Trigger| {
        let next = if trigger.paused { "paused".to_owned() } else { when(trigger.next.first().copied()) };
        let last_job = trigger.last_job.map(|job| job.to_string()).unwrap_or_default();
        vec![
            trigger.id.clone(),
            said(trigger),
            next,
            when(trigger.last_at),
            last_job,
            missed(trigger),
            trigger.task_problem.as_ref().or(trigger.last_error.as_ref()).cloned().unwrap_or_default(),
        ]
    };
    let if_none = "no triggers; a task has them under `triggers`";
    put_page(&page, json, &["id", "comes", "next", "last", "last job", "missed", "problem"], row, if_none)
}

/// How many times passed without a job of their own, and when it was last said.
fn missed(trigger: &Trigger) -> String {
    match (trigger.missed_times, trigger.notice_at) {
        (0, None) => String::new(),
        (times, None) => times.to_string(),
        (times, at) => format!("{times} ({}: {})", when(at), trigger.notice.as_deref().unwrap_or_default()),
    }
}

/// When it comes, as its task says.
fn said(trigger: &Trigger) -> String {
    match (&trigger.cron, &trigger.timezone, &trigger.path) {
        (Some(cron), Some(zone), _) => format!("{cron} {zone}"),
        (_, _, Some(path)) => format!("POST {path}"),
        _ => String::new(),
    }
}

fn told(trigger: &Trigger) -> String {
    match (trigger.paused, trigger.next.first()) {
        (true, _) => format!("{} is paused", trigger.id),
        (false, Some(next)) => format!("{} comes next {}", trigger.id, when(Some(*next))),
        (false, None) => format!("{} is not paused", trigger.id),
    }
}
