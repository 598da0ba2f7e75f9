//! `bowline db restored`: leaves the word in the database on which every server acts before it decides anything.

use std::process::ExitCode;

use ::server::clock::Clock;
use ::server::ledger::{Restored, say_restored};
use cli::db::{RestoredArgs, RestoredView};
use store::{Store, StoreError};
use store_postgres::{Options, PostgresStore};
use store_sqlite::SqliteStore;

use crate::Failed;

use super::place::Place;

pub(crate) fn run(args: &RestoredArgs) -> ExitCode {
    match restored(args) {
        Ok(restored) => cli::show_restored(&restored, args.json).into(),
        Err(failed) => failed.tell(),
    }
}

fn restored(args: &RestoredArgs) -> Result<RestoredView, Failed> {
    let (place, config) = Place::with_config(&args.place)?;
    let pooled = config.postgres.pooled;
    let outlook = match &place {
        Place::Sqlite(path) => store_sqlite::outlook(path),
        Place::Postgres(url) => store_postgres::outlook(url, pooled),
    };
    // Opening would make a database of an empty one.
    if outlook.map_err(Failed::of_store)?.from == 0 {
        return Err(Failed::usage(format!("there is no database of Bowline at {place}: it is empty")));
    }
    let said = match &place {
        Place::Sqlite(path) => SqliteStore::open(path).and_then(|mut store| say(&mut store)),
        Place::Postgres(url) => {
            let options = Options { pooled, ..Options::default() };
            PostgresStore::open_with(url, &options).and_then(|mut store| say(&mut store))
        }
    };
    match said.map_err(Failed::of_store)? {
        Some(Restored { at, open_jobs }) => Ok(RestoredView { database: place.to_string(), at: at.into(), open_jobs }),
        None => Err(Failed::usage(format!("no server has ever run on {place}: there is nothing that could be lost"))),
    }
}

/// By the clock that its servers have in common, where there is one.
fn say(store: &mut impl Store) -> Result<Option<Restored>, StoreError> {
    let clock = store.clock()?;
    say_restored(store, clock.unwrap_or_else(|| Clock::starting_at(Default::default()).now()))
}
