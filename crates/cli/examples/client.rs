//! The command line without a server or a worker inside: what the tests run as a process of its own.

use std::process::ExitCode;

use cli::{Command, Exit};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = cli::parse();
    match cli.command {
        Command::Client(command) => cli::run_client(command, &cli.connect).await.into(),
        Command::Up(_)
        | Command::Server(_)
        | Command::Worker(_)
        | Command::Runner(_)
        | Command::Fence(_)
        | Command::Db(_) => Exit::Usage.into(),
    }
}
