//! Appending to attempts' logs: without a gap, and without minding repeats.

use std::collections::{BTreeMap, BTreeSet};

use engine::{AttemptId, Time};
use store::append::{Verdict, judge};
use store::read::{LogMarkView, LogState};
use store::{Batch, DueLog, LogAppend, LogClose, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::commit::Writes;
use crate::hold::Held;
use crate::sql;
use crate::values::{self, Read, column, counted, get, maybe_text, maybe_unsigned, param, signed, texts, unsigned};

/// Everything of a batch that concerns logs. Deadlines come after the lines: a log that is whole needs none.
pub(crate) fn write<'a>(writes: &mut Writes<'a>, batch: &'a Batch, held: &Held) -> Result<(), StoreError> {
    marks(writes, batch)?;
    append(writes, &batch.logs, held)?;
    deadlines(writes, batch)?;
    closes(writes, batch)
}

fn append<'a>(writes: &mut Writes<'a>, appends: &'a [LogAppend], held: &Held) -> Result<(), StoreError> {
    let mut stands: BTreeMap<AttemptId, LogState> = BTreeMap::new();
    let (mut chunks, mut reopened) = (Vec::new(), BTreeSet::new());
    for append in appends {
        let key = append.attempt;
        let stored = stands.get(&key).or(held.logs.get(&key)).copied().unwrap_or_default();
        let next = match judge(stored, append)? {
            Verdict::Nothing => continue,
            Verdict::Flag(next) => next,
            Verdict::Chunk(next) => {
                chunks.push(append);
                next
            }
        };
        if stored.closed {
            // It was called lost, and came after all.
            reopened.insert(key.0);
        }
        stands.insert(key, next);
    }
    if !chunks.is_empty() {
        let params = vec![
            column(&chunks, |append| append.attempt.0),
            counted(&chunks, |append| signed(append.first_seq))?,
            counted(&chunks, |append| signed(append.last_seq))?,
            column(&chunks, |append| append.blocks.as_slice()),
        ];
        writes.train.add(sql::ADD_LOG_CHUNK, params);
    }
    if !stands.is_empty() {
        let new = stands.keys().filter(|key| !held.logs.contains_key(key)).count();
        let stands: Vec<(AttemptId, LogState)> = stands.into_iter().collect();
        let params = vec![
            column(&stands, |(attempt, _)| attempt.0),
            counted(&stands, |(_, state)| signed(state.last_seq))?,
            column(&stands, |(_, state)| state.complete),
        ];
        let place = writes.train.add(sql::PUT_LOG_STATE, params);
        writes.expect(place, new, "logs");
    }
    writes.train.add_if(!reopened.is_empty(), sql::DROP_CLOSING_MARK, || {
        vec![param(reopened.into_iter().collect::<Vec<Uuid>>())]
    });
    Ok(())
}

fn marks<'a>(writes: &mut Writes<'a>, batch: &'a Batch) -> Result<(), StoreError> {
    let rows = &batch.marks;
    let (after, missing) = (counted(rows, |mark| signed(mark.after_seq))?, counted(rows, |mark| signed(mark.missing))?);
    writes.train.add_if(!rows.is_empty(), sql::ADD_LOG_MARK, || {
        vec![
            column(rows, |mark| mark.attempt.0),
            after,
            column(rows, |mark| mark.at.0),
            missing,
            texts(rows.iter().map(|mark| &mark.text)),
        ]
    });
    Ok(())
}

fn deadlines(writes: &mut Writes<'_>, batch: &Batch) -> Result<(), StoreError> {
    // The last time counts, and the last line that anybody knew.
    let mut last: BTreeMap<AttemptId, (Time, Option<u64>)> = BTreeMap::new();
    for deadline in &batch.log_deadlines {
        let (close_at, end_seq) = last.entry(deadline.attempt).or_insert((deadline.close_at, None));
        *close_at = deadline.close_at;
        *end_seq = deadline.end_seq.or(*end_seq);
    }
    let rows: Vec<_> = last.into_iter().collect();
    let ends = counted(&rows, |(_, (_, end_seq))| end_seq.map(signed).transpose())?;
    writes.train.add_if(!rows.is_empty(), sql::PUT_LOG_DEADLINE, || {
        vec![column(&rows, |(attempt, _)| attempt.0), column(&rows, |(_, (close_at, _))| close_at.0), ends]
    });
    Ok(())
}

fn closes<'a>(writes: &mut Writes<'a>, batch: &'a Batch) -> Result<(), StoreError> {
    // After the first of each there is nothing left to close.
    let rows: BTreeMap<AttemptId, &LogClose> = batch.log_closes.iter().rev().map(|row| (row.attempt, row)).collect();
    let rows: Vec<_> = rows.into_values().collect();
    let after = counted(&rows, |close| signed(close.after_seq))?;
    writes.train.add_if(!rows.is_empty(), sql::CLOSE_LOG, || {
        let texts = column(&rows, |close| maybe_text(&close.text));
        vec![column(&rows, |close| close.attempt.0), after, texts, param(batch.now.0)]
    });
    Ok(())
}

pub(crate) fn state(row: &Row) -> Read<LogState> {
    Ok(LogState {
        last_seq: unsigned(row, 0)?,
        complete: get(row, 1)?,
        closed: get(row, 2)?,
        announced: unsigned(row, 3)?,
        end_seq: maybe_unsigned(row, 4)?,
    })
}

pub(crate) fn mark(row: &Row) -> Read<LogMarkView> {
    Ok(LogMarkView {
        after_seq: unsigned(row, 0)?,
        sub: values::small(row, 1)?,
        at: values::time(row, 2)?,
        missing: unsigned(row, 3)?,
        closing: get(row, 4)?,
        text: get(row, 5)?,
    })
}

pub(crate) fn due(row: &Row) -> Read<DueLog> {
    Ok(DueLog {
        attempt: values::attempt(row, 0)?,
        last_seq: unsigned(row, 1)?,
        end_seq: maybe_unsigned(row, 2)?,
        worker: values::maybe_uuid(row, 3)?.map(engine::WorkerId),
    })
}
