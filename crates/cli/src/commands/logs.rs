//! `bowline logs`: what steps wrote.

use std::time::Duration;

use api::job::StepKind;
use api::{Job, LogsQuery, Step, StepState};
use clap::Args;
use client::{Client, StreamItem};

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::follow::{self, Latest, Options, Raw, View};
use crate::print::say;
use crate::shell;

/// The job's own server events, in the place of a step.
const SERVER_STEP: &str = "_server";

/// How long the last lines of a step that has ended may take without any coming.
const LAST_LINES_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Jobs that continue each other: so many are looked at for the one that ran a step.
const LINE_MAX: usize = 100;

/// Where a list of names is cut.
const NAMES_MAX: usize = 20;

/// Print what a job's steps wrote
///
/// With a step, or if there is only one: its lines as they were written, nothing else. With several: `step | line`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline logs last
  bowline logs last build -f
  bowline logs 0193a5b2 deploy --attempt 1 --tail 50 --timestamps")]
pub struct LogsArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// A step's name, or `_server` for what the server did
    pub step: Option<String>,
    /// Go on until the end
    #[arg(short, long)]
    pub follow: bool,
    /// The attempt's number [default: the latest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only the last so many lines
    #[arg(long, value_name = "N")]
    pub tail: Option<u32>,
    /// Begin each line with its time
    #[arg(long)]
    pub timestamps: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &LogsArgs) -> Result<Exit, CliError> {
    let job = client.job(&args.id).await?;
    let steps = chosen(&job, args.step.as_deref())?;
    // The only step is meant as if it were named; but more may come up while it is followed.
    let meant = match steps.as_slice() {
        [(name, _)] if args.step.is_some() || !args.follow => job.step(name),
        _ => None,
    };
    if let Some(none) = meant.and_then(|step| no_log(&job, step)) {
        say(&none);
        return Ok(Exit::Success);
    }
    if let Some(step) = meant.filter(|step| did_not_run(&job, step)) {
        say(&ran_elsewhere(client, &job, step).await?);
        return Ok(Exit::Success);
    }
    let mut view = Raw::new(steps.len() > 1, args.timestamps);
    if args.follow && args.attempt.is_none() && args.step.as_deref() != Some(SERVER_STEP) {
        let latest = Some(Latest { tail: args.tail });
        let options = Options { step: args.step.clone(), latest, ..Options::default() };
        follow::follow(client, &job, &options, &mut view).await?;
        return Ok(Exit::Success);
    }
    for (step, latest_attempt) in steps {
        // Among others, one that has no such log is passed over.
        if meant.is_none() && job.step(step).is_some_and(|step| !has_attempt(step, args.attempt)) {
            continue;
        }
        let attempt = args.attempt.or(latest_attempt);
        if attempt == Some(0) {
            if args.step.is_some() {
                say(&format!("step {step} has not started"));
            }
            continue;
        }
        let query = LogsQuery { from: None, attempt, limit: None, tail: args.tail };
        let id = job.id.to_string();
        if args.follow {
            stream(client, &id, step, &query, &mut view).await?;
        } else {
            let ended = job.step(step).is_some_and(|s| s.state.is_final() || attempt.is_some_and(|n| n < s.attempt));
            pages(client, &id, step, query, ended, &mut view).await?;
        }
        view.log_ended(step)?;
    }
    Ok(Exit::Success)
}

/// The steps to print, each with its latest attempt; `_server` has none.
fn chosen<'a>(job: &'a Job, wanted: Option<&'a str>) -> Result<Vec<(&'a str, Option<u32>)>, CliError> {
    match wanted {
        Some(SERVER_STEP) => Ok(vec![(SERVER_STEP, None)]),
        Some(name) => match job.step(name) {
            Some(step) => Ok(vec![(name, Some(step.attempt))]),
            None => {
                let has = format!("it has {}", names(&job.steps.iter().collect::<Vec<&Step>>()));
                Err(CliError::usage_hint(format!("the job has no step `{name}`"), has))
            }
        },
        None => {
            let all = job.steps.iter().filter(|step| step.state != StepState::Skipped);
            Ok(all.map(|step| (step.name.as_str(), Some(step.attempt))).collect())
        }
    }
}

/// Whether it has the attempt that is asked for, or any if none is.
fn has_attempt(step: &Step, number: Option<u32>) -> bool {
    step.kind == StepKind::Run && number.is_none_or(|number| number <= step.attempt)
}

/// Why a step never has a log of its own; none where a worker does it.
fn no_log(job: &Job, step: &Step) -> Option<String> {
    let name = &step.name;
    match step.kind {
        StepKind::Run => None,
        StepKind::Approve => Some(format!("step {name} has no log: a person does it")),
        StepKind::Task => Some(match step.child {
            Some(child) => {
                format!("step {name} has no log: job {child} does it; read it with `bowline logs {child}`")
            }
            None => format!("step {name} has no log: another job does it"),
        }),
        StepKind::FanOut => {
            let items: Vec<&Step> = job.items(step).collect();
            Some(match items.len() {
                0 if step.state.is_final() => format!("step {name} has no log: it has no items"),
                0 => format!("step {name} has no log: its items will have them, and are not known yet"),
                count => format!("step {name} has no log: its {count} items have them: {}", names(&items)),
            })
        }
    }
}

/// A job that continues another takes over what stands there: such a step is over, and had no attempt here.
fn did_not_run(job: &Job, step: &Step) -> bool {
    let over = matches!(step.state, StepState::Success | StepState::Failed);
    job.continues.is_some() && step.kind == StepKind::Run && over && step.attempt == 0
}

/// Which of those that it continues, near or far, ran the step, or who settled it where, and how to read what it wrote.
async fn ran_elsewhere(client: &Client, job: &Job, step: &Step) -> Result<String, CliError> {
    let name = &step.name;
    let told = format!("step {name} did not run in this job");
    let mut settled = step.settled_by.as_ref().map(|by| format!("{told}: {by} settled it by hand"));
    let mut before = job.continues;
    let mut gone = job.deleted.clone();
    for _ in 0..LINE_MAX {
        let Some(old) = before.filter(|old| !gone.contains(old)) else { break };
        let old = client.job(&old.to_string()).await?;
        let (id, there) = (old.id, old.step(name));
        if there.is_some_and(|step| step.attempt > 0) {
            let read = format!("`bowline logs {id} {}`", shell::word(name));
            return Ok(match settled {
                Some(settled) => format!("{settled}; {read} shows what it wrote before"),
                None => format!("{told}: it was taken over from job {id}; read it with {read}"),
            });
        }
        if let Some(by) = there.and_then(|step| step.settled_by.as_ref()).filter(|_| settled.is_none()) {
            settled = Some(format!("{told}: it was taken over from job {id}, where {by} settled it by hand"));
        }
        (before, gone) = (old.continues, old.deleted);
    }
    Ok(match (settled, before) {
        (Some(settled), _) => settled,
        (None, Some(old)) => format!("{told}: it was taken over from job {old}, which is deleted"),
        (None, None) => format!("step {name} did not run: it was settled by hand"),
    })
}

/// `a, b, c`, cut if they are many.
fn names(steps: &[&Step]) -> String {
    let told: Vec<&str> = steps.iter().take(NAMES_MAX).map(|step| step.name.as_str()).collect();
    match steps {
        [.., last] if steps.len() > NAMES_MAX => format!("{}, … {}", told.join(", "), last.name),
        _ => told.join(", "),
    }
}

/// What is stored now. The result of a step overtakes its last lines, so those of one that has ended are waited for.
async fn pages(
    client: &Client,
    id: &str,
    step: &str,
    mut query: LogsQuery,
    ended: bool,
    view: &mut Raw,
) -> Result<(), CliError> {
    let mut waited = Duration::ZERO;
    loop {
        let page = client.logs(id, step, &query).await?;
        view.lines(step, &page.lines)?;
        if page.complete {
            return Ok(());
        }
        if !page.lines.is_empty() {
            waited = Duration::ZERO;
            query.tail = None;
            query.from = Some(page.next);
        } else if !ended {
            return Ok(());
        } else if waited >= LAST_LINES_PATIENCE {
            say("some log lines are still on their way; see them later with the same command");
            return Ok(());
        } else {
            tokio::time::sleep(LOOK_AGAIN).await;
            waited += LOOK_AGAIN;
        }
    }
}

/// One attempt to its end.
async fn stream(client: &Client, id: &str, step: &str, query: &LogsQuery, view: &mut Raw) -> Result<(), CliError> {
    let mut stream = client.log_stream(id, step, query);
    while let Some(item) = stream.next().await? {
        match item {
            StreamItem::Data(page) => view.lines(step, &page.lines)?,
            StreamItem::Lost(error) => view.notice(&format!("{error}; trying to connect again"))?,
            StreamItem::Back => view.notice("connected again")?,
        }
    }
    Ok(())
}
