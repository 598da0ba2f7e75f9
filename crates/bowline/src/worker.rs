//! `bowline worker`: flags over environment over file, then the worker itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::worker::{CaretakerCommand, RunnerCommand, Spool, StopLevel, WorkerOptions, this_program};
use cli::args::WorkerArgs;
use spec::config::worker::WorkerConfig;
use tokio::sync::watch;

use crate::server::{environment, tell_problems};
use crate::signals::StopSignals;
use crate::{Failed, logging};

pub(crate) async fn run(args: WorkerArgs) -> ExitCode {
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.tell(),
    }
}

async fn serve(args: WorkerArgs) -> Result<(), Failed> {
    let mut signals = StopSignals::new().map_err(Failed::other)?;
    let config = read_config(args.config.as_deref())?;
    logging::start(config.log.level, config.log.format);
    let options = options(args, config)?;
    let (stop, stopping) = watch::channel(StopLevel::Run);
    let worker = ::worker::run(options, stopping);
    tokio::pin!(worker);
    loop {
        tokio::select! {
            ended = &mut worker => return ended.map_err(Failed::other),
            _ = signals.next() => harden(&stop),
        }
    }
}

/// The first signal leaves steps running, the next one ends them.
fn harden(stop: &watch::Sender<StopLevel>) {
    stop.send_modify(|level| {
        *level = match level {
            StopLevel::Run => StopLevel::Leave,
            StopLevel::Leave | StopLevel::EndSteps => StopLevel::EndSteps,
        };
    });
}

fn read_config(path: Option<&Path>) -> Result<WorkerConfig, Failed> {
    let (text, name) = match path {
        Some(path) => {
            let read = |e| Failed::usage(format!("cannot read {}: {e}", path.display()));
            (std::fs::read_to_string(path).map_err(read)?, path.display().to_string())
        }
        None => (String::new(), "the environment".to_owned()),
    };
    let (config, problems) = spec::config::worker::parse(&text, &name, environment());
    tell_problems(&problems);
    config.ok_or_else(|| Failed::usage("the configuration has errors; nothing was started"))
}

fn options(args: WorkerArgs, config: WorkerConfig) -> Result<WorkerOptions, Failed> {
    let enroll_token = match (args.enroll_token, &config.enroll_token_file) {
        (Some(token), _) => Some(token),
        (None, Some(path)) => {
            let read = |e| Failed::usage(format!("cannot read the enroll token from {path}: {e}"));
            Some(std::fs::read_to_string(path).map_err(read)?.trim().to_owned())
        }
        (None, None) => None,
    };
    let given = |flag: Vec<String>, file: Vec<String>| if flag.is_empty() { file } else { flag };
    let mut options = WorkerOptions {
        servers: given(args.server, config.servers),
        name: args.name.or(config.name).unwrap_or_else(hostname),
        tags: given(args.tags, config.tags),
        slots: args.slots.or(config.slots).unwrap_or_else(cores),
        state: args.state.unwrap_or_else(|| PathBuf::from(config.state)),
        enroll_token,
        no_reconnect: args.no_reconnect,
        ephemeral: args.ephemeral || args.once,
        once: args.once,
        stop_steps: args.stop_steps,
        caretaker: args.caretaker,
        caretaker_command: None,
        stop_grace: config.stop_grace,
        spool: Spool {
            log_lines: config.spool.log_lines,
            log_bytes: config.spool.log_bytes,
            keep_after_ack: config.spool.keep_after_ack,
        },
        runner: RunnerCommand::this_program().map_err(Failed::other)?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    options.caretaker_command = caretaker_command(&options).map_err(Failed::other)?;
    Ok(options)
}

/// How runners start a worker for the same state folder, should this one be gone. What it was told is told again.
pub(crate) fn caretaker_command(options: &WorkerOptions) -> std::io::Result<Option<CaretakerCommand>> {
    let state = std::path::absolute(&options.state)?;
    let Some(state) = state.to_str() else { return Ok(None) };
    let mut arguments = vec!["worker".to_owned(), "--caretaker".to_owned(), format!("--state={state}")];
    arguments.push(format!("--server={}", options.servers.join(",")));
    arguments.push(format!("--name={}", options.name));
    arguments.push(format!("--tags={}", options.tags.join(",")));
    arguments.push(format!("--slots={}", options.slots));
    if options.ephemeral {
        arguments.push("--ephemeral".to_owned());
    }
    Ok(Some(CaretakerCommand { program: this_program()?, arguments }))
}

pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}
