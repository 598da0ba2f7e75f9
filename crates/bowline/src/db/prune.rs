//! `bowline db prune`: a server is asked to do it; a database that is named, and that no server has, is done here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ::server::clock::Clock;
use ::server::retention::{Cutoffs, Progress, RetentionRules, Run, estimate, give_back, take_over};
use cli::ConnectArgs;
use cli::db::PruneArgs;
use spec::config::server::ServerConfig;
use store::{Store, StoreError, Tenure};
use store_postgres::{Options, PostgresStore};
use store_sqlite::SqliteStore;

use crate::Failed;

use super::TELL_EVERY;
use super::place::Place;

/// A server that makes no mark for so long is not there. Those that are make one every two seconds at least.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// How often it is looked for one.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: &PruneArgs, before: &ConnectArgs) -> ExitCode {
    let place = &args.place;
    if place.data.is_none() && place.config.is_none() && place.database.is_none() {
        return cli::prune(args, before).await.into();
    }
    match by_hand(args) {
        Ok(Some(progress)) => cli::show_pruned(&::server::http::shown(progress, args.dry_run), args.json).into(),
        // Which server would be asked is said elsewhere, and it may be that of another installation.
        Ok(None) => Failed::usage(
            "a server runs on this database: ask that one, with `--server` and without `--data`, `--config` and `--database`",
        )
        .tell(),
        Err(failed) => failed.tell(),
    }
}

/// None if a server has the database.
fn by_hand(args: &PruneArgs) -> Result<Option<Progress>, Failed> {
    let (place, config) = Place::with_config(&args.place)?;
    match &place {
        Place::Sqlite(path) => in_a_file(path, &config, args),
        Place::Postgres(url) => shared(url, &place, &config, args),
    }
}

fn in_a_file(path: &Path, config: &ServerConfig, args: &PruneArgs) -> Result<Option<Progress>, Failed> {
    let mut store = match SqliteStore::open(path) {
        Ok(store) => store,
        Err(StoreError::InUse { .. }) => return Ok(None),
        Err(error) => return Err(Failed::of_work(error)),
    };
    let progress = prune(&mut store, &rules(config), args, None).map_err(Failed::of_work)?;
    if args.compact {
        compact(&mut store, path)?;
    }
    Ok(Some(progress))
}

fn shared(url: &str, place: &Place, config: &ServerConfig, args: &PruneArgs) -> Result<Option<Progress>, Failed> {
    if args.compact {
        return Err(Failed::usage("`--compact` is for SQLite: PostgreSQL gives room back by its own VACUUM"));
    }
    let pooled = config.postgres.pooled;
    // Opening would make a database of an empty one.
    if store_postgres::outlook(url, pooled).map_err(Failed::of_store)?.from == 0 {
        return Err(Failed::usage(format!("there is no database of Bowline at {place}: it is empty")));
    }
    let options = Options { pooled, ..Options::default() };
    let mut store = PostgresStore::open_with(url, &options).map_err(Failed::of_store)?;
    if is_served(&mut store).map_err(Failed::of_work)? {
        return Ok(None);
    }
    let under = if args.dry_run { None } else { take_over(&mut store).map_err(Failed::of_work)? };
    let pruned = prune(&mut store, &rules(config), args, under);
    if let Some(tenure) = under {
        give_back(&mut store, tenure).map_err(Failed::of_work)?;
    }
    match pruned {
        Ok(progress) => Ok(Some(progress)),
        Err(StoreError::Moved { .. }) => {
            let what = "a server was started on this database meanwhile; it deletes what is old by itself";
            Err(Failed::other(format!("{place}: {what}")))
        }
        Err(error) => Err(Failed::of_work(error)),
    }
}

/// Whether some server makes its marks. One that was killed a moment ago does not, and is waited for until that is certain.
fn is_served(store: &mut PostgresStore) -> Result<bool, StoreError> {
    let (reader, begun, mut first) = (store.reader(), Instant::now(), None);
    loop {
        let now = store.clock()?.unwrap_or_default();
        let here = reader.servers()?.into_iter().filter(|row| row.left_at.is_none());
        let marks: BTreeMap<_, _> = here.map(|row| (row.id, row.beat_at)).collect();
        if marks.values().all(|mark| now.since(*mark) >= GONE_AFTER) {
            return Ok(false);
        }
        let first = first.get_or_insert_with(|| marks.clone());
        if marks.iter().any(|(server, mark)| first.get(server) != Some(mark)) {
            return Ok(true);
        }
        if begun.elapsed() >= GONE_AFTER {
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn rules(config: &ServerConfig) -> RetentionRules {
    RetentionRules {
        jobs: config.retention.jobs,
        logs: config.retention.logs,
        workers: config.retention.workers,
        ..RetentionRules::default()
    }
}

fn prune(
    store: &mut dyn Store,
    rules: &RetentionRules,
    args: &PruneArgs,
    under: Option<Tenure>,
) -> Result<Progress, StoreError> {
    let reader = store.reader();
    // The installation's time never goes back, whatever this machine's clock says.
    let hearing = reader.hearing()?;
    let mark = hearing.map(|row| row.mark_at).unwrap_or_default();
    let heard = hearing.map(|row| row.heard()).unwrap_or_default();
    let clock = Clock::starting_at(mark);
    let now = store.clock()?.map_or_else(|| clock.now(), |common| common.max(mark));
    let age = args.older_than.as_deref().and_then(|text| spec::parse_duration(text).ok());
    let cutoffs = rules.cutoffs(now, heard);
    let cutoffs: Cutoffs = age.map_or(cutoffs, |age| cutoffs.older_than(now - age));
    if args.dry_run {
        let tally = estimate(&*reader, cutoffs, &|_| false)?;
        return Ok(Progress { tally, ..Progress::default() });
    }
    let (mut run, started_at, begun, mut told) = (Run::new(cutoffs), Some(now), Instant::now(), Instant::now());
    while !run.step(store, now, under, &|_| false)?.done {
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let progress = Progress { started_at, ended_at: None, tally: run.tally };
            eprintln!("{}", cli::db::progress(&::server::http::shown(progress, false)));
        }
    }
    Ok(Progress { started_at, ended_at: Some(now + begun.elapsed()), tally: run.tally })
}

/// Writes the database anew, without the pages that are free.
fn compact(store: &mut SqliteStore, path: &Path) -> Result<(), Failed> {
    let size = || std::fs::metadata(path).map_or(0, |file| file.len());
    let before = size();
    store.compact().map_err(Failed::of_work)?;
    eprintln!("{}: {before} bytes before, {} after", path.display(), size());
    Ok(())
}
