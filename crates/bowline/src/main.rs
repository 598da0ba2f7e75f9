//! One binary, several roles. This file only finds out which one is wanted.

mod db;
mod fence;
mod limits;
mod local_worker;
mod logging;
mod server;
mod signals;
mod up;
mod worker;

use std::path::Path;
use std::process::ExitCode;

use cli::Command;
use cli::args::{FenceArgs, FenceCommand};
use store::StoreError;

fn main() -> ExitCode {
    // A runner must be small and have one thread, so nothing may come before it: no argument parser, no runtime.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == "runner")
        && let (Some(word), None) = (arguments.next(), arguments.next())
    {
        if word == runner::nursery::FLAG {
            return runner::nursery::main();
        }
        if !word.as_encoded_bytes().starts_with(b"-") {
            return runner::main(Path::new(&word));
        }
    }
    let cli = cli::parse();
    match cli.command {
        Command::Up(args) => with_runtime(false, up::run(args)),
        Command::Server(args) => with_runtime(false, server::run(args)),
        Command::Worker(args) => with_runtime(true, worker::run(args)),
        Command::Db(args) => with_runtime(true, async { db::run(args, &cli.connect).await }),
        Command::Fence(FenceArgs { command: FenceCommand::Check }) => fence::run(),
        Command::Runner(args) => runner::main(&args.folder),
        Command::Client(command) => with_runtime(true, async { cli::run_client(command, &cli.connect).await.into() }),
    }
}

/// `small`: one thread is enough, and keeps the process small.
fn with_runtime(small: bool, work: impl Future<Output = ExitCode>) -> ExitCode {
    let mut builder =
        if small { tokio::runtime::Builder::new_current_thread() } else { tokio::runtime::Builder::new_multi_thread() };
    match builder.enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What went wrong, for a person, and the exit code for it.
struct Failed {
    message: String,
    code: u8,
}

impl Failed {
    /// The fault is in what was asked for.
    fn usage(message: impl std::fmt::Display) -> Failed {
        Failed { message: message.to_string(), code: 2 }
    }

    fn other(message: impl std::fmt::Display) -> Failed {
        Failed { message: message.to_string(), code: 1 }
    }

    /// An address that is none is the fault of whoever gave it. A database that is not there is like a server that is not: nothing is
    /// known of what is in it.
    fn of_store(error: StoreError) -> Failed {
        match error {
            StoreError::Refused { .. } => Failed::usage(error),
            StoreError::Unavailable { .. } => Failed { message: error.to_string(), code: 4 },
            other => Failed::other(other),
        }
    }

    /// The same where the data itself may be refused, which is nobody's fault who asked.
    fn of_work(error: StoreError) -> Failed {
        match error {
            StoreError::Refused { .. } => Failed::other(error),
            other => Failed::of_store(other),
        }
    }

    fn tell(self) -> ExitCode {
        eprintln!("error: {}", self.message);
        ExitCode::from(self.code)
    }
}
