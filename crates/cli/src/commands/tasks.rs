//! `bowline tasks`: what can be run by name, and giving the server more of it.

use std::path::PathBuf;

use api::{Diagnostic, PutTaskRequest, Severity, TaskSummary};
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
        vec![
            task.name.clone(),
            task.steps.to_string(),
            when(task.updated_at),
            task.description.clone().unwrap_or_default(),
            problems(task),
        ]
    };
    let if_none = "no tasks; start the server with --tasks DIR, or use `bowline tasks push FILE`";
    put_page(&page, json, &["name", "steps", "updated", "description", "problems"], row, if_none)
}

/// The first problem with its place, errors before warnings; `--json` has them all.
fn problems(task: &TaskSummary) -> String {
    let error = task.diagnostics.iter().find(|problem| problem.severity == Severity::Error);
    let Some(first) = error.or(task.diagnostics.first()) else { return String::new() };
    let Diagnostic { file, line, column, message, .. } = first;
    let more = match task.diagnostics.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let so = match (task.usable, error) {
        (false, _) => "; cannot be run",
        (true, Some(_)) => "; the last good version is in use",
        (true, None) => "",
    };
    format!("{file}:{line}:{column}: {message}{more}{so}")
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
        for problem in &pushed.diagnostics {
            say(problem.rendered.as_deref().unwrap_or(&problem.message));
        }
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(usable: bool, severities: &[&str]) -> String {
        let problem = |(n, severity): (usize, &&str)| json!({ "file": "t.yaml", "line": n + 1, "column": 5, "severity": severity, "code": "c", "message": format!("no {n}") });
        let diagnostics: Vec<serde_json::Value> = severities.iter().enumerate().map(problem).collect();
        let task = json!({
            "name": "t", "steps": 1, "updated_at": "2026-01-01T00:00:00Z", "usable": usable, "diagnostics": diagnostics,
        });
        problems(&serde_json::from_value(task).expect("a task"))
    }

    #[test]
    fn the_first_problem_is_told_with_its_place() {
        assert_eq!(shown(true, &[]), "");
        assert_eq!(shown(true, &["error"]), "t.yaml:1:5: no 0; the last good version is in use");
        assert_eq!(shown(false, &["warning", "error", "error"]), "t.yaml:2:5: no 1, and 2 more; cannot be run");
        assert_eq!(
            shown(true, &["warning", "warning"]),
            "t.yaml:1:5: no 0, and 1 more",
            "it is the newest that is in use"
        );
    }
}
