//! All of a database that nobody uses, table by table, for another store.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use store::StoreError;
use store::check::behind;
use store::copy::{self, Cell, Column, Kind, Table};
use uuid::Uuid;

use crate::error::translate;
use crate::lock::ServerLock;
use crate::place::Place;
use crate::{migrate, writer};

/// So much is on its way at once, whichever is reached first. Chunks of logs are large, and most other rows are small.
const ROWS_MAX: usize = 2_000;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A database that is held still: no server can open it while this lives.
#[derive(Debug)]
pub struct Export {
    connection: Connection,
    place: Place,
    _lock: ServerLock,
}

impl Export {
    /// An error if a server has it, or if its schema is not this build's.
    pub fn open(path: &Path) -> Result<Export, StoreError> {
        let path = writer::canonical(path)?;
        let lock = ServerLock::take(&path)?;
        let place = Place::file(&path);
        let connection = place.open_reader()?;
        let missing = migrate::missing(&connection, &place.name, migrate::MIGRATIONS)?;
        if !missing.is_empty() {
            return Err(StoreError::Refused { message: format!("{}: {}", place.name, behind(&missing)) });
        }
        // One snapshot for all tables, whatever an operator's `sqlite3` does meanwhile.
        connection.execute_batch("BEGIN").map_err(|e| translate(&place.name, &e))?;
        Ok(Export { connection, place, _lock: lock })
    }

    /// Every row of the table, in the order of its key, some at a time.
    pub fn read(
        &self,
        table: &Table,
        take: &mut dyn FnMut(&[copy::Row]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let translated = |e| translate(&self.place.name, &e);
        let mut statement = self.connection.prepare(&table.sqlite_query()).map_err(translated)?;
        let (mut rows, mut held, mut size) = (statement.query([]).map_err(translated)?, Vec::new(), 0);
        while let Some(row) = rows.next().map_err(translated)? {
            let cells = self.cells(table, row)?;
            size += cells.iter().map(Cell::size).sum::<usize>();
            held.push(cells);
            if held.len() >= ROWS_MAX || size >= BYTES_MAX {
                take(&held)?;
                held.clear();
                size = 0;
            }
        }
        if held.is_empty() { Ok(()) } else { take(&held) }
    }

    fn cells(&self, table: &Table, row: &Row<'_>) -> Result<copy::Row, StoreError> {
        let read = |(index, column): (usize, &Column)| {
            let value = row.get_ref(index).map_err(|e| translate(&self.place.name, &e))?;
            cell(column.kind, value).ok_or_else(|| StoreError::Damaged {
                path: self.place.name.to_string(),
                message: format!("{}.{} holds what does not belong there: {value:?}", table.name, column.name),
            })
        };
        table.columns.iter().enumerate().map(read).collect()
    }
}

/// None where the value is not what the column should hold. SQLite itself lets any column hold anything.
fn cell(kind: Kind, value: ValueRef<'_>) -> Option<Cell> {
    Some(match (kind, value) {
        (_, ValueRef::Null) => Cell::Nothing,
        (Kind::Id, ValueRef::Blob(bytes)) => Cell::Id(Uuid::from_slice(bytes).ok()?),
        (Kind::Number, ValueRef::Integer(number)) => Cell::Number(number),
        (Kind::Small, ValueRef::Integer(number)) => Cell::Small(i32::try_from(number).ok()?),
        (Kind::Flag, ValueRef::Integer(number @ (0 | 1))) => Cell::Flag(number == 1),
        (Kind::Text, ValueRef::Text(bytes)) => Cell::Text(copy::storable(str::from_utf8(bytes).ok()?).into_owned()),
        (Kind::Bytes, ValueRef::Blob(bytes)) => Cell::Bytes(bytes.to_owned()),
        (Kind::Id | Kind::Number | Kind::Small | Kind::Flag | Kind::Text | Kind::Bytes, _) => return None,
    })
}
