//! `bowline db copy`: what it takes, and how its answer reads.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

use super::check::{Checked, show_found};
use super::counted;

/// Move an installation from SQLite to PostgreSQL
///
/// Copies every row into an empty PostgreSQL database, in one transaction: ids, numbers, jobs that are not over, logs, all of it. Before
/// that becomes visible all of it is read back and compared with what was sent, table by table; afterwards `bowline db check` is run on the copy. If
/// anything goes wrong the database stays empty, and the copy is begun anew. The SQLite database is not changed; no server may run on it.
///
/// Afterwards start the server with `database: postgres://…` and the same data folder: files that steps left and the key of the secrets
/// are there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline db copy --from sqlite:./bowline-data/bowline.db --to postgres://bowline@db.example/bowline
  bowline db copy --from sqlite:./bowline-data/bowline.db --to-config server-config.yaml")]
pub struct CopyArgs {
    /// The database to read: `sqlite:PATH`
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The empty database to fill: `postgres://…`
    #[arg(long, value_name = "URL", required_unless_present = "to_config", conflicts_with = "to_config")]
    pub to: Option<String>,
    /// The config file of the server that is to have it, which names the empty database; a password stays out of sight there
    #[arg(long, value_name = "FILE")]
    pub to_config: Option<PathBuf>,
    /// Print what was copied as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
pub struct CopyView {
    pub from: String,
    pub to: String,
    pub rows: u64,
    pub took_ms: u64,
    pub tables: Vec<CopiedTable>,
    /// What `bowline db check` says of the copy.
    pub check: Checked,
}

#[derive(Debug, Serialize)]
pub struct CopiedTable {
    pub name: &'static str,
    pub rows: u64,
    /// Of all rows in the order of their key; the same on both sides.
    pub hash: String,
}

/// Says what was copied; 1 if the copy, and so most likely the source, is damaged.
pub(crate) fn show(copy: &CopyView, json: bool) -> Result<Exit, CliError> {
    if json {
        put_json(copy)?;
    } else {
        show_found(&copy.check)?;
        put(&line(copy))?;
    }
    if copy.check.sound {
        return Ok(Exit::Success);
    }
    say(
        "every row arrived as it was, so this damage was there before: `bowline db check` will find it in the source too",
    );
    Ok(Exit::Failed)
}

fn line(copy: &CopyView) -> String {
    let CopyView { from, to, rows, took_ms, tables, .. } = copy;
    let (rows, tables) = (counted(*rows, "row"), counted(tables.len() as u64, "table"));
    let seconds = *took_ms as f64 / 1_000.0;
    format!("{from}: {rows} of {tables} copied to {to} and compared, in {seconds:.1} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_much_from_where_to_where() {
        let check = Checked { database: "b".to_owned(), sound: true, took_ms: 1, checks: Vec::new() };
        let tables = vec![CopiedTable { name: "jobs", rows: 3, hash: String::new() }];
        let copy = CopyView { from: "a".to_owned(), to: "b".to_owned(), rows: 3, took_ms: 1_234, tables, check };
        assert_eq!(line(&copy), "a: 3 rows of 1 table copied to b and compared, in 1.2 s");
    }
}
