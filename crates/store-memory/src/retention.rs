//! Taking away what is old, a little at a time.

use std::ops::Bound;

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::retention::{DEPARTED_KEPT, removed_word};
use store::rows::{BeatRole, JobRow};
use store::{Cleared, OldJob, OldLog, Piece, StoreError, Strays};
use uuid::Uuid;

use crate::tables::{Counter, DepartedRow, DoomedRow, EVENTS_COUNTER, MarkRow, Tables, countable};

pub(crate) fn old_jobs(tables: &Tables, after: Option<JobId>, until: JobId, limit: usize) -> Vec<OldJob> {
    let after = after.unwrap_or(JobId(Uuid::nil()));
    if after >= until {
        return Vec::new();
    }
    let jobs = tables.jobs.range((Bound::Excluded(after), Bound::Excluded(until)));
    jobs.take(limit).map(|(_, row)| old_job(tables, row)).collect()
}

fn old_job(tables: &Tables, row: &JobRow) -> OldJob {
    let id = row.id;
    let newest = tables.events.index().range((id, 0)..=(id, u64::MAX)).next_back();
    let newest = newest.and_then(|(_, number)| tables.events.get(number));
    let line = tables.lineage.get(&id);
    let root = line.map_or(id, |row| row.root);
    let line_of = tables.lineage.index().places.range((root, 0)..=(root, u32::MAX)).map(|(_, job)| *job);
    let is_open = |job: JobId| tables.jobs.get(&job).is_some_and(|row| row.check_at.is_some());
    let mut posted = tables.outbox.index().by_job.range((id, Time(i64::MIN), Uuid::nil())..);
    let mut posted = posted.by_ref().take_while(|(of, ..)| *of == id);
    OldJob {
        id,
        version: row.version,
        open: row.check_at.is_some(),
        ended_at: row.ended_at,
        last_event_at: newest.map(|event| event.at),
        in_doubt: attempts_of(tables, id).any(|a| tables.attempts.get(&a).is_some_and(|a| !a.row.confirmed)),
        log_open: attempts_of(tables, id).any(|a| tables.logs.get(&a).is_some_and(|log| !log.complete)),
        undelivered: posted.any(|(.., post)| tables.outbox.get(post).is_some_and(|post| post.next_at.is_some())),
        continues: line.map(|row| row.continues).filter(|old| tables.jobs.contains(old)),
        carried_on: line_of.filter(|job| *job != id).any(is_open),
    }
}

fn attempts_of(tables: &Tables, job: JobId) -> impl Iterator<Item = AttemptId> {
    let first = ((job, StepIx(0)), 0, AttemptId(Uuid::nil()));
    tables.attempts.index().range(first..).take_while(move |((of, _), ..)| *of == job).map(|(.., id)| *id)
}

pub(crate) fn old_logs(tables: &Tables, after: Option<AttemptId>, until: AttemptId, limit: usize) -> Vec<OldLog> {
    let mut after = after.unwrap_or(AttemptId(Uuid::nil()));
    let mut logs = Vec::new();
    while logs.len() < limit {
        let next = tables.chunks.range((Bound::Excluded((after, u64::MAX)), Bound::Unbounded)).next();
        let Some(attempt) = next.map(|((attempt, _), _)| *attempt).filter(|attempt| *attempt < until) else { break };
        after = attempt;
        let job = job_of(tables, attempt);
        let complete = tables.logs.get(&attempt).is_some_and(|log| log.complete);
        logs.push(OldLog { attempt, job: job.map(|job| job.id), ended_at: job.and_then(|job| job.ended_at), complete });
    }
    logs
}

fn job_of(tables: &Tables, attempt: AttemptId) -> Option<&JobRow> {
    tables.jobs.get(&tables.attempts.get(&attempt)?.row.job)
}

pub(crate) fn weight(tables: &Tables, job: JobId) -> Cleared {
    let mut weight = Cleared {
        steps: tables.steps.range((job, StepIx(0))..=(job, StepIx(u32::MAX))).count() as u64,
        attempts: attempts_of(tables, job).count() as u64,
        events: tables.events.index().range((job, 0)..=(job, u64::MAX)).count() as u64,
        ..Cleared::default()
    };
    for attempt in attempts_of(tables, job) {
        for ((_, first), chunk) in tables.chunks.range((attempt, 0)..=(attempt, u64::MAX)) {
            weight.log_lines += chunk.last_seq - first + 1;
            weight.log_bytes += chunk.blocks.len() as u64;
        }
    }
    weight
}

pub(crate) fn doom(tables: &mut Tables, jobs: &[(JobId, u64)], now: Time) -> Result<Vec<JobId>, StoreError> {
    keep_numbers(tables);
    let mut gone = Vec::new();
    for (id, version) in jobs {
        countable(*version)?;
        if !tables.jobs.get(id).is_some_and(|row| row.version == *version && row.check_at.is_none()) {
            continue;
        }
        tables.jobs.remove(*id);
        tables.doomed.put(*id, DoomedRow { _at: now });
        tables.lineage.remove(*id);
        let keys = tables.idempotency.iter().filter(|(_, row)| row.job == *id).map(|(key, _)| key.clone());
        keys.collect::<Vec<_>>().into_iter().for_each(|key| tables.idempotency.remove(key));
        let posts = tables.outbox.index().by_job.range((*id, Time(i64::MIN), Uuid::nil())..);
        let posts: Vec<Uuid> = posts.take_while(|(of, ..)| of == id).map(|(.., post)| *post).collect();
        posts.into_iter().for_each(|post| tables.outbox.remove(post));
        let events = tables.quarantine.iter().filter(|(_, row)| row.job == Some(*id)).map(|(key, _)| *key);
        events.collect::<Vec<_>>().into_iter().for_each(|key| tables.quarantine.remove(key));
        gone.push(*id);
    }
    Ok(gone)
}

/// With the events go their numbers, and no number is given twice. Another server may add some to a job that is doomed already.
fn keep_numbers(tables: &mut Tables) {
    let last = tables.last_event();
    tables.counters.put(EVENTS_COUNTER, Counter(last));
}

pub(crate) fn clear_doomed(tables: &mut Tables, piece: Piece) -> Cleared {
    keep_numbers(tables);
    let (mut cleared, mut left) = (Cleared::default(), piece);
    loop {
        let first = tables.doomed.iter().next().map(|(job, _)| *job);
        let Some(job) = first else { break };
        if left.is_used_up() || !clear_job(tables, job, &mut left, &mut cleared) {
            cleared.more = true;
            break;
        }
        tables.doomed.remove(job);
        left = left.less(1, 0);
    }
    cleared
}

/// Whether nothing of it is left.
fn clear_job(tables: &mut Tables, job: JobId, left: &mut Piece, cleared: &mut Cleared) -> bool {
    for attempt in attempts_of(tables, job).collect::<Vec<_>>() {
        if left.is_used_up() || drop_lines(tables, attempt, left, cleared).is_some() {
            return false;
        }
        drop_attempt(tables, attempt, left, cleared);
    }
    let steps = tables.steps.range((job, StepIx(0))..=(job, StepIx(u32::MAX))).take(left.rows);
    let steps: Vec<_> = steps.map(|(key, _)| *key).collect();
    cleared.steps += steps.len() as u64;
    *left = left.less(steps.len(), 0);
    steps.into_iter().for_each(|key| tables.steps.remove(key));
    if left.is_used_up() {
        return false;
    }
    let events = tables.events.index().range((job, 0)..=(job, u64::MAX)).take(left.rows);
    let events: Vec<u64> = events.map(|(_, number)| *number).collect();
    cleared.events += events.len() as u64;
    *left = left.less(events.len(), 0);
    events.into_iter().for_each(|key| tables.events.remove(key));
    !left.is_used_up()
}

fn drop_attempt(tables: &mut Tables, attempt: AttemptId, left: &mut Piece, cleared: &mut Cleared) {
    let mut rows = drop_marks(tables, attempt, u64::MAX);
    if tables.logs.contains(&attempt) {
        tables.logs.remove(attempt);
        rows += 1;
    }
    let first = (attempt, WorkerId(Uuid::nil()), BeatRole::Claimer);
    let beats = tables.beats.range(first..).map(|(key, _)| *key).take_while(|(of, ..)| *of == attempt);
    let beats: Vec<_> = beats.collect();
    rows += beats.len();
    beats.into_iter().for_each(|key| tables.beats.remove(key));
    let past = tables.beat_history.range((first, Time(i64::MIN))..).map(|(key, _)| *key);
    let past: Vec<_> = past.take_while(|((of, ..), _)| *of == attempt).collect();
    rows += past.len();
    past.into_iter().for_each(|key| tables.beat_history.remove(key));
    if tables.attempts.contains(&attempt) {
        tables.attempts.remove(attempt);
        rows += 1;
    }
    cleared.attempts += 1;
    *left = left.less(rows, 0);
}

/// Takes away lines from the beginning of a log. Returns the last that went, if that may not be all.
fn drop_lines(tables: &mut Tables, attempt: AttemptId, left: &mut Piece, cleared: &mut Cleared) -> Option<u64> {
    loop {
        let next = tables.chunks.range((attempt, 0)..=(attempt, u64::MAX)).next();
        let next = next.map(|((_, first), chunk)| (*first, chunk.last_seq, chunk.blocks.len() as u64));
        let (first, last, bytes) = next?;
        cleared.log_lines += last - first + 1;
        cleared.log_bytes += bytes;
        *left = left.less(1, bytes);
        tables.chunks.remove((attempt, first));
        if left.is_used_up() {
            return Some(last);
        }
    }
}

/// The server's lines before this one.
fn drop_marks(tables: &mut Tables, attempt: AttemptId, before: u64) -> usize {
    let marks = tables.marks.range((attempt, 0, 0)..(attempt, before, 0));
    let marks: Vec<_> = marks.map(|(key, _)| *key).collect();
    let count = marks.len();
    marks.into_iter().for_each(|key| tables.marks.remove(key));
    count
}

pub(crate) fn drop_log(tables: &mut Tables, attempt: AttemptId, now: Time, piece: Piece) -> Cleared {
    let (mut cleared, mut left) = (Cleared::default(), piece);
    let is_known = job_of(tables, attempt).is_some();
    if is_known && !tables.logs.get(&attempt).is_some_and(|log| log.complete) {
        return cleared;
    }
    let chunks = tables.chunks.range((attempt, 0)..=(attempt, u64::MAX));
    let last = chunks.map(|(_, chunk)| chunk.last_seq).next_back();
    let reached = drop_lines(tables, attempt, &mut left, &mut cleared);
    cleared.more = reached.is_some() && reached != last;
    if !is_known && !cleared.more {
        drop_attempt(tables, attempt, &mut left, &mut cleared);
        cleared.attempts = 0;
    } else if cleared.log_lines > 0
        && let Some(reached) = reached.or(last)
    {
        drop_marks(tables, attempt, reached);
        let after_seq = reached.saturating_sub(1);
        let (missing, closing, text) = (reached, false, removed_word(reached));
        let here = (attempt, after_seq, 0)..=(attempt, after_seq, u32::MAX);
        let sub = 1 + tables.marks.range(here).next_back().map_or(0, |((.., sub), _)| *sub);
        let row = MarkRow { attempt, after_seq, sub, at: now, missing, closing, text };
        tables.marks.put((attempt, after_seq, sub), row);
    }
    cleared
}

pub(crate) fn prune_definitions(
    tables: &mut Tables,
    after: Option<[u8; 32]>,
    limit: usize,
) -> (usize, Option<[u8; 32]>) {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let some: Vec<[u8; 32]> = tables.definitions.range((from, Bound::Unbounded)).take(limit).map(|(h, _)| *h).collect();
    let used = |hash: &[u8; 32]| tables.jobs.iter().any(|(_, job)| job.definition == *hash);
    let unused: Vec<[u8; 32]> = some.iter().copied().filter(|hash| !used(hash)).collect();
    let dropped = unused.len();
    unused.into_iter().for_each(|hash| tables.definitions.remove(hash));
    (dropped, some.last().filter(|_| some.len() == limit).copied())
}

/// Words and events that belong to no job on record; words in the order of their jobs.
fn stray_rows(tables: &Tables, before: Time) -> (Vec<Uuid>, Vec<u64>) {
    let is_stray = |job: JobId| !tables.jobs.contains(&job);
    let until = JobId::lowest_at(before);
    let words = tables.outbox.iter().filter(|(_, post)| {
        post.row.job < until && post.row.created_at < before && post.next_at.is_none() && is_stray(post.row.job)
    });
    let events = tables.quarantine.iter().filter(|(_, row)| row.at < before && row.job.is_none_or(is_stray));
    let mut words: Vec<(JobId, Uuid)> = words.map(|(id, post)| (post.row.job, *id)).collect();
    words.sort_unstable();
    (words.into_iter().map(|(_, id)| id).collect(), events.map(|(id, _)| *id).collect())
}

pub(crate) fn strays(tables: &Tables, before: Time) -> Strays {
    let (words, events) = stray_rows(tables, before);
    Strays { words: words.len() as u64, quarantined: events.len() as u64, more: false }
}

pub(crate) fn drop_strays(tables: &mut Tables, before: Time, limit: usize) -> Strays {
    let (mut words, mut events) = stray_rows(tables, before);
    words.truncate(limit);
    events.truncate(limit);
    let more = limit > 0 && (words.len() == limit || events.len() == limit);
    let gone = Strays { words: words.len() as u64, quarantined: events.len() as u64, more };
    words.into_iter().for_each(|id| tables.outbox.remove(id));
    events.into_iter().for_each(|id| tables.quarantine.remove(id));
    gone
}

pub(crate) fn depart(tables: &mut Tables, worker: WorkerId, unseen_since: Time, now: Time) -> bool {
    let aged: Vec<WorkerId> =
        tables.departed.iter().filter(|(_, row)| row.at < now - DEPARTED_KEPT).map(|(id, _)| *id).collect();
    aged.into_iter().for_each(|id| tables.departed.remove(id));
    let Some(record) = tables.workers.get(&worker) else { return false };
    let row = &record.row;
    let unseen = row.last_seen_at.unwrap_or(row.created_at) < unseen_since;
    let away = row.left_heard.is_some() || row.epoch.0 == 0 || row.removed_at.is_some();
    let holds = || tables.steps.index().held.iter().any(|(_, holder, _)| *holder == Some(worker));
    let in_doubt = || tables.attempts.iter().any(|(_, a)| a.row.worker == worker && !a.row.confirmed);
    if !unseen || !away || holds() || in_doubt() {
        return false;
    }
    let credential_hash = record.credential_hash;
    let before = tables.departed.index().get(&credential_hash).copied();
    before.into_iter().for_each(|other| tables.departed.remove(other));
    tables.departed.put(worker, DepartedRow { credential_hash, at: now });
    tables.workers.remove(worker);
    true
}
