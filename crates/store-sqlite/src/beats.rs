//! Signs of life: written in bulk, beside everything that decides.

use std::time::Duration;

use engine::Time;
use rusqlite::types::Type;
use rusqlite::{Error, Row, Transaction, params};
use store::Beats;
use store::read::StaleAttempt;
use store::rows::{BeatRole, BeatRow};

use crate::commit::Failure;
use crate::sql;
use crate::values::{self, clamped, signed};

pub(crate) fn write(tx: &Transaction<'_>, beats: &Beats) -> Result<(), Failure> {
    if beats.rows.is_empty() {
        return Ok(());
    }
    let silence = clamped(beats.silence.as_micros());
    let mut end_stretch = tx.prepare_cached(sql::END_BEAT_STRETCH)?;
    let mut put = tx.prepare_cached(sql::PUT_BEAT)?;
    for beat in &beats.rows {
        let (attempt, sender, role) = (beat.attempt.0.as_bytes(), beat.sender.0.as_bytes(), beat.role.word());
        end_stretch.execute(params![attempt, sender, role, beat.hostname, beat.pid, silence, beat.first_at.0])?;
        put.execute(params![
            attempt,
            sender,
            role,
            beat.hostname,
            beat.pid,
            beat.first_at.0,
            beat.last_at.0,
            signed(beat.count)?,
            clamped(beat.longest_gap.as_micros()),
            silence,
        ])?;
    }
    Ok(())
}

pub(crate) fn prune(tx: &Transaction<'_>, before: Time, limit: usize) -> Result<usize, Failure> {
    let mut pruned = 0;
    for text in [sql::PRUNE_BEATS, sql::PRUNE_BEAT_HISTORY] {
        pruned += tx.prepare_cached(text)?.execute(params![before.0, clamped(limit)])?;
    }
    Ok(pruned)
}

pub(crate) fn beat(attempt: engine::AttemptId, row: &Row<'_>) -> rusqlite::Result<BeatRow> {
    let word: String = row.get(1)?;
    let unknown = || Error::FromSqlConversionFailure(1, Type::Text, format!("`{word}` is no role").into());
    Ok(BeatRow {
        attempt,
        sender: values::worker(row, 0)?,
        role: BeatRole::from_word(&word).ok_or_else(unknown)?,
        hostname: row.get(2)?,
        pid: row.get(3)?,
        first_at: values::time(row, 4)?,
        last_at: values::time(row, 5)?,
        count: values::unsigned(row, 6)?,
        longest_gap: Duration::from_micros(values::unsigned(row, 7)?),
    })
}

pub(crate) fn stale(row: &Row<'_>) -> rusqlite::Result<StaleAttempt> {
    let (claimer_at, runner_at) = (values::maybe_time(row, 8)?, values::maybe_time(row, 9)?);
    Ok(StaleAttempt {
        job: values::job(row, 0)?,
        ix: values::step(row, 1)?,
        step: row.get(2)?,
        state: row.get(3)?,
        attempt: values::attempt(row, 4)?,
        worker: values::worker(row, 5)?,
        worker_name: row.get(6)?,
        hostname: row.get(7)?,
        claimer_at,
        runner_at,
        last_sign: runner_at.or(claimer_at).map_or_else(|| values::time(row, 10), Ok)?,
    })
}
