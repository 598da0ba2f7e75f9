//! One file per command: its arguments, and what it does.

pub(crate) mod artifacts;
pub(crate) mod attach;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod completions;
pub mod db;
pub(crate) mod dispatch;
pub(crate) mod exec;
pub(crate) mod graph;
pub(crate) mod groups;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod outbox;
pub(crate) mod recover;
pub(crate) mod resolve;
pub(crate) mod retry;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod tasks;
pub(crate) mod token;
pub(crate) mod triggers;
pub(crate) mod wait;
pub(crate) mod why;
pub(crate) mod worker_drain;
pub(crate) mod worker_remove;
pub(crate) mod workers;

use crate::args::ClientCommand;
use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;

pub(crate) async fn run(command: ClientCommand, before: &ConnectArgs) -> Result<Exit, CliError> {
    match command {
        ClientCommand::Run(args) => run::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Exec(args) => exec::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Jobs(args) => jobs::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Job(args) => job::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Wait(args) => wait::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Attach(args) => attach::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Logs(args) => logs::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Artifacts(args) => artifacts::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Why(args) => why::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Cancel(args) => cancel::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Retry(args) => retry::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Approve(args) => review::approve(&args.connect.client(before)?, &args).await,
        ClientCommand::Reject(args) => review::reject(&args.connect.client(before)?, &args).await,
        ClientCommand::Resolve(args) => resolve::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Workers(args) => workers::run(&args.connect.client(before)?, &args).await,
        ClientCommand::WorkerDrain(args) => worker_drain::run(&args.connect.client(before)?, &args).await,
        ClientCommand::WorkerRemove(args) => worker_remove::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Recover(args) => recover::run(before, &args).await,
        ClientCommand::Groups(args) => groups::run(&args.connect.client(before)?, &args).await,
        ClientCommand::Outbox(args) => outbox::run(before, &args).await,
        ClientCommand::Dispatch(args) => dispatch::run(before, &args).await,
        ClientCommand::Token(args) => token::run(before, &args).await,
        ClientCommand::Secret(args) => secret::run(before, &args).await,
        ClientCommand::Tasks(args) => tasks::run(before, &args).await,
        ClientCommand::Triggers(args) => triggers::run(before, &args).await,
        ClientCommand::Graph(args) => graph::run(before, &args).await,
        ClientCommand::Check(args) => check::run(&args),
        ClientCommand::Completions(args) => completions::run(&args),
    }
}
