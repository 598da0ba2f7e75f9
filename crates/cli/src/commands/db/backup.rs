//! `bowline db backup`: what it takes, and how its answer reads.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json};

use super::place::PlaceArgs;
use super::size;

/// Write all of a database to one file, while servers run
///
/// The file holds the database as it was at one moment, and stands under its name only when it is whole, on the disk, and has been read
/// back. Of SQLite it is a database itself; of PostgreSQL what `pg_dump --format=custom` writes, for which `pg_dump` must be installed.
///
/// Files that steps left, the key of the secrets and tokens in the data folder are not in a database: back up that folder too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline db backup --data ./bowline-data --to monday.db
  bowline db backup --config server-config.yaml --to /backup/bowline.dump --force")]
pub struct BackupArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    pub force: bool,
    /// Print what was written as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
pub struct BackupView {
    pub database: String,
    pub to: String,
    pub bytes: u64,
    pub took_ms: u64,
}

pub(crate) fn show(backup: &BackupView, json: bool) -> Result<Exit, CliError> {
    if json {
        put_json(backup)?;
    } else {
        put(&line(backup))?;
    }
    Ok(Exit::Success)
}

/// How far it has got.
pub fn backup_progress(written: u64, whole: Option<u64>) -> String {
    match whole {
        Some(whole) => format!("{} of about {} written", size(written), size(whole)),
        None => format!("{} written", size(written)),
    }
}

fn line(backup: &BackupView) -> String {
    let BackupView { database, to, bytes, took_ms } = backup;
    let seconds = *took_ms as f64 / 1_000.0;
    format!("{database}: {} written to {to} and read back, in {seconds:.1} s", size(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_much_and_where_to() {
        let backup = BackupView { database: "db".to_owned(), to: "file".to_owned(), bytes: 2 << 20, took_ms: 1_234 };
        assert_eq!(line(&backup), "db: 2.0 MiB written to file and read back, in 1.2 s");
        assert_eq!(backup_progress(1 << 20, Some(3 << 20)), "1.0 MiB of about 3.0 MiB written");
        assert_eq!(backup_progress(7, None), "7 bytes written");
    }
}
