//! `bowline db copy`: all of a SQLite database into an empty PostgreSQL, and a comparison of both before anybody sees it.

use std::process::ExitCode;
use std::time::Instant;

use cli::db::{CopiedTable, CopyArgs, CopyView, PlaceArgs};
use store::StoreError;
use store::copy::{Digest, TABLES, Table};
use store_postgres::Import;
use store_sqlite::Export;

use crate::Failed;

use super::TELL_EVERY;
use super::check::{check, millis};
use super::place::Place;

/// How many of what a check finds are named.
const SHOWN: usize = 10;

pub(crate) fn run(args: &CopyArgs) -> ExitCode {
    match copied(args) {
        Ok(copy) => cli::show_copy(&copy, args.json).into(),
        Err(failed) => failed.tell(),
    }
}

fn copied(args: &CopyArgs) -> Result<CopyView, Failed> {
    let begun = Instant::now();
    let (from, to) = (Place::named(&args.from)?, target(args)?);
    let (path, url) = match (&from, &to) {
        (Place::Sqlite(path), Place::Postgres(url)) => (path, url),
        (Place::Sqlite(_) | Place::Postgres(_), _) => {
            return Err(Failed::usage(
                "a copy goes from `sqlite:PATH` to `postgres://…`; to copy a database as it is, use `bowline db backup`",
            ));
        }
    };
    let source = Export::open(path).map_err(Failed::of_store)?;
    let mut target = Import::open(url).map_err(Failed::of_store)?;
    let tables = TABLES.iter().map(|table| Ok((table, table_copied(table, &source, &mut target)?)));
    let tables = tables.collect::<Result<Vec<_>, StoreError>>().map_err(Failed::of_work)?;
    let tables = tables.into_iter().map(|(table, sent)| compared(table, &sent, &mut target));
    let tables = tables.collect::<Result<Vec<CopiedTable>, Failed>>()?;
    eprintln!("both sides are the same; committing");
    target.commit().map_err(Failed::of_work)?;
    let rows = tables.iter().map(|table| table.rows).sum();
    let check = check(&to, SHOWN)?;
    let took_ms = millis(begun.elapsed());
    Ok(CopyView { from: from.to_string(), to: to.to_string(), rows, took_ms, tables, check })
}

fn target(args: &CopyArgs) -> Result<Place, Failed> {
    match &args.to {
        Some(text) => Place::named(text),
        None => Place::direct(&PlaceArgs { config: args.to_config.clone(), ..PlaceArgs::default() }),
    }
}

/// What was sent.
fn table_copied(table: &Table, source: &Export, target: &mut Import) -> Result<Digest, StoreError> {
    let (mut sent, mut told) = (Digest::default(), Instant::now());
    source.read(table, &mut |rows| {
        rows.iter().for_each(|row| sent.add(row));
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            eprintln!("{}: {} rows so far", table.name, sent.rows);
        }
        target.write(table, rows)
    })?;
    eprintln!("{}: {} rows copied", table.name, sent.rows);
    Ok(sent)
}

/// What has arrived is what was sent.
fn compared(table: &Table, sent: &Digest, target: &mut Import) -> Result<CopiedTable, Failed> {
    let arrived = target.digest(table).map_err(Failed::of_work)?;
    if *sent == arrived {
        return Ok(CopiedTable { name: table.name, rows: sent.rows, hash: sent.hash() });
    }
    let found = match sent.rows == arrived.rows {
        true => format!("{} rows, not all of which are what was sent", arrived.rows),
        false => format!("{} rows arrived of {} that were sent", arrived.rows, sent.rows),
    };
    Err(Failed::other(format!(
        "the copy of table `{}` is not what the source is: {found}; nothing was kept. Does the new database have triggers or rules of its own?",
        table.name
    )))
}
