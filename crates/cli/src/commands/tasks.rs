//! `bowline tasks`: what can be run by name, and giving the server more of it.

use std::path::PathBuf;

use api::{PutTaskRequest, TaskSummary};
use clap::{Args, Subcommand};
use client::Client;

use super::run::read_text;
use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::say;
use crate::table::put_page;
use crate::times::when;

/// List tasks, or give the server new ones
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  bowline tasks\n  bowline tasks push tasks/*.yaml")]
pub struct TasksArgs {
    #[command(subcommand)]
    pub action: Option<TasksAction>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
pub enum TasksAction {
    /// Give the server task files; each under the name that it has inside
    Push(PushArgs),
}

#[derive(Debug, Args)]
pub struct PushArgs {
    /// Task files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(before: &ConnectArgs, args: &TasksArgs) -> Result<Exit, CliError> {
    match &args.action {
        Some(TasksAction::Push(push)) => push_all(&push.connect.client(before)?, push).await,
        None => list(&args.connect.client(before)?, args.json).await,
    }
}

async fn list(client: &Client, json: bool) -> Result<Exit, CliError> {
    let page = client.tasks().await?;
    let row = |task: &TaskSummary| {
        let problems = match (task.diagnostics.len(), task.usable) {
            (0, _) => String::new(),
            (count, true) => format!("{count} problems; the last good version is in use"),
            (count, false) => format!("{count} problems; cannot be run"),
        };
        vec![
            task.name.clone(),
            task.steps.to_string(),
            when(task.updated_at),
            task.description.clone().unwrap_or_default(),
            problems,
        ]
    };
    let if_none = "no tasks; start the server with --tasks DIR, or use `bowline tasks push FILE`";
    put_page(&page, json, &["name", "steps", "updated", "description", "problems"], row, if_none)
}

/// Each file that is good is pushed; the first that is not ends it.
async fn push_all(client: &Client, args: &PushArgs) -> Result<Exit, CliError> {
    for file in &args.files {
        let spec = read_text(file)?;
        let shown = file.display().to_string();
        let (task, diagnostics) = spec::task::parse(&spec, &shown, &spec::task::Options::default());
        let Some(task) = task else {
            say(&spec::render(&diagnostics, false));
            return Err(CliError::usage(format!("{shown} has errors and was not pushed")));
        };
        let request = PutTaskRequest { spec, file: Some(shown) };
        let pushed = client.put_task(&task.definition.name, &request).await?;
        say(&format!("pushed {}", pushed.name));
    }
    Ok(Exit::Success)
}
