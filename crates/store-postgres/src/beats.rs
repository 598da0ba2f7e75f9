//! Signs of life: written in bulk, beside everything that decides.

use std::time::Duration;

use engine::AttemptId;
use store::read::StaleAttempt;
use store::rows::{BeatRole, BeatRow};
use store::{Beats, StoreError};
use tokio_postgres::Row;

use crate::commit::{Writes, layers};
use crate::sql;
use crate::values::{self, Read, column, counted, get, param, signed, span, text, unreadable};

pub(crate) fn write<'a>(writes: &mut Writes<'a>, beats: &'a Beats) -> Result<(), StoreError> {
    let silence = span(beats.silence);
    let key = |beat: &&BeatRow| (beat.attempt, beat.sender, beat.role.word());
    for mut rows in layers(beats.rows.iter(), key) {
        rows.sort_by_key(key);
        let named = || {
            vec![
                column(&rows, |beat| beat.attempt.0),
                column(&rows, |beat| beat.sender.0),
                column(&rows, |beat| text(beat.role.word())),
                column(&rows, |beat| text(&beat.hostname)),
                column(&rows, |beat| i64::from(beat.pid)),
                column(&rows, |beat| beat.first_at.0),
            ]
        };
        let mut ended = named();
        ended.push(param(silence));
        writes.train.add(sql::END_BEAT_STRETCH, ended);
        let mut put = named();
        put.push(column(&rows, |beat| beat.last_at.0));
        put.push(counted(&rows, |beat| signed(beat.count))?);
        put.push(column(&rows, |beat| span(beat.longest_gap)));
        put.push(param(silence));
        writes.train.add(sql::PUT_BEAT, put);
    }
    Ok(())
}

pub(crate) fn beat(attempt: AttemptId, row: &Row) -> Read<BeatRow> {
    let word: &str = get(row, 1)?;
    Ok(BeatRow {
        attempt,
        sender: values::worker(row, 0)?,
        role: BeatRole::from_word(word).ok_or_else(|| unreadable(1, format!("`{word}` is no role")))?,
        hostname: get(row, 2)?,
        pid: values::small(row, 3)?,
        first_at: values::time(row, 4)?,
        last_at: values::time(row, 5)?,
        count: values::unsigned(row, 6)?,
        longest_gap: Duration::from_micros(values::unsigned(row, 7)?),
    })
}

pub(crate) fn stale(row: &Row) -> Read<StaleAttempt> {
    let (claimer_at, runner_at) = (values::maybe_time(row, 8)?, values::maybe_time(row, 9)?);
    Ok(StaleAttempt {
        job: values::job(row, 0)?,
        ix: values::step(row, 1)?,
        step: get(row, 2)?,
        state: get(row, 3)?,
        attempt: values::attempt(row, 4)?,
        worker: values::worker(row, 5)?,
        worker_name: get(row, 6)?,
        hostname: get(row, 7)?,
        claimer_at,
        runner_at,
        last_sign: runner_at.or(claimer_at).map_or_else(|| values::time(row, 10), Ok)?,
    })
}
