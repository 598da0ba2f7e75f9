//! `bowline db`: through the server that runs, or, where none does, on the database itself.

mod backup;
mod check;
mod copy;
mod migrate;
mod part;
mod place;
mod prune;
mod restored;

use std::process::ExitCode;
use std::time::Duration;

use cli::ConnectArgs;
use cli::db::{DbArgs, DbCommand};

/// How often somebody who waits is told how far it has got.
const TELL_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: DbArgs, before: &ConnectArgs) -> ExitCode {
    match args.command {
        DbCommand::Prune(args) => prune::run(&args, before).await,
        DbCommand::Check(args) => check::run(&args),
        DbCommand::Migrate(args) => migrate::run(&args),
        DbCommand::Backup(args) => backup::run(&args),
        DbCommand::Copy(args) => copy::run(&args),
        DbCommand::Restored(args) => restored::run(&args),
    }
}
