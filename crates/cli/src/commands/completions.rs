//! `bowline completions`: for the shell.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit::Exit;

/// Print a shell's completion script
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline completions bash > ~/.local/share/bash-completion/completions/bowline
  bowline completions fish > ~/.config/fish/completions/bowline.fish")]
pub struct CompletionsArgs {
    pub shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, CliError> {
    // Collected first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bowline", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Success)
}
