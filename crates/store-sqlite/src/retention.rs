//! Taking away what is old, a little at a time.

use engine::{AttemptId, JobId, Time, WorkerId};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use store::retention::{DEPARTED_KEPT, removed_word};
use store::{Cleared, OldJob, OldLog, Piece, Strays};

use crate::commit::{Failure, last_event, put_counter};
use crate::sql;
use crate::values::{self, clamped, signed, unsigned};

/// The counter below which no event gets its number.
const EVENTS_COUNTER: &str = "event";

/// Attempts, and chunks of a log, that are looked up at a time.
const AT_A_TIME: usize = 100;

pub(crate) fn old_jobs(
    connection: &Connection,
    after: Option<JobId>,
    until: JobId,
    limit: usize,
) -> rusqlite::Result<Vec<OldJob>> {
    let after = after.unwrap_or(JobId(uuid::Uuid::nil()));
    let asked = params![after.0.as_bytes(), until.0.as_bytes(), clamped(limit)];
    connection.prepare_cached(sql::OLD_JOBS)?.query_map(asked, old_job)?.collect()
}

fn old_job(row: &Row<'_>) -> rusqlite::Result<OldJob> {
    Ok(OldJob {
        id: values::job(row, 0)?,
        version: unsigned(row, 1)?,
        open: row.get(2)?,
        ended_at: values::maybe_time(row, 3)?,
        last_event_at: values::maybe_time(row, 4)?,
        in_doubt: row.get(5)?,
        log_open: row.get(6)?,
        undelivered: row.get(7)?,
        continues: values::maybe_job(row, 8)?,
        carried_on: row.get(9)?,
    })
}

pub(crate) fn old_logs(
    connection: &Connection,
    after: Option<AttemptId>,
    until: AttemptId,
    limit: usize,
) -> rusqlite::Result<Vec<OldLog>> {
    let mut next = connection.prepare_cached(sql::NEXT_LOGGED)?;
    let mut look = connection.prepare_cached(sql::OLD_LOG)?;
    let mut after = after.unwrap_or(AttemptId(uuid::Uuid::nil()));
    let mut logs = Vec::new();
    while logs.len() < limit {
        let range = params![after.0.as_bytes(), until.0.as_bytes()];
        let Some(id) = next.query_row(range, |row| values::maybe_uuid(row, 0))? else { break };
        after = AttemptId(id);
        logs.push(look.query_row([id.as_bytes()], |row| {
            let (job, ended_at) = (values::maybe_job(row, 0)?, values::maybe_time(row, 1)?);
            Ok(OldLog { attempt: AttemptId(id), job, ended_at, complete: row.get(2)? })
        })?);
    }
    Ok(logs)
}

pub(crate) fn weight(connection: &Connection, job: JobId) -> rusqlite::Result<Cleared> {
    connection.prepare_cached(sql::WEIGHT)?.query_row([job.0.as_bytes()], |row| {
        Ok(Cleared {
            steps: unsigned(row, 0)?,
            attempts: unsigned(row, 1)?,
            events: unsigned(row, 2)?,
            log_lines: unsigned(row, 3)?,
            log_bytes: unsigned(row, 4)?,
            more: false,
        })
    })
}

pub(crate) fn strays(connection: &Connection, before: Time) -> rusqlite::Result<Strays> {
    let until = JobId::lowest_at(before);
    let words = params![until.0.as_bytes(), before.0];
    let words = connection.prepare_cached(sql::STRAY_WORDS)?.query_row(words, |row| unsigned(row, 0))?;
    let quarantined = connection.prepare_cached(sql::STRAY_EVENTS)?.query_row([before.0], |row| unsigned(row, 0))?;
    Ok(Strays { words, quarantined, more: false })
}

pub(crate) fn departed(connection: &Connection, worker: WorkerId) -> rusqlite::Result<Option<Time>> {
    let mut look = connection.prepare_cached(sql::DEPARTED)?;
    look.query_row([worker.0.as_bytes()], |row| values::time(row, 0)).optional()
}

pub(crate) fn departed_by_credential(connection: &Connection, hash: &[u8; 32]) -> rusqlite::Result<Option<WorkerId>> {
    let mut look = connection.prepare_cached(sql::DEPARTED_BY_CREDENTIAL)?;
    look.query_row([hash], |row| values::worker(row, 0)).optional()
}

pub(crate) fn doom(tx: &Transaction<'_>, jobs: &[(JobId, u64)], now: Time) -> Result<Vec<JobId>, Failure> {
    // With the events go their numbers, and no number is given twice.
    put_counter(tx, EVENTS_COUNTER, last_event(tx)?)?;
    let mut gone = Vec::with_capacity(jobs.len());
    for (job, version) in jobs {
        let id = job.0.as_bytes();
        if tx.prepare_cached(sql::DOOM_JOB)?.execute(params![id, signed(*version)?])? == 0 {
            continue;
        }
        tx.prepare_cached(sql::ADD_DOOMED)?.execute(params![id, now.0])?;
        for few in [sql::DROP_LINEAGE, sql::DROP_IDEMPOTENCY, sql::DROP_OUTBOX, sql::DROP_QUARANTINE] {
            tx.prepare_cached(few)?.execute([id])?;
        }
        gone.push(*job);
    }
    Ok(gone)
}

pub(crate) fn clear_doomed(tx: &Transaction<'_>, piece: Piece) -> Result<Cleared, Failure> {
    put_counter(tx, EVENTS_COUNTER, last_event(tx)?)?;
    let (mut cleared, mut left) = (Cleared::default(), piece);
    loop {
        let job = tx.prepare_cached(sql::FIRST_DOOMED)?.query_row([], |row| values::maybe_job(row, 0))?;
        let Some(job) = job else { break };
        if left.is_used_up() || !clear_job(tx, job, &mut left, &mut cleared)? {
            cleared.more = true;
            break;
        }
        tx.prepare_cached(sql::DROP_DOOMED)?.execute([job.0.as_bytes()])?;
        left = left.less(1, 0);
    }
    Ok(cleared)
}

/// Whether nothing of it is left.
fn clear_job(tx: &Transaction<'_>, job: JobId, left: &mut Piece, cleared: &mut Cleared) -> Result<bool, Failure> {
    let id = job.0.as_bytes();
    loop {
        let mut some = tx.prepare_cached(sql::SOME_ATTEMPTS)?;
        let attempts = some.query_map(params![id, clamped(AT_A_TIME)], |row| values::attempt(row, 0))?;
        let attempts: Vec<AttemptId> = attempts.collect::<rusqlite::Result<_>>()?;
        if attempts.is_empty() {
            break;
        }
        for attempt in attempts {
            if left.is_used_up() || drop_lines(tx, attempt, left, cleared)?.is_some() {
                return Ok(false);
            }
            drop_attempt(tx, attempt, left, cleared)?;
        }
    }
    for (text, count) in [(sql::DROP_STEPS, &mut cleared.steps), (sql::DROP_EVENTS, &mut cleared.events)] {
        let rows = tx.prepare_cached(text)?.execute(params![id, clamped(left.rows)])?;
        *count += rows as u64;
        *left = left.less(rows, 0);
        if left.is_used_up() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn drop_attempt(
    tx: &Transaction<'_>,
    attempt: AttemptId,
    left: &mut Piece,
    cleared: &mut Cleared,
) -> Result<(), Failure> {
    let id = attempt.0.as_bytes();
    let mut rows = tx.prepare_cached(sql::DROP_MARKS)?.execute(params![id, i64::MAX])?;
    for text in [sql::DROP_LOG, sql::DROP_BEATS, sql::DROP_BEAT_HISTORY, sql::DROP_ATTEMPT] {
        rows += tx.prepare_cached(text)?.execute([id])?;
    }
    cleared.attempts += 1;
    *left = left.less(rows, 0);
    Ok(())
}

/// Takes away lines from the beginning of a log. Returns the last that went, if that is not all.
fn drop_lines(
    tx: &Transaction<'_>,
    attempt: AttemptId,
    left: &mut Piece,
    cleared: &mut Cleared,
) -> Result<Option<u64>, Failure> {
    let id = attempt.0.as_bytes();
    loop {
        let mut some = tx.prepare_cached(sql::FIRST_CHUNKS)?;
        let mut chunks = some.query(params![id, clamped(AT_A_TIME)])?;
        let mut last = None;
        while let Some(chunk) = chunks.next()? {
            let (last_seq, lines, bytes) = (unsigned(chunk, 0)?, unsigned(chunk, 1)?, unsigned(chunk, 2)?);
            last = Some(last_seq);
            cleared.log_lines += lines;
            cleared.log_bytes += bytes;
            *left = left.less(1, bytes);
            if left.is_used_up() {
                break;
            }
        }
        drop(chunks);
        let Some(last) = last else { return Ok(None) };
        tx.prepare_cached(sql::DROP_CHUNKS)?.execute(params![id, signed(last)?])?;
        if left.is_used_up() {
            return Ok(Some(last));
        }
    }
}

pub(crate) fn drop_log(tx: &Transaction<'_>, attempt: AttemptId, now: Time, piece: Piece) -> Result<Cleared, Failure> {
    let id = attempt.0.as_bytes();
    let (job, complete) = tx.prepare_cached(sql::OLD_LOG)?.query_row([id], |row| {
        let complete: bool = row.get(2)?;
        Ok((values::maybe_job(row, 0)?, complete))
    })?;
    let (mut cleared, mut left) = (Cleared::default(), piece);
    if job.is_some() && !complete {
        return Ok(cleared);
    }
    let before = cleared.log_lines;
    let last = last_line(tx, attempt)?;
    let reached = drop_lines(tx, attempt, &mut left, &mut cleared)?;
    cleared.more = reached.is_some() && reached != last;
    if job.is_none() && !cleared.more {
        drop_attempt(tx, attempt, &mut left, &mut cleared)?;
        cleared.attempts = 0;
    } else if cleared.log_lines > before
        && let Some(reached) = reached.or(last)
    {
        let after = signed(reached.saturating_sub(1))?;
        tx.prepare_cached(sql::DROP_MARKS)?.execute(params![id, signed(reached)?])?;
        let mut add = tx.prepare_cached(sql::ADD_LOG_MARK)?;
        add.execute(params![id, after, now.0, signed(reached)?, false, removed_word(reached)])?;
    }
    Ok(cleared)
}

/// The last line of the last chunk.
fn last_line(tx: &Transaction<'_>, attempt: AttemptId) -> Result<Option<u64>, Failure> {
    let last: Option<i64> =
        tx.prepare_cached(sql::LAST_LINE)?.query_row([attempt.0.as_bytes()], |row| row.get(0)).optional()?.flatten();
    Ok(last.and_then(|last| u64::try_from(last).ok()))
}

pub(crate) fn prune_definitions(
    tx: &Transaction<'_>,
    after: Option<[u8; 32]>,
    limit: usize,
) -> Result<(usize, Option<[u8; 32]>), Failure> {
    // Nothing sorts before no bytes at all.
    let after = after.map(|hash| hash.to_vec()).unwrap_or_default();
    let mut some = tx.prepare_cached(sql::SOME_DEFINITIONS)?;
    let rows = some.query_map(params![after, clamped(limit)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: Vec<([u8; 32], bool)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut dropped = 0;
    for (hash, _) in rows.iter().filter(|(_, used)| !used) {
        dropped += tx.prepare_cached(sql::DROP_DEFINITION)?.execute([hash])?;
    }
    Ok((dropped, rows.last().filter(|_| rows.len() == limit).map(|(hash, _)| *hash)))
}

pub(crate) fn drop_strays(tx: &Transaction<'_>, before: Time, limit: usize) -> Result<Strays, Failure> {
    let until = JobId::lowest_at(before);
    let words = params![until.0.as_bytes(), before.0, clamped(limit)];
    let words = tx.prepare_cached(sql::DROP_STRAY_WORDS)?.execute(words)?;
    let quarantined = tx.prepare_cached(sql::DROP_STRAY_EVENTS)?.execute(params![before.0, clamped(limit)])?;
    let more = limit > 0 && (words == limit || quarantined == limit);
    Ok(Strays { words: words as u64, quarantined: quarantined as u64, more })
}

pub(crate) fn depart(tx: &Transaction<'_>, worker: WorkerId, unseen_since: Time, now: Time) -> Result<bool, Failure> {
    let id = worker.0.as_bytes();
    tx.prepare_cached(sql::PRUNE_DEPARTED)?.execute([(now - DEPARTED_KEPT).0])?;
    if tx.prepare_cached(sql::ADD_DEPARTED)?.execute(params![id, unseen_since.0, now.0])? == 0 {
        return Ok(false);
    }
    tx.prepare_cached(sql::DROP_WORKER)?.execute([id])?;
    Ok(true)
}
