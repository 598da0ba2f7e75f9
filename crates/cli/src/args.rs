//! All that can be typed. Commands that talk to a server have their arguments in their own files.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    artifacts, attach, cancel, check, completions, db, dispatch, exec, graph, groups, job, jobs, logs, outbox, recover,
    resolve, retry, review, run, secret, tasks, token, triggers, wait, why, worker_drain, worker_remove, workers,
};
use crate::connect::ConnectArgs;

/// Bowline runs jobs on your own machines, and never lets one slip.
#[derive(Debug, Parser)]
#[command(name = "bowline", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  bowline up                                  start a server with a worker
  bowline exec -- make test                   run one command as a job
  bowline run release.yaml -i version=v1.2    run a task file and follow it
  bowline why last                            say why the last job is where it is

Exit codes: 0 the job succeeded, 1 it failed, 2 wrong usage or bad input, 3 it was cancelled,
4 the server could not be reached or refused the token, or `bowline db` could not reach the
database. 141 stdout was closed before the job ended, as by `| head`: the job goes on, and its
result is not known.";

#[derive(Debug, Subcommand)]
pub enum Command {
    Up(UpArgs),
    Server(ServerArgs),
    Worker(WorkerArgs),
    Db(db::DbArgs),
    Fence(FenceArgs),
    #[command(hide = true)]
    Runner(RunnerArgs),
    #[command(flatten)]
    Client(ClientCommand),
}

/// Commands that talk to a server, or to nobody.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    Run(run::RunArgs),
    Exec(exec::ExecArgs),
    Jobs(jobs::JobsArgs),
    Job(job::JobArgs),
    Wait(wait::WaitArgs),
    Attach(attach::AttachArgs),
    Logs(logs::LogsArgs),
    Artifacts(artifacts::ArtifactsArgs),
    Why(why::WhyArgs),
    Cancel(cancel::CancelArgs),
    Retry(retry::RetryArgs),
    Approve(review::ApproveArgs),
    Reject(review::RejectArgs),
    Resolve(resolve::ResolveArgs),
    Workers(workers::WorkersArgs),
    WorkerDrain(worker_drain::WorkerDrainArgs),
    WorkerRemove(worker_remove::WorkerRemoveArgs),
    Dispatch(dispatch::DispatchArgs),
    Recover(recover::RecoverArgs),
    Groups(groups::GroupsArgs),
    Outbox(outbox::OutboxArgs),
    Token(token::TokenArgs),
    Secret(secret::SecretArgs),
    Tasks(tasks::TasksArgs),
    Triggers(triggers::TriggersArgs),
    Check(check::CheckArgs),
    Graph(graph::GraphArgs),
    Completions(completions::CompletionsArgs),
}

/// Start a server with one local worker
///
/// Prints `ready` on a line of its own when it accepts requests, and writes its address and token to your config
/// folder, so that the other commands find it. Ctrl-C stops both; running steps go on and are found again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline up\n  bowline up --data ./data --tasks ./tasks --slots 4")]
pub struct UpArgs {
    /// The folder for the database, the token and the worker's state [default: ~/.local/share/bowline]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1:7411]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// A folder of task files, read again when they change
    #[arg(long, value_name = "DIR")]
    pub tasks: Option<PathBuf>,
    /// How many steps the worker runs at once [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: Option<u32>,
    /// No local worker
    #[arg(long)]
    pub no_worker: bool,
}

/// Start a server alone
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline server --config server-config.yaml\n  bowline check server-config.yaml")]
pub struct ServerArgs {
    /// The config file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Start a worker
///
/// It needs an enroll token on its first start; what it is given then lives in its state folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline token create --kind enroll
  bowline worker --server http://10.0.0.5:7411 --enroll-token TOKEN --tags script,linux")]
pub struct WorkerArgs {
    /// The config file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The servers, tried in turn
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub server: Vec<String>,
    /// For the first start
    #[arg(long, value_name = "TOKEN")]
    pub enroll_token: Option<String>,
    /// What people call it [default: the host's name]
    #[arg(long)]
    pub name: Option<String>,
    /// What it can do [default: the tags of its enroll token, or else script]
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// How many steps it runs at once [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: Option<u32>,
    /// The folder for its credential and its attempts [default: ./bowline-worker]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// End when the link is lost
    #[arg(long)]
    pub no_reconnect: bool,
    /// A machine for single use: what it was only offered is handed to another worker at once when it is gone
    #[arg(long)]
    pub ephemeral: bool,
    /// Run one step, then exit (implies --ephemeral)
    #[arg(long)]
    pub once: bool,
    /// Take no new work; end when what lives in the state folder has ended
    #[arg(long)]
    pub caretaker: bool,
    /// End running steps when stopped, instead of leaving them to the next start
    #[arg(long)]
    pub stop_steps: bool,
}

/// Ask from inside a step whether it still owns its attempt
#[derive(Debug, Args)]
pub struct FenceArgs {
    #[command(subcommand)]
    pub command: FenceCommand,
}

#[derive(Debug, Subcommand)]
pub enum FenceCommand {
    /// Exit with 0 if this step still is the owner, 1 if not, 2 if that cannot be told
    ///
    /// The owner is whoever a server has confirmed within the lease (0.8 of the recovery window). It is answered from
    /// the worker's own record, so it works without a server, and lapses when none has answered for that long. Ask
    /// right before something that must not happen twice, and hand BOWLINE_FENCE to stores that can compare it.
    #[command(after_help = "Examples:\n  bowline fence check && ./publish.sh\n  bowline fence check || exit 75")]
    Check,
}

/// Execute one attempt; started by a worker, never by hand
#[derive(Debug, Args)]
pub struct RunnerArgs {
    /// The attempt's folder
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_stand_before_or_after_the_command() {
        let cli = Cli::try_parse_from(["bowline", "--server", "http://a:1", "jobs", "--token", "t"]).expect("good");
        assert_eq!(cli.connect.server.as_deref(), Some("http://a:1"));
        let Command::Client(ClientCommand::Jobs(jobs)) = cli.command else { panic!("another command") };
        assert_eq!(jobs.connect.token.as_deref(), Some("t"));
    }

    #[test]
    fn a_worker_takes_several_servers() {
        let cli = Cli::try_parse_from(["bowline", "worker", "--server", "http://a:1,http://b:2"]).expect("good");
        let Command::Worker(worker) = cli.command else { panic!("another command") };
        assert_eq!(worker.server, ["http://a:1", "http://b:2"]);
    }
}
