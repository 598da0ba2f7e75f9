//! Appending to attempts' logs: without a gap, and without minding repeats.

use engine::AttemptId;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use store::LogAppend;
use store::read::LogState;

use crate::commit::{Failure, refused};
use crate::sql;
use crate::values::{signed, unsigned};

pub(crate) fn append(tx: &Transaction<'_>, appends: &[LogAppend]) -> Result<(), Failure> {
    if appends.is_empty() {
        return Ok(());
    }
    let mut state_of = tx.prepare_cached(sql::LOG_STATE)?;
    let mut put_state = tx.prepare_cached(sql::PUT_LOG_STATE)?;
    let mut add_chunk = tx.prepare_cached(sql::ADD_LOG_CHUNK)?;
    for append in appends {
        let key = append.attempt.0.as_bytes();
        let stored = state_of.query_row([key], state).optional()?.unwrap_or_default();
        let next = match judge(stored, append)? {
            Verdict::Nothing => continue,
            Verdict::Flag(next) => next,
            Verdict::Chunk(next) => {
                add_chunk.execute(params![key, signed(append.first_seq)?, signed(append.last_seq)?, append.blocks])?;
                next
            }
        };
        put_state.execute(params![key, signed(next.last_seq)?, next.complete])?;
    }
    Ok(())
}

pub(crate) fn state(row: &Row<'_>) -> rusqlite::Result<LogState> {
    Ok(LogState { last_seq: unsigned(row, 0)?, complete: row.get(1)? })
}

enum Verdict {
    /// It is all there already.
    Nothing,
    Flag(LogState),
    Chunk(LogState),
}

/// What an append does to a log that stands at `stored`.
///
/// Lines after the word that the log is whole are kept: they open it again unless they say the same.
fn judge(stored: LogState, append: &LogAppend) -> Result<Verdict, Failure> {
    let LogAppend { attempt, first_seq, last_seq, blocks, missing, complete } = append;
    let before = first_seq.checked_sub(1);
    if before.is_none_or(|before| before > *last_seq || (before == *last_seq) != blocks.is_empty()) {
        let bytes = blocks.len();
        return Err(refused(format!(
            "log of attempt {attempt}: lines {first_seq} to {last_seq} in {bytes} bytes are no piece of a log"
        )));
    }
    if *last_seq > stored.last_seq && *first_seq != (stored.last_seq + 1).saturating_add(*missing) {
        return Err(misplaced(*attempt, stored.last_seq, *first_seq, *last_seq));
    }
    Ok(if *last_seq > stored.last_seq && blocks.is_empty() {
        Verdict::Flag(LogState { last_seq: *last_seq, complete: *complete })
    } else if *last_seq > stored.last_seq {
        Verdict::Chunk(LogState { last_seq: *last_seq, complete: *complete })
    } else if *complete && !stored.complete && *last_seq == stored.last_seq {
        Verdict::Flag(LogState { complete: true, ..stored })
    } else {
        Verdict::Nothing
    })
}

fn misplaced(attempt: AttemptId, stored: u64, first: u64, last: u64) -> Failure {
    refused(format!("log of attempt {attempt}: lines {first} to {last} do not follow line {stored}"))
}
