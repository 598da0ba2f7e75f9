//! Servers among themselves: who is here, and the mark that they share.

use engine::Time;
use store::rows::{ServerId, ServerRow};
use store::{Mark, StoreError};

use crate::tables::{Counter, GENERATIONS_COUNTER, Tables, countable};

/// Writes a mark, unless there is another one than it was made after. Returns whether all is well.
pub(crate) fn mark(tables: &mut Tables, mark: Option<Mark>) -> bool {
    let Some(Mark { row, expected }) = mark else { return true };
    if tables.hearing.get(&()).copied() != expected {
        return false;
    }
    tables.hearing.put((), row);
    true
}

pub(crate) fn register(tables: &mut Tables, server: &ServerRow, stale_before: Time) -> Result<u64, StoreError> {
    let generation = tables.counters.get(&GENERATIONS_COUNTER).map_or(0, |counter| counter.0) + 1;
    tables.counters.put(GENERATIONS_COUNTER, Counter(generation));
    let stale = tables.servers.iter().filter(|(_, row)| row.beat_at < stale_before);
    let stale: Vec<ServerId> = stale.map(|(id, _)| *id).collect();
    stale.into_iter().for_each(|id| tables.servers.remove(id));
    put(tables, &ServerRow { generation, ..server.clone() })?;
    Ok(generation)
}

/// A start's generation and time never change.
pub(crate) fn put(tables: &mut Tables, server: &ServerRow) -> Result<(), StoreError> {
    countable(server.generation)?;
    let row = match tables.servers.get(&server.id) {
        None => server.clone(),
        Some(old) => ServerRow { generation: old.generation, started_at: old.started_at, ..server.clone() },
    };
    tables.servers.put(row.id, row);
    Ok(())
}
