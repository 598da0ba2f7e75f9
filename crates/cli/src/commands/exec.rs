//! `bowline exec`: one command as a one-step job, no file needed.

use std::path::PathBuf;

use api::SubmitRequest;
use clap::{Args, ValueEnum};
use client::Client;
use serde_json::{Map, Value, json};

use super::run::submit;
use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::follow::Wish;
use crate::stdin::StdinNotice;

/// Run one command as a job
///
/// Its output and its result become ours; its stdin is closed. With a server on this machine it runs in the current
/// folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline exec -- make test
  bowline exec --timeout 10m --retry 3 -- curl -fsS https://example.com
  bowline exec --effects none --tags linux --env LANG=C -- sh -c 'ls | wc -l'")]
pub struct ExecArgs {
    /// Tags that the worker must have
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// What it does to the world: decides whether it may be repeated after its worker was lost [default: writes]
    #[arg(long, value_enum)]
    pub effects: Option<EffectsArg>,
    /// Stop it after this time, such as `90s` or `1h30m`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<String>,
    /// How often it is executed at most, if it fails or times out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub retry: Option<u32>,
    /// The folder to run in [default: this one, with a server on this machine; else one of its own]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// A variable for its environment
    #[arg(long, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// A container image to run it in
    #[arg(long)]
    pub image: Option<String>,
    /// Print the job's id and do not wait
    #[arg(long)]
    pub detach: bool,
    /// Show the step and how long it takes, without its log
    #[arg(long, conflicts_with = "detach")]
    pub watch: bool,
    /// Print the job as JSON (at its end, unless detached)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum EffectsArg {
    /// Reads only
    None,
    /// Writes that may be repeated
    Idempotent,
    /// Must not run twice
    Writes,
}

pub(crate) async fn run(client: &Client, args: &ExecArgs) -> Result<Exit, CliError> {
    if args.image.is_some() {
        return Err(CliError::usage_hint(
            "--image is not supported yet",
            "without it the command runs on the worker itself",
        ));
    }
    let workdir = match &args.workdir {
        // On this machine it means what it means to every other command here.
        Some(workdir) if client.endpoint().is_loopback() => Some(current_folder()?.join(workdir)),
        Some(workdir) => Some(workdir.clone()),
        None if client.endpoint().is_loopback() => Some(current_folder()?),
        None => None,
    };
    let workdir = workdir.map(|folder| text(folder, "the folder")).transpose()?;
    let spec = one_step_task(args, workdir.as_deref())?;
    let request =
        SubmitRequest { spec: Some(spec.to_string()), file: Some("exec".to_owned()), ..SubmitRequest::default() };
    let mut stdin = StdinNotice::default();
    stdin.look();
    let result = submit(client, &request, args.detach, Wish { json: args.json, watch: args.watch }).await;
    stdin.look();
    result
}

/// JSON is YAML, so this is a task file.
fn one_step_task(args: &ExecArgs, workdir: Option<&str>) -> Result<Value, CliError> {
    let mut step = Map::new();
    step.insert("run".to_owned(), args.command.iter().map(|word| literal(word)).collect());
    if let Some(workdir) = workdir {
        step.insert("workdir".to_owned(), literal(workdir).into());
    }
    if let Some(effects) = args.effects {
        let word = match effects {
            EffectsArg::None => "none",
            EffectsArg::Idempotent => "idempotent",
            EffectsArg::Writes => "writes",
        };
        step.insert("effects".to_owned(), word.into());
    }
    if let Some(timeout) = &args.timeout {
        step.insert("timeout".to_owned(), timeout.as_str().into());
    }
    if let Some(attempts) = args.retry {
        step.insert("retry".to_owned(), json!({ "attempts": attempts }));
    }
    if !args.tags.is_empty() {
        step.insert("tags".to_owned(), args.tags.clone().into());
    }
    if !args.env.is_empty() {
        step.insert("env".to_owned(), environment(&args.env)?.into());
    }
    Ok(json!({ "name": "exec", "steps": { "run": step } }))
}

fn environment(pairs: &[String]) -> Result<Map<String, Value>, CliError> {
    let pair = |pair: &String| match pair.split_once('=').filter(|(key, _)| !key.is_empty()) {
        Some((key, value)) => Ok((key.to_owned(), literal(value).into())),
        None => Err(CliError::usage_hint(format!("`{pair}` is not a variable"), "write it like `--env LANG=C`")),
    };
    pairs.iter().map(pair).collect()
}

/// A text that the server's templates leave as it is.
fn literal(text: &str) -> String {
    text.replace("{{", "{{ '{{' }}")
}

fn current_folder() -> Result<PathBuf, CliError> {
    std::env::current_dir().map_err(|error| {
        CliError::usage_hint(format!("the current folder is not to be had: {error}"), "give one with --workdir")
    })
}

fn text(path: PathBuf, what: &str) -> Result<String, CliError> {
    let text = path.into_os_string().into_string();
    text.map_err(|path| CliError::usage(format!("{what} {} has a name that is not UTF-8", path.display())))
}

/// Checked here, so that the message is about the flag.
fn duration(text: &str) -> Result<String, String> {
    spec::parse_duration(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        exec: ExecArgs,
    }

    fn task(words: &[&str]) -> Value {
        let args = Alone::try_parse_from([&["exec"], words].concat()).expect("good").exec;
        one_step_task(&args, Some("/here")).expect("good")
    }

    #[test]
    fn a_command_becomes_a_task() {
        assert_eq!(
            task(&["--", "echo", "-n", "a b"]),
            json!({ "name": "exec", "steps": { "run": { "run": ["echo", "-n", "a b"], "workdir": "/here" } } })
        );
        let step = &task(&[
            "--effects",
            "none",
            "--timeout",
            "5s",
            "--retry",
            "3",
            "--tags",
            "a,b",
            "--env",
            "K=V=W",
            "--",
            "true",
        ])["steps"]["run"];
        assert_eq!(step["effects"], "none");
        assert_eq!(step["timeout"], "5s");
        assert_eq!(step["retry"], json!({ "attempts": 3 }));
        assert_eq!(step["tags"], json!(["a", "b"]));
        assert_eq!(step["env"], json!({ "K": "V=W" }));
    }

    #[test]
    fn the_server_reads_it_without_a_complaint_and_braces_stay_braces() {
        let text =
            task(&["--retry", "2", "--env", "F={{ x }}", "--", "docker", "ps", "--format", "{{.ID}} {{{"]).to_string();
        let (parsed, diagnostics) = spec::task::parse(&text, "exec", &spec::task::Options::default());
        assert!(parsed.is_some() && diagnostics.is_empty(), "{}", spec::render(&diagnostics, false));
        assert_eq!(literal("{{.ID}} {{{"), "{{ '{{' }}.ID}} {{ '{{' }}{");
    }

    #[test]
    fn bad_flags_are_refused() {
        let both = vec!["--watch", "--detach", "--", "x"];
        for words in
            [vec!["--timeout", "soon", "--", "x"], vec!["--retry", "0", "--", "x"], both, vec!["--"], vec!["x"]]
        {
            assert!(Alone::try_parse_from([vec!["exec"], words.clone()].concat()).is_err(), "{words:?}");
        }
    }
}
