//! `bowline db migrate`: what it takes, and how its answer reads.

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json};

use super::place::PlaceArgs;

/// Bring a database's schema up to what this build knows
///
/// A server does this by itself when it starts; here it is done without starting one, before an upgrade say. It is safe to run several
/// at once, and does nothing where there is nothing to do. A database that a newer build has changed is left as it is.
///
/// On PostgreSQL servers of the build before may run on meanwhile. A SQLite database must not be in use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline db migrate --data ./bowline-data
  bowline db migrate --config server-config.yaml --json")]
pub struct MigrateArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Print the versions as JSON
    #[arg(long)]
    pub json: bool,
}

/// What it came to; 0 is an empty database.
#[derive(Debug, Serialize)]
pub struct MigratedView {
    pub database: String,
    pub from: u32,
    pub to: u32,
    pub took_ms: u64,
}

pub(crate) fn show(migrated: &MigratedView, json: bool) -> Result<Exit, CliError> {
    if json {
        put_json(migrated)?;
    } else {
        put(&line(migrated))?;
    }
    Ok(Exit::Success)
}

fn line(migrated: &MigratedView) -> String {
    let MigratedView { database, from, to, took_ms } = migrated;
    if from == to {
        return format!("{database}: version {to} of the schema, which is current; nothing to do");
    }
    let seconds = *took_ms as f64 / 1_000.0;
    format!("{database}: from version {from} of the schema to {to}, in {seconds:.1} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_from_where_to_where() {
        let said = |from, to| line(&MigratedView { database: "db".to_owned(), from, to, took_ms: 1_234 });
        assert_eq!(said(17, 19), "db: from version 17 of the schema to 19, in 1.2 s");
        assert_eq!(said(19, 19), "db: version 19 of the schema, which is current; nothing to do");
    }
}
