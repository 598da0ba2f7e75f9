//! `bowline db migrate`: what opening a store does to its schema, and nothing else.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cli::db::{MigrateArgs, MigratedView};
use store::{Migrated, StoreError};

use crate::Failed;

use super::check::millis;
use super::place::Place;

/// How often, and how long apart, a file that somebody else has is tried again: that may be another one who migrates it.
const IN_USE_TRIES: u32 = 50;
const IN_USE_PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &MigrateArgs) -> ExitCode {
    match migrated(args) {
        Ok(migrated) => cli::show_migrated(&migrated, args.json).into(),
        Err(failed) => failed.tell(),
    }
}

fn migrated(args: &MigrateArgs) -> Result<MigratedView, Failed> {
    let (place, config) = Place::with_config(&args.place)?;
    let begun = Instant::now();
    let migrated = match &place {
        Place::Sqlite(path) => alone(path),
        Place::Postgres(url) => store_postgres::migrate(url, config.postgres.pooled, &|why| eprintln!("{why}")),
    };
    let Migrated { from, to } = migrated.map_err(Failed::of_store)?;
    Ok(MigratedView { database: place.to_string(), from, to, took_ms: millis(begun.elapsed()) })
}

/// A server that runs on it is no hindrance where there is nothing to do.
fn alone(path: &Path) -> Result<Migrated, StoreError> {
    let mut tries = 0;
    loop {
        let in_use = match store_sqlite::migrate(path) {
            Err(error @ StoreError::InUse { .. }) => error,
            done => return done,
        };
        let outlook = store_sqlite::outlook(path)?;
        if outlook.from == outlook.to {
            return Ok(outlook);
        }
        if tries >= IN_USE_TRIES {
            return Err(in_use);
        }
        tries += 1;
        std::thread::sleep(IN_USE_PAUSE);
    }
}
