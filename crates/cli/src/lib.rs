//! The command line: what can be typed, and everything that talks to a server over HTTP.
//!
//! The binary calls [`parse`], runs `up`, `server`, `worker` and the hidden `runner` itself, and hands the rest to
//! [`run_client`]. Data goes to stdout, everything else to stderr; `exit` has the exit codes.

pub mod args;
pub mod context;
pub mod reference;

mod ask;
mod commands;
mod connect;
mod error;
mod exit;
mod follow;
mod graph;
mod inputs;
mod lineage;
mod print;
mod shell;
mod stdin;
mod style;
mod table;
mod times;

use clap::Parser;

pub use args::{Cli, ClientCommand, Command};
pub use commands::db;
pub use connect::ConnectArgs;
pub use exit::Exit;

/// Reads the process's arguments. Wrong ones end the process with exit code 2 and a message.
pub fn parse() -> Cli {
    Cli::parse()
}

/// Asks a server to delete what is old, and waits for it.
pub async fn prune(args: &db::PruneArgs, before: &ConnectArgs) -> Exit {
    let pruned = async { db::prune(&args.connect.client(before)?, args).await };
    told(pruned.await)
}

/// Says what went.
pub fn show_pruned(pruned: &api::Pruned, json: bool) -> Exit {
    told(db::put_pruned(pruned, json).map(|()| Exit::Success))
}

/// Says what is wrong with a database.
pub fn show_checked(checked: &db::Checked, json: bool) -> Exit {
    told(db::show_checked(checked, json))
}

/// Says from which version of the schema to which.
pub fn show_migrated(migrated: &db::MigratedView, json: bool) -> Exit {
    told(db::show_migrated(migrated, json))
}

/// Says that servers will know that a database was restored.
pub fn show_restored(restored: &db::RestoredView, json: bool) -> Exit {
    told(db::show_restored(restored, json))
}

/// Says what was backed up.
pub fn show_backup(backup: &db::BackupView, json: bool) -> Exit {
    told(db::show_backup(backup, json))
}

/// Says what was copied, and what is wrong with it.
pub fn show_copy(copy: &db::CopyView, json: bool) -> Exit {
    told(db::show_copy(copy, json))
}

/// Runs one of the commands that need no process of our own beyond this one. `connect` is what stood before the command.
pub async fn run_client(command: ClientCommand, connect: &ConnectArgs) -> Exit {
    told(commands::run(command, connect).await)
}

fn told(result: Result<Exit, error::CliError>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(error) => {
            error.tell();
            error.exit()
        }
    }
}
