//! Appending to attempts' logs: without a gap, and without minding repeats.

use engine::AttemptId;
use store::append::{Verdict, judge};
use store::{Batch, LogAppend, LogClose, LogMark, StoreError};

use crate::tables::{ChunkRow, LogRow, MarkRow, Tables, countable};

/// Everything of a batch that concerns logs. Deadlines come after the lines: a log that is whole needs none.
pub(crate) fn write(tables: &mut Tables, batch: &Batch) -> Result<(), StoreError> {
    for mark in &batch.marks {
        add_mark(tables, mark, false)?;
    }
    for append in &batch.logs {
        add(tables, append)?;
    }
    deadlines(tables, batch)?;
    closes(tables, batch)
}

fn add(tables: &mut Tables, append: &LogAppend) -> Result<(), StoreError> {
    let attempt = append.attempt;
    let stored = tables.log_state(attempt);
    let next = match judge(stored, append)? {
        Verdict::Nothing => return Ok(()),
        Verdict::Flag(next) => next,
        Verdict::Chunk(next) => {
            let last_seq = countable(append.last_seq)?;
            tables.chunks.put((attempt, append.first_seq), ChunkRow { last_seq, blocks: append.blocks.clone() });
            next
        }
    };
    let old = tables.logs.get(&attempt).copied().unwrap_or_default();
    let close_at = old.close_at.filter(|_| !next.complete);
    let (last_seq, complete) = (countable(next.last_seq)?, next.complete);
    tables.logs.put(attempt, LogRow { last_seq, complete, closed: false, close_at, end_seq: old.end_seq });
    if stored.closed {
        // It was called lost, and came after all.
        drop_closing_marks(tables, attempt);
    }
    Ok(())
}

fn deadlines(tables: &mut Tables, batch: &Batch) -> Result<(), StoreError> {
    for deadline in &batch.log_deadlines {
        let end_seq = deadline.end_seq.map(countable).transpose()?;
        let old = tables.logs.get(&deadline.attempt).copied().unwrap_or_default();
        if !old.complete {
            let (close_at, end_seq) = (Some(deadline.close_at), end_seq.or(old.end_seq));
            tables.logs.put(deadline.attempt, LogRow { close_at, end_seq, ..old });
        }
    }
    Ok(())
}

fn closes(tables: &mut Tables, batch: &Batch) -> Result<(), StoreError> {
    for close in &batch.log_closes {
        let closed = close.text.is_some();
        let was_open = tables.logs.update(&close.attempt, |log| {
            (!log.complete).then_some(LogRow { complete: true, closed, close_at: None, ..*log })
        });
        if let Some(text) = close.text.as_ref().filter(|_| was_open) {
            let LogClose { attempt, after_seq, .. } = *close;
            add_mark(tables, &LogMark { attempt, after_seq, at: batch.now, missing: 0, text: text.clone() }, true)?;
        }
    }
    Ok(())
}

/// After all that stand at the same place. What stands there already is a repeat.
fn add_mark(tables: &mut Tables, mark: &LogMark, closing: bool) -> Result<(), StoreError> {
    let LogMark { attempt, at, ref text, .. } = *mark;
    let (after_seq, missing) = (countable(mark.after_seq)?, countable(mark.missing)?);
    let here = (attempt, after_seq, 0)..=(attempt, after_seq, u32::MAX);
    let sub = 1 + tables.marks.range(here.clone()).next_back().map_or(0, |((.., sub), _)| *sub);
    let row = MarkRow { attempt, after_seq, sub, at, missing, closing, text: text.clone() };
    if !tables.marks.range(here).any(|(_, stands)| MarkRow { sub, ..stands.clone() } == row) {
        tables.marks.put((attempt, after_seq, sub), row);
    }
    Ok(())
}

fn drop_closing_marks(tables: &mut Tables, attempt: AttemptId) {
    let all = tables.marks.range((attempt, 0, 0)..=(attempt, u64::MAX, u32::MAX));
    let closing: Vec<_> = all.filter(|(_, mark)| mark.closing).map(|(key, _)| *key).collect();
    for key in closing {
        tables.marks.remove(key);
    }
}
