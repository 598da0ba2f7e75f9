//! Taking away what is old, a little at a time.

use engine::{AttemptId, JobId, Time, WorkerId};
use store::retention::{DEPARTED_KEPT, removed_word};
use store::{Cleared, OldJob, OldLog, Piece, Strays};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::session::{Failure, Session, Train, refused};
use crate::sql;
use crate::values::{self, Read, clamped, column, counted, get, param, signed, unsigned};

/// Attempts that are looked up at a time.
const AT_A_TIME: usize = 100;

pub(crate) fn old_job(row: &Row) -> Read<OldJob> {
    Ok(OldJob {
        id: values::job(row, 0)?,
        version: unsigned(row, 1)?,
        open: get(row, 2)?,
        ended_at: values::maybe_time(row, 3)?,
        last_event_at: values::maybe_time(row, 4)?,
        in_doubt: get(row, 5)?,
        log_open: get(row, 6)?,
        undelivered: get(row, 7)?,
        continues: values::maybe_job(row, 8)?,
        carried_on: get(row, 9)?,
    })
}

pub(crate) fn old_log(row: &Row) -> Read<OldLog> {
    let (job, ended_at) = (values::maybe_job(row, 1)?, values::maybe_time(row, 2)?);
    Ok(OldLog { attempt: values::attempt(row, 0)?, job, ended_at, complete: get(row, 3)? })
}

pub(crate) fn weight(row: &Row) -> Read<Cleared> {
    Ok(Cleared {
        steps: unsigned(row, 0)?,
        attempts: unsigned(row, 1)?,
        events: unsigned(row, 2)?,
        log_lines: unsigned(row, 3)?,
        log_bytes: unsigned(row, 4)?,
        more: false,
    })
}

pub(crate) async fn doom(session: &mut Session, jobs: &[(JobId, u64)], now: Time) -> Result<Vec<JobId>, Failure> {
    let ids: Vec<Uuid> = jobs.iter().map(|(job, _)| job.0).collect();
    let versions = counted(jobs, |(_, version)| signed(*version))?;
    let mut train = Train::default();
    train.add(sql::LOCK_JOBS, vec![param(ids.clone())]);
    let place = train.add(sql::DOOM_JOB, vec![param(ids), versions, param(now.0)]);
    let answers = session.run(&train).await?;
    let gone: Vec<JobId> = answers[place].iter().map(|row| values::job(row, 0)).collect::<Read<_>>()?;
    let ids: Vec<Uuid> = gone.iter().map(|job| job.0).collect();
    let mut train = Train::default();
    for few in [sql::DROP_LINEAGE, sql::DROP_IDEMPOTENCY, sql::DROP_OUTBOX, sql::DROP_QUARANTINE] {
        train.add(few, vec![param(ids.clone())]);
    }
    session.run(&train).await?;
    // In the order of asking.
    let mut asked: Vec<JobId> = Vec::with_capacity(gone.len());
    for (job, _) in jobs {
        if gone.contains(job) && !asked.contains(job) {
            asked.push(*job);
        }
    }
    Ok(asked)
}

pub(crate) async fn clear_doomed(session: &mut Session, piece: Piece) -> Result<Cleared, Failure> {
    let (mut cleared, mut left) = (Cleared::default(), piece);
    while let Some(row) = session.query_opt(sql::FIRST_DOOMED, &[]).await? {
        let job = values::job(&row, 0)?;
        if left.is_used_up() || !clear_job(session, job, &mut left, &mut cleared).await? {
            cleared.more = true;
            break;
        }
        session.execute(sql::DROP_DOOMED, &[&job.0]).await?;
        left = left.less(1, 0);
    }
    Ok(cleared)
}

/// Whether nothing of it is left.
async fn clear_job(
    session: &mut Session,
    job: JobId,
    left: &mut Piece,
    cleared: &mut Cleared,
) -> Result<bool, Failure> {
    loop {
        let rows = session.query(sql::SOME_ATTEMPTS, &[&job.0, &clamped(AT_A_TIME)]).await?;
        if rows.is_empty() {
            break;
        }
        let attempts = rows.iter().map(|row| Ok((values::attempt(row, 0)?, unsigned(row, 1)?)));
        let attempts: Vec<(AttemptId, u64)> = attempts.collect::<Read<_>>()?;
        if !clear_attempts(session, &attempts, left, cleared).await? {
            return Ok(false);
        }
    }
    for (text, count) in [(sql::DROP_STEPS, &mut cleared.steps), (sql::DROP_EVENTS, &mut cleared.events)] {
        let rows = session.execute(text, &[&job.0, &clamped(left.rows)]).await?;
        *count += rows;
        *left = left.less(usize::try_from(rows).unwrap_or(usize::MAX), 0);
        if left.is_used_up() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Decides how far the piece reaches, and then takes it away with a few statements. Whether all of them are gone.
async fn clear_attempts(
    session: &mut Session,
    attempts: &[(AttemptId, u64)],
    left: &mut Piece,
    cleared: &mut Cleared,
) -> Result<bool, Failure> {
    let ids: Vec<AttemptId> = attempts.iter().map(|(attempt, _)| *attempt).collect();
    let chunks = first_chunks(session, &ids, left.rows).await?;
    let mut chunks = chunks.into_iter().peekable();
    let (mut whole, mut reached) = (Vec::new(), Vec::new());
    for (attempt, rows) in attempts {
        if left.is_used_up() {
            break;
        }
        let mut last = None;
        while let Some(chunk) = chunks.next_if(|chunk| !left.is_used_up() && chunk.attempt == *attempt) {
            last = Some(chunk.last_seq);
            chunk.count(left, cleared);
        }
        reached.extend(last.map(|last| (*attempt, last)));
        if last.is_some() && left.is_used_up() {
            break;
        }
        whole.push(*attempt);
        cleared.attempts += 1;
        *left = left.less(usize::try_from(*rows).unwrap_or(usize::MAX), 0);
    }
    let mut train = Train::default();
    drop_chunks(&mut train, &reached)?;
    drop_attempts(&mut train, &whole);
    session.run(&train).await?;
    Ok(whole.len() == attempts.len())
}

/// A stored chunk of a log that may go.
struct Chunk {
    attempt: AttemptId,
    last_seq: u64,
    lines: u64,
    bytes: u64,
}

impl Chunk {
    fn count(&self, left: &mut Piece, cleared: &mut Cleared) {
        cleared.log_lines += self.lines;
        cleared.log_bytes += self.bytes;
        *left = left.less(1, self.bytes);
    }
}

/// More than the piece could take away, where there are so many; one at least.
async fn first_chunks(session: &mut Session, attempts: &[AttemptId], rows: usize) -> Result<Vec<Chunk>, Failure> {
    let ids: Vec<Uuid> = attempts.iter().map(|attempt| attempt.0).collect();
    let rows = session.query(sql::FIRST_CHUNKS, &[&ids, &clamped(rows.max(1))]).await?;
    let chunk = |row: &Row| {
        let (lines, bytes) = (unsigned(row, 2)?, unsigned(row, 3)?);
        Ok(Chunk { attempt: values::attempt(row, 0)?, last_seq: unsigned(row, 1)?, lines, bytes })
    };
    Ok(rows.iter().map(chunk).collect::<Read<_>>()?)
}

fn drop_chunks(train: &mut Train<'_>, reached: &[(AttemptId, u64)]) -> Result<(), Failure> {
    let lines = counted(reached, |(_, last)| signed(*last))?;
    train.add_if(!reached.is_empty(), sql::DROP_CHUNKS, || vec![column(reached, |(attempt, _)| attempt.0), lines]);
    Ok(())
}

/// All but the lines.
fn drop_attempts(train: &mut Train<'_>, attempts: &[AttemptId]) {
    if attempts.is_empty() {
        return;
    }
    let ids = || column(attempts, |attempt| attempt.0);
    train.add(sql::DROP_MARKS, vec![ids(), param(i64::MAX)]);
    for text in [sql::DROP_LOG, sql::DROP_BEATS, sql::DROP_BEAT_HISTORY, sql::DROP_ATTEMPT] {
        train.add(text, vec![ids()]);
    }
}

pub(crate) async fn drop_log(
    session: &mut Session,
    attempt: AttemptId,
    now: Time,
    piece: Piece,
) -> Result<Cleared, Failure> {
    // Whoever else takes lines away, or brings some, has done so before it is asked what there is.
    session.query(sql::LOCK_LOGS, &[&vec![attempt.0]]).await?;
    let row = session.query_opt(sql::OLD_LOG, &[&attempt.0]).await?;
    let row = row.ok_or_else(|| refused("a question that always has an answer had none".to_owned()))?;
    let (known, complete, last): (bool, bool, Option<i64>) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    let last = last.and_then(|last| u64::try_from(last).ok());
    let (mut cleared, mut left) = (Cleared::default(), piece);
    if known && !complete {
        return Ok(cleared);
    }
    let mut reached = None;
    for chunk in first_chunks(session, &[attempt], piece.rows).await? {
        reached = Some(chunk.last_seq);
        chunk.count(&mut left, &mut cleared);
        if left.is_used_up() {
            break;
        }
    }
    cleared.more = reached.is_some() && reached != last;
    let mut train = Train::default();
    if let Some(reached) = reached {
        drop_chunks(&mut train, &[(attempt, reached)])?;
    }
    if !known && !cleared.more {
        drop_attempts(&mut train, &[attempt]);
    } else if let Some(reached) = reached {
        let ids = || param(vec![attempt.0]);
        let after = signed(reached.saturating_sub(1))?;
        train.add(sql::DROP_MARKS, vec![ids(), param(signed(reached)?)]);
        let (at, missing, word) = (vec![now.0], vec![signed(reached)?], vec![removed_word(reached)]);
        train.add(sql::ADD_LOG_MARK, vec![ids(), param(vec![after]), param(at), param(missing), param(word)]);
    }
    session.run(&train).await?;
    Ok(cleared)
}

pub(crate) async fn prune_definitions(
    session: &mut Session,
    after: Option<[u8; 32]>,
    limit: usize,
) -> Result<(usize, Option<[u8; 32]>), Failure> {
    // Nothing sorts before no bytes at all.
    let after = after.map(|hash| hash.to_vec()).unwrap_or_default();
    let rows = session.query(sql::SOME_DEFINITIONS, &[&after, &clamped(limit)]).await?;
    let hashes: Vec<[u8; 32]> = rows.iter().map(|row| values::hash(row, 0)).collect::<Read<_>>()?;
    let asked: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
    // A statement of its own, which sees the jobs of those for whom the locks have waited.
    let dropped = session.execute(sql::DROP_DEFINITIONS, &[&asked]).await?;
    let next = hashes.last().filter(|_| hashes.len() == limit).copied();
    Ok((usize::try_from(dropped).unwrap_or(usize::MAX), next))
}

pub(crate) async fn drop_strays(session: &mut Session, before: Time, limit: usize) -> Result<Strays, Failure> {
    let (until, few) = (JobId::lowest_at(before), clamped(limit));
    let words = session.execute(sql::DROP_STRAY_WORDS, &[&until.0, &before.0, &few]).await?;
    let quarantined = session.execute(sql::DROP_STRAY_EVENTS, &[&before.0, &few]).await?;
    let more = limit > 0 && [words, quarantined].contains(&(limit as u64));
    Ok(Strays { words, quarantined, more })
}

pub(crate) async fn depart(
    session: &mut Session,
    worker: WorkerId,
    unseen_since: Time,
    now: Time,
) -> Result<bool, Failure> {
    session.execute(sql::PRUNE_DEPARTED, &[&(now - DEPARTED_KEPT).0]).await?;
    let Some(row) = session.query_opt(sql::DEPARTING, &[&worker.0, &unseen_since.0]).await? else {
        return Ok(false);
    };
    let credential = values::hash(&row, 0)?;
    let mut train = Train::default();
    // Whoever had this id or this credential before.
    train.add(sql::DROP_DEPARTED, vec![param(worker.0), param(credential.to_vec())]);
    train.add(sql::ADD_DEPARTED, vec![param(worker.0), param(credential.to_vec()), param(now.0)]);
    train.add(sql::DROP_WORKER, vec![param(worker.0)]);
    session.run(&train).await?;
    Ok(true)
}
