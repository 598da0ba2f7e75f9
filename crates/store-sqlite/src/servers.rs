//! Servers among themselves: who is here, and the mark that they share.

use engine::{Heard, Time};
use rusqlite::{OptionalExtension, Row, Transaction, params};
use store::Batch;
use store::rows::{HearingRow, ServerId, ServerRow};

use crate::commit::{Failure, counter, put_counter};
use crate::sql;
use crate::values::{self, micros, signed};

/// The counter that generations come from.
const GENERATIONS_COUNTER: &str = "server";

/// Writes the batch's mark, unless there is another one than it was made after. Returns whether all is well.
pub(crate) fn mark(tx: &Transaction<'_>, batch: &Batch) -> Result<bool, Failure> {
    let Some(mark) = &batch.hearing else { return Ok(true) };
    if tx.prepare_cached(sql::HEARING)?.query_row([], hearing_row).optional()? != mark.expected {
        return Ok(false);
    }
    let row = &mark.row;
    tx.prepare_cached(sql::PUT_HEARING)?.execute(params![
        row.mark_at.0,
        row.deaf_us,
        row.stretch_from.0,
        row.unsettled_since.map(|h| h.0),
        row.verdicts_from.0,
        row.alarmed,
    ])?;
    Ok(true)
}

pub(crate) fn register(tx: &Transaction<'_>, server: &ServerRow, stale_before: Time) -> Result<u64, Failure> {
    let generation = counter(tx, GENERATIONS_COUNTER)? + 1;
    put_counter(tx, GENERATIONS_COUNTER, generation)?;
    tx.prepare_cached(sql::PRUNE_SERVERS)?.execute([stale_before.0])?;
    put(tx, Some(&ServerRow { generation, ..server.clone() }))?;
    Ok(generation)
}

pub(crate) fn put(tx: &Transaction<'_>, server: Option<&ServerRow>) -> Result<(), Failure> {
    if let Some(server) = server {
        tx.prepare_cached(sql::PUT_SERVER)?.execute(params![
            server.id.0.as_bytes(),
            signed(server.generation)?,
            server.address,
            server.started_at.0,
            server.beat_at.0,
            server.beat_heard.0,
            micros(server.left_at),
        ])?;
    }
    Ok(())
}

pub(crate) fn hearing_row(row: &Row<'_>) -> rusqlite::Result<HearingRow> {
    Ok(HearingRow {
        mark_at: values::time(row, 0)?,
        deaf_us: row.get(1)?,
        stretch_from: row.get(2).map(Heard)?,
        unsettled_since: row.get::<_, Option<i64>>(3)?.map(Heard),
        verdicts_from: row.get(4).map(Heard)?,
        alarmed: row.get(5)?,
    })
}

pub(crate) fn server_row(row: &Row<'_>) -> rusqlite::Result<ServerRow> {
    Ok(ServerRow {
        id: ServerId(values::uuid(row, 0)?),
        generation: values::unsigned(row, 1)?,
        address: row.get(2)?,
        started_at: values::time(row, 3)?,
        beat_at: values::time(row, 4)?,
        beat_heard: row.get(5).map(Heard)?,
        left_at: values::maybe_time(row, 6)?,
    })
}
