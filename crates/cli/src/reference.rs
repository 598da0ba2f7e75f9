//! The command line's reference as Markdown, made from its definition. A test keeps `docs/cli.md` equal to it.

use std::fmt::Write;

use clap::{Arg, CommandFactory};

use crate::args::Cli;

/// All commands but the hidden ones.
pub fn markdown() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text =
        String::from("# Command line\n\nMade from the program itself; `bowline COMMAND --help` prints the same.\n");
    command(&mut text, &root);
    text
}

fn command(text: &mut String, command_: &clap::Command) {
    section(text, command_);
    for sub in command_.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        command(text, sub);
    }
}

fn section(text: &mut String, command: &clap::Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    line(text, format_args!("\n## {name}\n"));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        line(text, format_args!("{about}\n"));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    line(text, format_args!("```text\n{usage}\n```"));
    arguments(text, command);
    if let Some(after) = command.get_after_help() {
        line(text, format_args!("\n```text\n{after}\n```"));
    }
}

fn arguments(text: &mut String, command: &clap::Command) {
    let arguments: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set() && !is_common(arg)).collect();
    if arguments.is_empty() {
        return;
    }
    line(text, format_args!("\n| argument | |\n|---|---|"));
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let shown = argument.to_string().replace('|', "\\|");
        let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
        line(text, format_args!("| {short}`{shown}` | {}{} |", help.replace('|', "\\|"), values(argument)));
    }
}

/// What may be given, and what holds otherwise.
fn values(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.display()))
        .collect();
    let mut text = String::new();
    if !possible.is_empty() {
        text = format!(" ({})", possible.join(", "));
    }
    if !defaults.is_empty() {
        text = format!("{text} [default: {}]", defaults.join(", "));
    }
    text
}

/// The same everywhere, so not worth a row each time.
fn is_common(argument: &Arg) -> bool {
    matches!(argument.get_id().as_str(), "help" | "version")
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string takes any text");
}
