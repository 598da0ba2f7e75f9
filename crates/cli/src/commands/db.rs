//! `bowline db`: the store. What is old goes through the server that runs on it, or, where none does, by hand.

mod backup;
mod check;
mod copy;
mod migrate;
mod place;
mod restored;

use std::time::Duration;

use api::{PruneRequest, Pruned};
use clap::{Args, Subcommand};
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

pub(crate) use backup::show as show_backup;
pub use backup::{BackupArgs, BackupView, backup_progress};
pub(crate) use check::show as show_checked;
pub use check::{CheckArgs, CheckView, Checked, FoundView, GradeView};
pub(crate) use copy::show as show_copy;
pub use copy::{CopiedTable, CopyArgs, CopyView};
pub(crate) use migrate::show as show_migrated;
pub use migrate::{MigrateArgs, MigratedView};
pub use place::PlaceArgs;
pub(crate) use restored::show as show_restored;
pub use restored::{RestoredArgs, RestoredView};

/// How often a server is asked how far it has got.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// After so many times somebody is told.
const TELL_EVERY: u32 = 20;

/// Look after the database
#[derive(Debug, Args)]
pub struct DbArgs {
    #[command(subcommand)]
    pub command: DbCommand,
}

#[derive(Debug, Subcommand)]
pub enum DbCommand {
    Prune(PruneArgs),
    Check(CheckArgs),
    Migrate(MigrateArgs),
    Backup(BackupArgs),
    Copy(CopyArgs),
    Restored(RestoredArgs),
}

/// Delete what is old, now
///
/// Jobs that are over, with their logs and all else that is theirs, logs, and workers that were not seen for long: what
/// `retention` in the server's config says, or what `--older-than` says. A server does this by itself once an hour. It is
/// asked to do it if one runs; with `--data`, `--config` or `--database` it is done here, and refused where a server runs on that database.
///
/// Jobs that are not over, that may still run somewhere, or that another one needs, stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline db prune --dry-run
  bowline db prune --older-than 7d
  bowline db prune --data ./bowline-data --compact
  bowline db prune --config server-config.yaml")]
pub struct PruneArgs {
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
    /// Jobs that ended longer ago, and their logs, whatever the config says
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<String>,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Give the space back to the disk afterwards; only of SQLite, and where no server runs
    #[arg(long, conflicts_with = "dry_run")]
    pub compact: bool,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Asks the server that runs, and waits for it.
pub(crate) async fn prune(client: &Client, args: &PruneArgs) -> Result<Exit, CliError> {
    if args.compact {
        let hint = "stop the server, and give `--data` or `--config`; until then the space is used again by new jobs";
        return Err(CliError::usage_hint("a database is compacted only while no server runs on it".to_owned(), hint));
    }
    let request = PruneRequest { dry_run: args.dry_run, older_than: args.older_than.clone() };
    let mut pruned = client.prune(&request).await?;
    let (started, mut asked) = (pruned.started_at, 0);
    while !args.dry_run && pruned.ended_at.is_none() {
        tokio::time::sleep(ASK_EVERY).await;
        let now = client.retention().await?;
        if now.started_at != started {
            return Err(CliError::usage(String::from("somebody else has asked for another run meanwhile")));
        }
        pruned = now;
        asked += 1;
        if asked % TELL_EVERY == 0 && pruned.ended_at.is_none() {
            say(&progress(&pruned));
        }
    }
    put_pruned(&pruned, args.json)?;
    Ok(Exit::Success)
}

/// How far it has got.
pub fn progress(pruned: &Pruned) -> String {
    format!("{} jobs so far, {} log lines", pruned.tally.jobs, pruned.tally.log_lines)
}

pub(crate) fn put_pruned(pruned: &Pruned, json: bool) -> Result<(), CliError> {
    if json {
        return put_json(pruned);
    }
    let tally = &pruned.tally;
    let did = if pruned.dry_run { "would delete" } else { "deleted" };
    put(&format!(
        "{did} {} with {}, {} ({}), {}",
        counted(tally.jobs, "job"),
        counted(tally.attempts, "attempt"),
        counted(tally.log_lines, "log line"),
        size(tally.log_bytes),
        counted(tally.workers, "worker"),
    ))?;
    if tally.logs > 0 {
        say(&format!("of these, {} of jobs that stay", counted(tally.logs, "log")));
    }
    if tally.words + tally.quarantined > 0 {
        let (words, events) = (counted(tally.words, "message"), counted(tally.quarantined, "event"));
        say(&format!("and {words} to the outside and {events} set aside that belong to no job"));
    }
    let kept = &tally.kept;
    for (count, why) in [
        (kept.needed, "not over, or needed by one that is not"),
        (kept.in_doubt, "may still run somewhere: `bowline why ID` says where"),
        (kept.under_way, "a log, a webhook or a worker's report is still under way"),
    ] {
        if count > 0 {
            say(&format!("kept {} that would be old enough: {why}", counted(count, "job")));
        }
    }
    Ok(())
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

fn duration(text: &str) -> Result<String, String> {
    spec::parse_duration(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_are_said_as_people_say_them() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "job")), ["0 jobs", "1 job", "2 jobs"]);
        assert_eq!(
            [0, 1023, 1536, 5 << 20, 3 << 30].map(size),
            ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 MiB", "3.0 GiB"]
        );
    }
}
