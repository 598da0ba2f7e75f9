//! All of another store's database into an empty one of ours: one transaction, which stays open until both sides were compared.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use store::StoreError;
use store::copy::{Cell, Column, Digest, Kind, Row, TABLES, Table};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use crate::driver::wait;
use crate::migrate;
use crate::place::Place;
use crate::session::{Failure, Session};
use crate::values::{Read, get};

/// For each step of it. Somebody waits for it and can end it; this is for a database that went away without a word.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Whole tables are written and read, and the other side may take its time in between.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '1h'";

/// An empty database that is being filled. Nobody else can write to it, and until [`Import::commit`] nobody sees anything of it.
pub struct Import {
    session: Session,
    place: Place,
}

impl Import {
    /// Makes the tables if there are none. An error if there is anything in them.
    pub fn open(url: &str) -> Result<Import, StoreError> {
        let place = Place::new(url, false)?;
        let mut session = place.connect_first()?;
        migrate::open(&mut session, &place, &migrate::log)?;
        let mut import = Import { session, place };
        import.work(async |session, place| {
            session.client.batch_execute(BEGIN).await.map_err(Failure::Postgres)?;
            lock(session).await?;
            find_empty(session, place).await?;
            // As a new database has them; the installation brings its own.
            session.client.batch_execute("DELETE FROM counters").await.map_err(Failure::Postgres)
        })?;
        Ok(import)
    }

    pub fn write(&mut self, table: &Table, rows: &[Row]) -> Result<(), StoreError> {
        self.work(async |session, _| write(session, table, rows).await.map_err(Failure::Postgres))
    }

    /// What has arrived, read back in the order of its key.
    pub fn digest(&mut self, table: &Table) -> Result<Digest, StoreError> {
        self.work(async |session, _| digest(session, table).await)
    }

    /// From here on it is a database as servers have it.
    pub fn commit(mut self) -> Result<(), StoreError> {
        self.work(async |session, _| {
            // Not part of any transaction, so it comes last; a number that is left out harms nobody.
            let numbers =
                "SELECT setval(pg_get_serial_sequence('quarantine', 'id'), max(id)) FROM quarantine HAVING max(id) > 0";
            session.client.batch_execute(&format!("{numbers}; COMMIT")).await.map_err(Failure::Postgres)?;
            // Whoever asks next should not have to guess how large tables are that were empty a moment ago.
            session.client.batch_execute("ANALYZE").await.map_err(Failure::Postgres)
        })
    }

    fn work<T>(&mut self, work: impl AsyncFnOnce(&mut Session, &Place) -> Result<T, Failure>) -> Result<T, StoreError> {
        match wait(PATIENCE, work(&mut self.session, &self.place)) {
            Some(outcome) => outcome.map_err(|failure| failure.into_store(&self.place.name)),
            None => Err(self.place.unavailable("no answer")),
        }
    }
}

/// A server that is started on it meanwhile waits, or says that it does.
async fn lock(session: &mut Session) -> Result<(), Failure> {
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let statement = format!("LOCK TABLE {} IN EXCLUSIVE MODE", names.join(", "));
    session.client.batch_execute(&statement).await.map_err(Failure::Postgres)
}

async fn find_empty(session: &mut Session, place: &Place) -> Result<(), Failure> {
    for table in TABLES {
        // Counters of a new database are there, and stand at 0.
        let keep = if table.name == "counters" { "value <> 0" } else { table.keep.unwrap_or("true") };
        let statement = format!("SELECT EXISTS (SELECT 1 FROM {} WHERE {keep})", table.name);
        let row = session.client.query_one(&statement, &[]).await.map_err(Failure::Postgres)?;
        if get(&row, 0)? {
            let message = format!(
                "{} is not empty: there are rows in `{}`; a copy goes into a new database, on which no server has run yet \
                 (CREATE DATABASE …)",
                place.name, table.name
            );
            return Err(Failure::Store(StoreError::Refused { message }));
        }
    }
    Ok(())
}

async fn write(session: &mut Session, table: &Table, rows: &[Row]) -> Result<(), tokio_postgres::Error> {
    let statement = format!("COPY {} ({}) FROM STDIN BINARY", table.name, table.names());
    let kinds: Vec<Type> = table.columns.iter().map(|column| kind(column.kind)).collect();
    let sink = session.client.copy_in::<_, Bytes>(statement.as_str()).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &kinds));
    for row in rows {
        let values: Vec<Box<dyn ToSql + Sync + Send + '_>> =
            row.iter().zip(table.columns).map(|(cell, column)| value(cell, column.kind)).collect();
        writer.as_mut().write_raw(values.iter().map(|value| &**value as &dyn ToSql)).await?;
    }
    writer.finish().await.map(drop)
}

fn kind(kind: Kind) -> Type {
    match kind {
        Kind::Id => Type::UUID,
        Kind::Number => Type::INT8,
        Kind::Small => Type::INT4,
        Kind::Flag => Type::BOOL,
        Kind::Text => Type::TEXT,
        Kind::Bytes => Type::BYTEA,
    }
}

/// Even nothing has the type of its column.
fn value(cell: &Cell, kind: Kind) -> Box<dyn ToSql + Sync + Send + '_> {
    match (cell, kind) {
        (Cell::Id(id), _) => Box::new(id),
        (Cell::Number(number), _) => Box::new(number),
        (Cell::Small(number), _) => Box::new(number),
        (Cell::Flag(flag), _) => Box::new(flag),
        (Cell::Text(text), _) => Box::new(text),
        (Cell::Bytes(bytes), _) => Box::new(bytes),
        (Cell::Nothing, Kind::Id) => Box::new(None::<uuid::Uuid>),
        (Cell::Nothing, Kind::Number) => Box::new(None::<i64>),
        (Cell::Nothing, Kind::Small) => Box::new(None::<i32>),
        (Cell::Nothing, Kind::Flag) => Box::new(None::<bool>),
        (Cell::Nothing, Kind::Text) => Box::new(None::<String>),
        (Cell::Nothing, Kind::Bytes) => Box::new(None::<Vec<u8>>),
    }
}

async fn digest(session: &mut Session, table: &Table) -> Result<Digest, Failure> {
    let nothing: [&(dyn ToSql + Sync); 0] = [];
    let asked = session.client.query_raw(table.postgres_query().as_str(), nothing).await;
    let (mut rows, mut digest) = (pin!(asked.map_err(Failure::Postgres)?), Digest::default());
    while let Some(row) = rows.as_mut().try_next().await.map_err(Failure::Postgres)? {
        let cell = |(index, column): (usize, &Column)| cell(&row, index, column.kind);
        let cells: Row = table.columns.iter().enumerate().map(cell).collect::<Read<_>>()?;
        digest.add(&cells);
    }
    Ok(digest)
}

fn cell(row: &tokio_postgres::Row, index: usize, kind: Kind) -> Read<Cell> {
    let found = match kind {
        Kind::Id => get::<Option<_>>(row, index)?.map(Cell::Id),
        Kind::Number => get::<Option<_>>(row, index)?.map(Cell::Number),
        Kind::Small => get::<Option<_>>(row, index)?.map(Cell::Small),
        Kind::Flag => get::<Option<_>>(row, index)?.map(Cell::Flag),
        Kind::Text => get::<Option<_>>(row, index)?.map(Cell::Text),
        Kind::Bytes => get::<Option<_>>(row, index)?.map(Cell::Bytes),
    };
    Ok(found.unwrap_or(Cell::Nothing))
}
