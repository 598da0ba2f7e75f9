//! `bowline run`: a task by name, or a task file, followed to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::job::StepKind;
use api::{Job, SubmitRequest};
use clap::Args;
use client::Client;

use crate::ask;
use crate::connect::ConnectArgs;
use crate::error::{CliError, tell};
use crate::exit::Exit;
use crate::follow::{self, Ended, Options, Wish};
use crate::inputs;
use crate::print::{put, put_json, say};
use crate::shell;

/// When our stdout is closed, a job that is about to end may do so.
const RESULT_PATIENCE: Duration = Duration::from_millis(500);

/// Run a task and follow it to its end
///
/// TARGET is a task that the server knows, or a task file. Ctrl-C asks the job to end, twice forces it; closing the
/// terminal leaves it running. On a terminal it asks for required inputs that are not given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline run nightly-backup
  bowline run ./release.yaml -i version=v1.2 -i notes=@CHANGES.md
  git log --oneline v1.1.. | bowline run release -i version=v1.2 -i notes=@-
  bowline run release --input-file inputs.yaml -i version=v1.3
  id=$(bowline run release.yaml --detach) && bowline wait $id")]
pub struct RunArgs {
    /// A task's name, or the path of a task file
    pub target: String,
    /// An input; `key=@file` takes a file's text and `key=@-` what is on stdin, without its last line end; `key=@@x` means `@x`
    #[arg(short, long = "input", value_name = "KEY=VALUE")]
    pub input: Vec<String>,
    /// A file of inputs, a mapping in YAML or JSON, or `-` for stdin; `-i` goes over it
    #[arg(long, value_name = "FILE")]
    pub input_file: Option<PathBuf>,
    /// Tags that every worker must have, besides those of the steps
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// Print the job's id and do not wait
    #[arg(long)]
    pub detach: bool,
    /// Show the steps and how long each takes, without their logs
    #[arg(long, conflicts_with = "detach")]
    pub watch: bool,
    /// Print the job as JSON (at its end, unless detached)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &RunArgs) -> Result<Exit, CliError> {
    let mut request = SubmitRequest {
        input: inputs::given(args.input_file.as_deref(), &args.input)?,
        tags: args.tags.clone(),
        ..SubmitRequest::default()
    };
    if is_file(&args.target) {
        request.spec = Some(read_text(Path::new(&args.target))?);
        request.file = Some(args.target.clone());
    } else {
        request.task = Some(args.target.clone());
    }
    if ask::can_ask() {
        ask_for_missing(client, &mut request).await?;
    }
    submit(client, &request, args.detach, Wish { json: args.json, watch: args.watch }).await
}

/// On a terminal. A task that is not there or not good is none that could be asked for: the submit tells of it.
async fn ask_for_missing(client: &Client, request: &mut SubmitRequest) -> Result<(), CliError> {
    let text = match (&request.task, &request.spec) {
        (Some(name), _) => match client.task(name).await {
            Ok(task) => task.spec,
            Err(client::Error::Api { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        },
        (None, Some(spec)) => spec.clone(),
        (None, None) => return Ok(()),
    };
    match spec::task::parse(&text, "", &spec::task::Options::default()).0 {
        Some(task) => ask::for_missing(&task, &mut request.input),
        None => Ok(()),
    }
}

/// Submits, and follows unless `detach`. Also what `exec` does.
pub(crate) async fn submit(
    client: &Client,
    request: &SubmitRequest,
    detach: bool,
    wish: Wish,
) -> Result<Exit, CliError> {
    let key = client::new_idempotency_key()
        .map_err(|error| CliError::usage(format!("the system gives no random numbers: {error}")))?;
    let job = client.submit(request, &key).await?;
    if detach {
        if wish.json {
            put_json(&job)?;
        } else {
            put(&job.id.to_string())?;
        }
        return Ok(Exit::Success);
    }
    follow_to_result(client, &job, wish).await
}

/// Follows a job on the screen and makes its result ours. Also what `attach` does.
pub(crate) async fn follow_to_result(client: &Client, job: &Job, wish: Wish) -> Result<Exit, CliError> {
    let options =
        Options { interrupt_cancels: true, tells_waits: true, without_logs: wish.watch, ..Options::default() };
    let mut view = follow::choose(job, wish);
    let ended = follow::follow(client, job, &options, view.as_mut()).await;
    drop(view);
    match ended {
        Ok(Ended::Left) => Ok(Exit::Cancelled),
        Ok(Ended::Over(job)) => {
            let printed = if wish.json { put_json(&job) } else { Ok(()) };
            tell_failure(&job);
            // The result is known, also to a caller who did not wait for its text.
            match printed {
                Err(error) if !error.is_quiet() => Err(error),
                Ok(()) | Err(_) => Ok(Exit::of_job(job.state)),
            }
        }
        Err(error) if error.is_quiet() => detached(client, job).await,
        Err(error) => Err(error),
    }
}

/// Nobody reads our stdout any more. That is no wish to end the job; and its result is ours only if it is known.
async fn detached(client: &Client, job: &Job) -> Result<Exit, CliError> {
    let id = job.id;
    let known = client.job_wait(&id.to_string(), RESULT_PATIENCE).await;
    if let Ok(job) = known
        && job.state.is_final()
    {
        tell_failure(&job);
        return Ok(Exit::of_job(job.state));
    }
    say(&format!("bowline: stdout was closed; job {id} goes on (`bowline attach {id}` follows it)"));
    Ok(Exit::Detached)
}

fn tell_failure(job: &Job) {
    let Some(error) = &job.error else { return };
    let id = job.id;
    let more = format!("`bowline why {id}` says more");
    match &error.step {
        Some(name) => {
            // Only what a worker ran has an output.
            let ran = job.step(name).is_some_and(|step| step.kind == StepKind::Run && step.attempt > 0);
            let logs = format!("; `bowline logs {id} {}` shows its output", shell::word(name));
            let hint = if ran { more + &logs } else { more };
            tell(&format!("step {name}: {} ({})", error.message, error.code), Some(&hint));
        }
        None => tell(&format!("{} ({})", error.message, error.code), Some(&more)),
    }
}

pub(crate) fn is_file(target: &str) -> bool {
    target.contains('/') || target.ends_with(".yaml") || target.ends_with(".yml") || Path::new(target).is_file()
}

pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|source| CliError::Unreadable { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_from_names() {
        for (target, file) in
            [("release", false), ("./release", true), ("release.yaml", true), ("a/b", true), ("r.yml", true)]
        {
            assert_eq!(is_file(target), file, "{target}");
        }
    }
}
