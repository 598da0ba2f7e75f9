//! `bowline jobs`: the list.

use api::job::JobSummary;
use api::{JobState, JobsQuery};
use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::lineage::Kin;
use crate::print::{put_json, say};
use crate::table::put_table;
use crate::times::{took, when};

/// How much of a command a list shows.
const COMMAND_WIDTH: usize = 40;

/// List jobs, in the order of their ids, the last first
///
/// An id begins with a time: of most jobs when they were submitted, of those that a schedule begins the time they are for, and of those that
/// a step or a hook begins the time in the id of the job that they come from. So they stand beside that, and CREATED may be later.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline jobs --state running,recovering
  bowline jobs --task release --limit 5 --json")]
pub struct JobsArgs {
    /// Only jobs in these states
    #[arg(long, value_delimiter = ',', value_parser = state)]
    pub state: Vec<String>,
    /// Only jobs of this task
    #[arg(long)]
    pub task: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Go on where a list ended: its `next`
    #[arg(long)]
    pub cursor: Option<String>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &JobsArgs) -> Result<Exit, CliError> {
    let query = JobsQuery {
        state: (!args.state.is_empty()).then(|| args.state.join(",")),
        task: args.task.clone(),
        limit: Some(args.limit),
        cursor: args.cursor.clone(),
    };
    let page = client.jobs(&query).await?;
    if args.json {
        put_json(&page)?;
        return Ok(Exit::Success);
    }
    let rows = page.items.iter().map(|job| {
        vec![
            job.id.to_string(),
            job.task.clone(),
            state_of(job),
            when(Some(job.created_at)),
            took(job.started_at, job.ended_at),
            job.command.as_deref().map(brief).unwrap_or_default(),
            lineage(job),
            job.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
        ]
    });
    let columns = ["id", "task", "state", "created", "took", "command", "lineage", "error"];
    put_table(&columns, rows.collect(), "no jobs")?;
    if let Some(next) = page.next {
        say(&format!("more with --cursor {next}"));
    }
    Ok(Exit::Success)
}

/// A job that waits for its concurrency group says so.
fn state_of(job: &JobSummary) -> String {
    match job.group.as_ref().filter(|_| job.in_line) {
        Some(group) => format!("{} (waits for group {group})", job.state),
        None => job.state.to_string(),
    }
}

/// The jobs that it comes from, and the last that goes on from it.
fn lineage(job: &JobSummary) -> String {
    let last = job.continued_by.len().saturating_sub(1);
    let kin = Kin {
        parent: job.parent,
        hook_of: job.hook_of,
        continues: job.continues,
        continues_how: job.continues_how.as_deref(),
        continued_by: &job.continued_by[last..],
    };
    kin.words(|relative| relative.to_string()).join(", ")
}

/// Enough to tell commands apart.
fn brief(command: &str) -> String {
    match command.char_indices().nth(COMMAND_WIDTH) {
        None => command.to_owned(),
        Some(_) => command.chars().take(COMMAND_WIDTH - 1).chain(['…']).collect(),
    }
}

fn state(word: &str) -> Result<String, String> {
    if JobState::from_word(word).is_some() {
        return Ok(word.to_owned());
    }
    let words: Vec<&str> = JobState::ALL.iter().map(|state| state.word()).collect();
    Err(format!("a job's state is one of {}", words.join(", ")))
}
