//! Writing to stdout and stderr without ever panicking over it.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::error::CliError;

/// A line for people, on stderr. If nobody can read it, nobody misses it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// A line of data, on stdout; colours are left out where they do not belong.
pub(crate) fn put(text: &str) -> Result<(), CliError> {
    writeln!(anstream::stdout(), "{text}")?;
    Ok(())
}

/// The API's JSON, on stdout.
pub(crate) fn put_json<T: Serialize>(value: &T) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether a live display may be drawn: both streams on a terminal that can do more than print, and no `NO_COLOR`.
pub(crate) fn is_lively() -> bool {
    let plain_wanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && io::stderr().is_terminal() && !plain_wanted && !dumb
}
