//! `bowline db`: through the server that runs, or, where none does, on the database itself.

mod backup;
mod check;
mod copy;
mod migrate;
mod part;
mod place;
mod restored;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ::server::clock::Clock;
use ::server::retention::{Progress, RetentionRules, Run, estimate};
use cli::ConnectArgs;
use cli::db::{DbArgs, DbCommand, PruneArgs};
use spec::config::server::Database;
use store::{Store, StoreError};
use store_sqlite::SqliteStore;

use crate::Failed;
use crate::server::read_config;

/// How often somebody who waits is told how far it has got.
const TELL_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: DbArgs, before: &ConnectArgs) -> ExitCode {
    match args.command {
        DbCommand::Prune(args) => pruned(&args, before).await,
        DbCommand::Check(args) => check::run(&args),
        DbCommand::Migrate(args) => migrate::run(&args),
        DbCommand::Backup(args) => backup::run(&args),
        DbCommand::Copy(args) => copy::run(&args),
        DbCommand::Restored(args) => restored::run(&args),
    }
}

async fn pruned(args: &PruneArgs, before: &ConnectArgs) -> ExitCode {
    if args.data.is_none() && args.config.is_none() {
        return cli::prune(args, before).await.into();
    }
    match by_hand(args) {
        Ok(Some(progress)) => cli::show_pruned(&::server::http::shown(progress, args.dry_run), args.json).into(),
        Ok(None) => {
            eprintln!("a server runs on this database; it is asked to do it");
            cli::prune(args, before).await.into()
        }
        Err(failed) => failed.tell(),
    }
}

/// None if a server has the database.
fn by_hand(args: &PruneArgs) -> Result<Option<Progress>, Failed> {
    let config = read_config(args.config.as_deref())?;
    let data = args.data.clone().unwrap_or_else(|| PathBuf::from(&config.data));
    let path = match &config.database {
        Database::Sqlite(None) => data.join("bowline.db"),
        Database::Sqlite(Some(path)) => PathBuf::from(path),
        Database::Postgres(_) => return Err(Failed::usage("`database: postgres://…` is not supported yet")),
    };
    if !path.exists() {
        return Err(Failed::usage(format!("there is no database at {}", path.display())));
    }
    let mut store = match SqliteStore::open(&path) {
        Ok(store) => store,
        Err(StoreError::InUse { .. }) => return Ok(None),
        Err(error) => return Err(Failed::other(error)),
    };
    let rules = RetentionRules {
        jobs: config.retention.jobs,
        logs: config.retention.logs,
        workers: config.retention.workers,
        ..RetentionRules::default()
    };
    let progress = prune(&mut store, &rules, args).map_err(Failed::other)?;
    if args.compact {
        compact(&mut store, &path)?;
    }
    Ok(Some(progress))
}

fn prune(store: &mut SqliteStore, rules: &RetentionRules, args: &PruneArgs) -> Result<Progress, StoreError> {
    let reader = store.reader();
    // The installation's time never goes back, whatever this machine's clock says.
    let clock = Clock::starting_at(reader.hearing()?.map(|row| row.mark_at).unwrap_or_default());
    let now = clock.now();
    let age = args.older_than.as_deref().and_then(|text| spec::parse_duration(text).ok());
    let cutoffs = rules.cutoffs(now);
    let cutoffs = age.map_or(cutoffs, |age| cutoffs.older_than(now - age));
    if args.dry_run {
        let tally = estimate(&*reader, cutoffs, &|_| false)?;
        return Ok(Progress { tally, ..Progress::default() });
    }
    let (mut run, started_at, mut told) = (Run::new(cutoffs), Some(now), Instant::now());
    while !run.step(store, now, None, &|_| false)?.done {
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let progress = Progress { started_at, ended_at: None, tally: run.tally };
            eprintln!("{}", cli::db::progress(&::server::http::shown(progress, false)));
        }
    }
    Ok(Progress { started_at, ended_at: Some(clock.now()), tally: run.tally })
}

/// Writes the database anew, without the pages that are free.
fn compact(store: &mut SqliteStore, path: &Path) -> Result<(), Failed> {
    let size = || std::fs::metadata(path).map_or(0, |file| file.len());
    let before = size();
    store.compact().map_err(Failed::other)?;
    eprintln!("{}: {before} bytes before, {} after", path.display(), size());
    Ok(())
}
