//! `bowline db restored`: what it takes, and how its answer reads.

use api::Timestamp;
use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

use super::counted;
use super::place::PlaceArgs;

/// Say that a database was restored, so that nothing unsafe runs twice
///
/// For a database that was put back from a backup, or that failed over to a replica which lacks the last commits: what happened since is not in it,
/// and a step that is to run by its record may have run already. Every step that is not over, and does something to the world (all but those
/// with `effects: none`), is held then, for the reason `restored`, at once or when its turn comes. Workers that still have it, or know how it ended, settle
/// it by themselves. For the rest a person finds out, and says: `bowline approve` runs it, `bowline resolve --succeeded` or `--failed` says what became of
/// it, `bowline reject` calls it off.
///
/// Say it before a server is started on the database. A SQLite database must not be in use; on PostgreSQL servers may run, and act on it within
/// seconds. Jobs that are submitted later are none of its business. To say it once more is to hold once more what is not over.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline db restored --data ./bowline-data
  bowline db restored --config server-config.yaml --json")]
pub struct RestoredArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Print what was said as JSON
    #[arg(long)]
    pub json: bool,
}

/// What was said, and of how much.
#[derive(Debug, Serialize)]
pub struct RestoredView {
    pub database: String,
    pub at: Timestamp,
    /// Jobs that are not over.
    pub open_jobs: usize,
}

pub(crate) fn show(restored: &RestoredView, json: bool) -> Result<Exit, CliError> {
    if json {
        put_json(restored)?;
    } else {
        put(&line(restored))?;
        say(
            "a server holds what may have run in the time that is lost before it does anything else: `bowline jobs --state held`",
        );
    }
    Ok(Exit::Success)
}

fn line(restored: &RestoredView) -> String {
    let RestoredView { database, at, open_jobs } = restored;
    format!("{database}: restored, as of {at}; {} not over", counted(*open_jobs as u64, "job"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_many_jobs_it_is_about() {
        let at: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let said = |open_jobs| line(&RestoredView { database: "db".to_owned(), at, open_jobs });
        assert_eq!(said(1), "db: restored, as of 2026-01-02T03:04:05Z; 1 job not over");
        assert_eq!(said(2), "db: restored, as of 2026-01-02T03:04:05Z; 2 jobs not over");
    }
}
