//! `bowline graph`: who waits for whom in a task.

use std::path::Path;

use clap::Args;
use spec::task::{Options, Task};

use super::run::{is_file, read_text};
use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::graph::Graph;
use crate::print::{put, put_json, say};

/// Draw the graph of a task
///
/// TARGET is a task that the server knows, or a task file, which needs no server. Steps stand in layers, each below all
/// that it needs; a line joins steps with those that wait for them. Large graphs are listed, with what each step needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline graph ./release.yaml
  bowline graph nightly-backup --json | jq -r '.steps[] | select(.layer == 1).name'")]
pub struct GraphArgs {
    /// A task's name, or the path of a task file
    pub target: String,
    /// Print the steps with their layers and needs as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(before: &ConnectArgs, args: &GraphArgs) -> Result<Exit, CliError> {
    let target = &args.target;
    let task = if is_file(target) {
        parsed(&read_text(Path::new(target))?, target)?
    } else {
        let task = args.connect.client(before)?.task(target).await?;
        if !task.usable {
            let hint = "`bowline tasks` says what is wrong with it";
            return Err(CliError::usage_hint(format!("no version of the task `{target}` was ever good"), hint));
        }
        parsed(&task.spec, target)?
    };
    let graph = Graph::new(&task.definition);
    if args.json {
        put_json(&graph)?;
    } else {
        put(&graph.rows().join("\n"))?;
    }
    Ok(Exit::Success)
}

fn parsed(text: &str, name: &str) -> Result<Task, CliError> {
    let (task, diagnostics) = spec::task::parse(text, name, &Options::default());
    task.ok_or_else(|| {
        say(&spec::render(&diagnostics, false));
        CliError::usage(format!("{name} has errors"))
    })
}
