//! Appending to attempts' logs: without a gap, and without minding repeats.

use rusqlite::{Row, Transaction, params};
use store::append::{Verdict, judge};
use store::read::{LogMarkView, LogState};
use store::{Batch, DueLog, LogAppend};

use crate::commit::Failure;
use crate::sql;
use crate::values::{self, signed, unsigned};

/// Everything of a batch that concerns logs. Deadlines come after the lines: a log that is whole needs none.
pub(crate) fn write(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    marks(tx, batch)?;
    append(tx, &batch.logs)?;
    deadlines(tx, batch)?;
    closes(tx, batch)
}

fn append(tx: &Transaction<'_>, appends: &[LogAppend]) -> Result<(), Failure> {
    if appends.is_empty() {
        return Ok(());
    }
    let mut state_of = tx.prepare_cached(sql::LOG_STATE)?;
    let mut put_state = tx.prepare_cached(sql::PUT_LOG_STATE)?;
    let mut add_chunk = tx.prepare_cached(sql::ADD_LOG_CHUNK)?;
    for append in appends {
        let key = append.attempt.0.as_bytes();
        let stored = state_of.query_row([key], state)?;
        let next = match judge(stored, append)? {
            Verdict::Nothing => continue,
            Verdict::Flag(next) => next,
            Verdict::Chunk(next) => {
                add_chunk.execute(params![key, signed(append.first_seq)?, signed(append.last_seq)?, append.blocks])?;
                next
            }
        };
        put_state.execute(params![key, signed(next.last_seq)?, next.complete])?;
        if stored.closed {
            // It was called lost, and came after all.
            tx.prepare_cached(sql::DROP_CLOSING_MARK)?.execute([key])?;
        }
    }
    Ok(())
}

fn marks(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    for mark in &batch.marks {
        let place = (mark.attempt.0.as_bytes(), signed(mark.after_seq)?);
        let mut add = tx.prepare_cached(sql::ADD_LOG_MARK)?;
        add.execute(params![place.0, place.1, mark.at.0, signed(mark.missing)?, false, mark.text])?;
    }
    Ok(())
}

fn deadlines(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    for deadline in &batch.log_deadlines {
        let end_seq = deadline.end_seq.map(signed).transpose()?;
        let mut put = tx.prepare_cached(sql::PUT_LOG_DEADLINE)?;
        put.execute(params![deadline.attempt.0.as_bytes(), deadline.close_at.0, end_seq])?;
    }
    Ok(())
}

fn closes(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    for close in &batch.log_closes {
        let key = close.attempt.0.as_bytes();
        let closed = tx.prepare_cached(sql::CLOSE_LOG)?.execute(params![key, close.text.is_some()])?;
        if let Some(text) = close.text.as_ref().filter(|_| closed > 0) {
            let mut add = tx.prepare_cached(sql::ADD_LOG_MARK)?;
            add.execute(params![key, signed(close.after_seq)?, batch.now.0, 0, true, text])?;
        }
    }
    Ok(())
}

pub(crate) fn state(row: &Row<'_>) -> rusqlite::Result<LogState> {
    let end_seq: Option<i64> = row.get(4)?;
    Ok(LogState {
        last_seq: unsigned(row, 0)?,
        complete: row.get(1)?,
        closed: row.get(2)?,
        announced: unsigned(row, 3)?,
        end_seq: end_seq.and_then(|seq| u64::try_from(seq).ok()),
    })
}

pub(crate) fn mark(row: &Row<'_>) -> rusqlite::Result<LogMarkView> {
    Ok(LogMarkView {
        after_seq: unsigned(row, 0)?,
        sub: row.get(1)?,
        at: values::time(row, 2)?,
        missing: unsigned(row, 3)?,
        closing: row.get(4)?,
        text: row.get(5)?,
    })
}

pub(crate) fn due(row: &Row<'_>) -> rusqlite::Result<DueLog> {
    let end_seq: Option<i64> = row.get(2)?;
    Ok(DueLog {
        attempt: values::attempt(row, 0)?,
        last_seq: unsigned(row, 1)?,
        end_seq: end_seq.and_then(|seq| u64::try_from(seq).ok()),
        worker: values::maybe_uuid(row, 3)?.map(engine::WorkerId),
    })
}
