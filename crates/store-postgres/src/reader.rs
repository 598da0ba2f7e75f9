//! Looking, beside the writer. Each call sees one moment.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{AttemptId, Heard, JobId, StepIx, Time, WorkerId};
use store::codec::Corrupt;
use store::read::{
    AttemptGlance, AttemptView, EventView, Family, JobSummary, Kin, LineView, Lineage, LogChunk, LogMarkView, LogState,
    OutboxCounts, OutboxView, SlotView, StaleAttempt, StepGlance,
};
use store::rows::{
    BeatRow, BreakerRow, DefinitionRow, HearingRow, IdempotencyRow, LoadedJob, LoadedStep, SecretRow, ServerId,
    ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow, WorkerRow,
};
use store::{Cleared, JobFilter, LeaseRow, OldJob, OldLog, Page, Reader, SLOW, StoreError, Strays, prefix};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::driver::wait;
use crate::place::Place;
use crate::pool::Pool;
use crate::session::{Failure, Session, Train};
use crate::values::{self, Param, Read, clamped, column, get, param, text};
use crate::writer::ANSWER_PATIENCE;
use crate::{beats, groups, leases, logs, retention, servers, sql, triggers};

/// Chunks of a log that one call looks at; those who want more ask again from where it ended.
const CHUNKS_AT_A_TIME: i64 = 1_000;

/// Reads from any thread, through a few connections of its own.
#[derive(Debug)]
pub struct PostgresReader {
    pool: Pool,
}

impl PostgresReader {
    pub(crate) fn new(place: Place, connections_max: usize) -> PostgresReader {
        PostgresReader { pool: Pool::new(place, connections_max) }
    }

    fn look<T>(&self, read: &impl AsyncFn(&mut Session) -> Result<T, Failure>) -> Result<T, StoreError> {
        let place = &self.pool.place;
        let mut tried = false;
        loop {
            let mut lent = self.pool.lend()?;
            let Some(outcome) = wait(ANSWER_PATIENCE, read(lent.session())) else {
                lent.give_up();
                return Err(place.unavailable(&format!("{SLOW}: no answer within {} s", ANSWER_PATIENCE.as_secs())));
            };
            // A connection that was idle while the database went and came is no reason to say no: nothing was changed.
            let lost = outcome.is_err() && !lent.session().is_usable();
            drop(lent);
            if lost && !tried {
                tried = true;
                continue;
            }
            return outcome.map_err(|failure| failure.into_store(&place.name));
        }
    }

    fn list<T>(
        &self,
        text: &'static str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> Read<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.look(&async |session| all(session, text, params, &read).await)
    }

    fn first<T>(
        &self,
        text: &'static str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> Read<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.list(text, params, read)?.into_iter().next())
    }
}

/// Every row of a statement's answer.
pub(crate) async fn all<T>(
    session: &mut Session,
    text: &'static str,
    params: &[Param<'_>],
    read: impl Fn(&Row) -> Read<T>,
) -> Result<Vec<T>, Failure> {
    let rows = session.query(text, &values::values(params)).await?;
    Ok(rows.iter().map(read).collect::<Read<Vec<T>>>()?)
}

impl Reader for PostgresReader {
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.look(&async |session| stored_job(session, id).await)
    }

    fn jobs_by_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let Some((low, high)) = prefix::range(prefix) else {
            return Ok(Vec::new());
        };
        self.list(sql::JOBS_BY_PREFIX, &[param(low), param(high), param(clamped(limit))], |row| values::job(row, 0))
    }

    fn last_job(&self) -> Result<Option<JobId>, StoreError> {
        self.first(sql::LAST_JOB, &[], |row| values::job(row, 0))
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Page<JobSummary>, StoreError> {
        // One more than asked for, to know whether there are more. No job has the highest of all ids.
        let before = filter.before.map_or(Uuid::max(), |id| id.0);
        let mut asked = vec![param(before), param(clamped(filter.limit.saturating_add(1)))];
        let words = [&filter.task, &filter.state];
        asked.extend(words.into_iter().flatten().map(|word| param(text(word))));
        let text = match words {
            [None, None] => sql::JOBS,
            [None, Some(_)] => sql::JOBS_IN_STATE,
            [Some(_), None] => sql::JOBS_OF_TASK,
            [Some(_), Some(_)] => sql::JOBS_OF_TASK_IN_STATE,
        };
        let mut items = self.list(text, &asked, job_summary)?;
        let more = items.len() > filter.limit;
        items.truncate(filter.limit);
        Ok(Page { items, more })
    }

    fn attempts(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.list(sql::ATTEMPTS_OF_JOB, &[param(job.0)], attempt_view)
    }

    fn unconfirmed(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.list(sql::UNCONFIRMED_ATTEMPTS, &[param(job.0)], attempt_view)
    }

    fn slots(&self, group: &str, ended_after: Time) -> Result<Vec<SlotView>, StoreError> {
        self.list(sql::SLOTS, &[param(text(group)), param(ended_after.0)], groups::slot)
    }

    fn line(&self, group: &str, limit: usize) -> Result<Vec<LineView>, StoreError> {
        self.list(sql::LINE, &[param(text(group)), param(clamped(limit))], groups::in_line)
    }

    fn lines(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.list(sql::LINES, &[param(text(after)), param(clamped(limit))], |row| get(row, 0))
    }

    fn stray_slots(&self, ended_after: Time) -> Result<Vec<(String, JobId)>, StoreError> {
        self.list(sql::STRAY_SLOTS, &[param(ended_after.0)], |row| Ok((get(row, 0)?, values::job(row, 1)?)))
    }

    fn groups(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.list(sql::GROUPS, &[param(text(after)), param(clamped(limit))], |row| get(row, 0))
    }

    fn last_admitted(&self, group: &str) -> Result<Option<JobId>, StoreError> {
        self.first(sql::LAST_ADMITTED, &[param(text(group))], |row| values::job(row, 0))
    }

    fn lineage(&self, job: JobId) -> Result<Lineage, StoreError> {
        let lineage = self.first(sql::LINEAGE, &[param(job.0)], |row| {
            Ok(Lineage { continues: values::maybe_job(row, 0)?, resolved_by: values::maybe_job(row, 1)? })
        });
        lineage.map(Option::unwrap_or_default)
    }

    fn family(&self, job: JobId, limit: usize) -> Result<Family, StoreError> {
        let kin = self.list(sql::FAMILY, &[param(job.0), param(clamped(limit))], |row| {
            let (job, continues) = (values::job(row, 1)?, values::job(row, 2)?);
            let kin = Kin { job, continues, number: values::small(row, 3)?, how: get(row, 4)? };
            Ok((values::job(row, 0)?, kin))
        })?;
        let root = kin.first().map_or(job, |(root, _)| *root);
        Ok(Family { root, members: kin.into_iter().map(|(_, kin)| kin).collect() })
    }

    fn children(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.list(sql::CHILDREN, &[param(job.0), param(clamped(limit))], |row| values::job(row, 0))
    }

    fn hooks(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.list(sql::HOOKS, &[param(job.0), param(clamped(limit))], |row| values::job(row, 0))
    }

    fn outbox_of(&self, job: JobId, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.list(sql::OUTBOX_OF_JOB, &[param(job.0), param(clamped(limit))], outbox_view)
    }

    fn dead_outbox(&self, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.list(sql::DEAD_OUTBOX, &[param(clamped(limit))], outbox_view)
    }

    fn outbox(&self, id: Uuid) -> Result<Option<OutboxView>, StoreError> {
        self.first(sql::OUTBOX, &[param(id)], outbox_view)
    }

    fn outbox_counts(&self) -> Result<OutboxCounts, StoreError> {
        let counts = self.first(sql::OUTBOX_COUNTS, &[], |row| {
            Ok(OutboxCounts { waiting: values::unsigned(row, 0)?, dead: values::unsigned(row, 1)? })
        });
        counts.map(Option::unwrap_or_default)
    }

    fn wanted_artifacts(&self, sets: &[String]) -> Result<Vec<String>, StoreError> {
        let sets: Vec<_> = sets.iter().map(|set| text(set)).collect();
        self.list(sql::WANTED_ARTIFACTS, &[param(sets)], |row| get(row, 0))
    }

    fn definition_of(&self, job: JobId) -> Result<Option<[u8; 32]>, StoreError> {
        self.first(sql::DEFINITION_OF_JOB, &[param(job.0)], |row| values::hash(row, 0))
    }

    fn attempt(&self, id: AttemptId) -> Result<Option<AttemptGlance>, StoreError> {
        self.first(sql::ATTEMPT, &[param(id.0)], |row| {
            let (number, confirmed) = (values::small(row, 0)?, get(row, 1)?);
            Ok(AttemptGlance { number, confirmed, reported: get(row, 2)?, begun: get(row, 3)? })
        })
    }

    fn step(&self, job: JobId, ix: StepIx) -> Result<Option<StepGlance>, StoreError> {
        let rows = self.list(sql::STEP, &[param(job.0), param(i64::from(ix.0))], |row| {
            let attempt = values::maybe_uuid(row, 1)?.map(AttemptId).zip(values::maybe_small(row, 2)?);
            Ok((get::<String>(row, 0)?, attempt))
        })?;
        let state = rows.first().map(|(state, _)| state.clone());
        let attempts = rows.into_iter().filter_map(|(_, attempt)| attempt).collect();
        Ok(state.map(|state| StepGlance { state, attempts }))
    }

    fn step_named(&self, job: JobId, name: &str) -> Result<Option<StepIx>, StoreError> {
        self.first(sql::STEP_NAMED, &[param(job.0), param(text(name))], |row| values::step(row, 0))
    }

    fn events(&self, job: Option<JobId>, after: u64, limit: usize) -> Result<Vec<EventView>, StoreError> {
        let mut asked = vec![param(clamped(after)), param(clamped(limit))];
        let Some(job) = job else { return self.list(sql::EVENTS, &asked, event_view) };
        asked.push(param(job.0));
        self.list(sql::EVENTS_OF_JOB, &asked, event_view)
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        Ok(self.first(sql::LAST_EVENT, &[], |row| values::unsigned(row, 0))?.unwrap_or(0))
    }

    fn log_state(&self, attempt: AttemptId) -> Result<LogState, StoreError> {
        Ok(self.log_states(&[attempt])?.pop().unwrap_or_default())
    }

    fn log_states(&self, attempts: &[AttemptId]) -> Result<Vec<LogState>, StoreError> {
        let ids: Vec<Uuid> = attempts.iter().map(|attempt| attempt.0).collect();
        self.list(sql::LOG_STATES, &[param(ids)], logs::state)
    }

    fn log_chunks(&self, attempt: AttemptId, from_seq: u64, bytes_max: usize) -> Result<Vec<LogChunk>, StoreError> {
        let wanted =
            vec![param(attempt.0), param(clamped(from_seq)), param(clamped(bytes_max)), param(CHUNKS_AT_A_TIME)];
        self.list(sql::LOG_CHUNKS, &wanted, log_chunk)
    }

    fn log_marks(
        &self,
        attempt: AttemptId,
        from_seq: u64,
        to_seq: u64,
        limit: usize,
    ) -> Result<Vec<LogMarkView>, StoreError> {
        let wanted = [param(attempt.0), param(clamped(from_seq)), param(clamped(to_seq)), param(clamped(limit))];
        self.list(sql::LOG_MARKS, &wanted, logs::mark)
    }

    fn beats(&self, attempt: AttemptId) -> Result<Vec<BeatRow>, StoreError> {
        self.list(sql::BEATS_OF_ATTEMPT, &[param(attempt.0)], |row| beats::beat(attempt, row))
    }

    fn stale(&self, before: Time, limit: usize) -> Result<Vec<StaleAttempt>, StoreError> {
        self.list(sql::STALE_ATTEMPTS, &[param(before.0), param(clamped(limit))], beats::stale)
    }

    fn breaker(&self) -> Result<Option<BreakerRow>, StoreError> {
        self.first(sql::BREAKER, &[], |row| {
            Ok(BreakerRow {
                tripped_at: values::time(row, 0)?,
                lost: values::small(row, 1)?,
                connected: values::small(row, 2)?,
                ended_at: values::maybe_time(row, 3)?,
            })
        })
    }

    fn hearing(&self) -> Result<Option<HearingRow>, StoreError> {
        self.first(sql::HEARING, &[], servers::hearing_row)
    }

    fn servers(&self) -> Result<Vec<ServerRow>, StoreError> {
        self.list(sql::SERVERS, &[], servers::server_row)
    }

    fn leases(&self) -> Result<Vec<LeaseRow>, StoreError> {
        Ok(self.list(sql::LEASES, &[], leases::lease_row)?.into_iter().flatten().collect())
    }

    fn workers(&self) -> Result<Vec<Arc<WorkerRow>>, StoreError> {
        self.list(sql::WORKERS, &[], |row| worker_row(row).map(Arc::new))
    }

    fn worker_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerRow>, StoreError> {
        self.first(sql::WORKER_BY_CREDENTIAL, &[param(hash.as_slice())], worker_row)
    }

    fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.list(sql::TOKENS, &[], token_row)
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
        self.first(sql::TOKEN_BY_HASH, &[param(hash.as_slice())], token_row)
    }

    fn idempotency(&self, token: Uuid, key: &str) -> Result<Option<IdempotencyRow>, StoreError> {
        self.first(sql::IDEMPOTENCY, &[param(token), param(text(key))], |row| {
            Ok(IdempotencyRow {
                key: key.to_owned(),
                token,
                request_hash: values::hash(row, 0)?,
                job: values::job(row, 1)?,
                created_at: values::time(row, 2)?,
            })
        })
    }

    fn secrets(&self) -> Result<Vec<SecretRow>, StoreError> {
        self.list(sql::SECRETS, &[], secret_row)
    }

    fn secret(&self, name: &str) -> Result<Option<SecretRow>, StoreError> {
        self.first(sql::SECRET, &[param(text(name))], secret_row)
    }

    fn tasks(&self) -> Result<Vec<TaskRow>, StoreError> {
        self.list(sql::TASKS, &[], task_row)
    }

    fn task_stamps(&self) -> Result<Vec<(String, Time)>, StoreError> {
        self.list(sql::TASK_STAMPS, &[], |row| Ok((get(row, 0)?, values::time(row, 1)?)))
    }

    fn trigger(&self, id: &str) -> Result<Option<TriggerRow>, StoreError> {
        self.first(sql::TRIGGER, &[param(text(id))], triggers::trigger_row)
    }

    fn triggers(&self) -> Result<Vec<TriggerRow>, StoreError> {
        self.list(sql::TRIGGERS, &[], triggers::trigger_row)
    }

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.first(sql::META, &[param(text(key))], |row| get(row, 0))
    }

    fn old_jobs(&self, after: Option<JobId>, until: JobId, limit: usize) -> Result<Vec<OldJob>, StoreError> {
        let after = after.map_or(Uuid::nil(), |job| job.0);
        self.list(sql::OLD_JOBS, &[param(after), param(until.0), param(clamped(limit))], retention::old_job)
    }

    fn old_logs(&self, after: Option<AttemptId>, until: AttemptId, limit: usize) -> Result<Vec<OldLog>, StoreError> {
        let after = after.map_or(Uuid::nil(), |attempt| attempt.0);
        self.list(sql::OLD_LOGS, &[param(after), param(until.0), param(clamped(limit))], retention::old_log)
    }

    fn weight(&self, job: JobId) -> Result<Cleared, StoreError> {
        Ok(self.first(sql::WEIGHT, &[param(job.0)], retention::weight)?.unwrap_or_default())
    }

    fn strays(&self, before: Time) -> Result<Strays, StoreError> {
        let until = JobId::lowest_at(before);
        let words = self.first(sql::STRAY_WORDS, &[param(until.0), param(before.0)], |row| values::unsigned(row, 0))?;
        let quarantined = self.first(sql::STRAY_EVENTS, &[param(before.0)], |row| values::unsigned(row, 0))?;
        Ok(Strays { words: words.unwrap_or_default(), quarantined: quarantined.unwrap_or_default(), more: false })
    }

    fn departed(&self, worker: WorkerId) -> Result<Option<Time>, StoreError> {
        self.first(sql::DEPARTED, &[param(worker.0)], |row| values::time(row, 0))
    }

    fn departed_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerId>, StoreError> {
        self.first(sql::DEPARTED_BY_CREDENTIAL, &[param(hash.as_slice())], |row| values::worker(row, 0))
    }

    fn job_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.list(sql::JOB_COUNTS, &[], |row| Ok((get(row, 0)?, values::unsigned(row, 1)?)))
    }
}

/// A job with its steps and its definition, as they were at one moment. The writer loads by it too.
pub(crate) async fn stored_job(session: &mut Session, id: JobId) -> Result<Option<StoredJob>, Failure> {
    let mut train = Train::default();
    train.add(sql::JOB, vec![param(id.0)]);
    train.add(sql::STEPS_OF_JOB, vec![param(id.0)]);
    let answers = session.run(&train.at_one_moment()).await;
    if answers.is_err() {
        session.roll_back().await;
    }
    let answers = answers?;
    // Between the transaction's begin and its end.
    let [_, job, steps, _] = &answers[..] else { return Ok(None) };
    let Some(row) = job.first() else { return Ok(None) };
    let (job, definition) = loaded_job(id, row)?;
    let steps = steps.iter().map(loaded_step).collect::<Read<_>>()?;
    let missing = || Corrupt::Job { job: id, what: "its definition is not stored".to_owned() };
    let definition = definition.ok_or_else(missing).map_err(StoreError::from)?;
    Ok(Some(StoredJob { job, steps, definition }))
}

/// The same for many. Those without a definition are left out.
pub(crate) async fn stored_jobs(session: &mut Session, ids: &[JobId]) -> Result<Vec<StoredJob>, Failure> {
    let mut train = Train::default();
    train.add(sql::SOME_JOBS, vec![column(ids, |id| id.0)]);
    train.add(sql::STEPS_OF_JOBS, vec![column(ids, |id| id.0)]);
    let answers = session.run(&train.at_one_moment()).await;
    if answers.is_err() {
        session.roll_back().await;
    }
    let answers = answers?;
    let [_, jobs, steps, _] = &answers[..] else { return Ok(Vec::new()) };
    let mut steps_of: HashMap<JobId, Vec<LoadedStep>> = HashMap::new();
    for row in steps {
        steps_of.entry(values::job(row, 5)?).or_default().push(loaded_step(row)?);
    }
    let mut found = Vec::with_capacity(jobs.len());
    for row in jobs {
        let id = values::job(row, 14)?;
        if let (job, Some(definition)) = loaded_job(id, row)? {
            found.push(StoredJob { job, steps: steps_of.remove(&id).unwrap_or_default(), definition });
        }
    }
    Ok(found)
}

pub(crate) fn outbox_view(row: &Row) -> Read<OutboxView> {
    Ok(OutboxView {
        id: values::uuid(row, 0)?,
        job: values::job(row, 1)?,
        kind: get(row, 2)?,
        body: get(row, 3)?,
        created_at: values::time(row, 4)?,
        tries: values::small(row, 5)?,
        next_at: values::maybe_time(row, 6)?,
        delivered_at: values::maybe_time(row, 7)?,
        error: get(row, 8)?,
    })
}

fn loaded_job(id: JobId, row: &Row) -> Read<(LoadedJob, Option<DefinitionRow>)> {
    let job = LoadedJob {
        id,
        parent: values::parent(row, 10)?,
        hook_of: values::maybe_job(row, 12)?,
        group: get(row, 13)?,
        version: values::unsigned(row, 0)?,
        state: get(row, 1)?,
        input: get(row, 2)?,
        submitted_by: get(row, 3)?,
        created_at: values::time(row, 4)?,
        check_at: values::maybe_time(row, 5)?,
        data: get(row, 6)?,
    };
    let (hash, source): ([u8; 32], Option<String>) = (values::hash(row, 7)?, get(row, 8)?);
    let definition = match source {
        Some(source) => Some(DefinitionRow { hash, source, settings: get(row, 9)? }),
        None => None,
    };
    Ok((job, definition))
}

fn loaded_step(row: &Row) -> Read<LoadedStep> {
    Ok(LoadedStep {
        ix: values::step(row, 0)?,
        state: get(row, 1)?,
        check_at: values::maybe_time(row, 2)?,
        updated_at: values::time(row, 3)?,
        data: get(row, 4)?,
    })
}

fn job_summary(row: &Row) -> Read<JobSummary> {
    Ok(JobSummary {
        id: values::job(row, 0)?,
        task: get(row, 1)?,
        state: get(row, 2)?,
        created_at: values::time(row, 3)?,
        started_at: values::maybe_time(row, 4)?,
        ended_at: values::maybe_time(row, 5)?,
        error_code: get(row, 6)?,
        error_message: get(row, 7)?,
        error_step: get(row, 8)?,
        submitted_by: get(row, 9)?,
        parent: values::parent(row, 10)?,
        hook_of: values::maybe_job(row, 12)?,
        group: get(row, 13)?,
        in_line: get(row, 14)?,
    })
}

fn attempt_view(row: &Row) -> Read<AttemptView> {
    Ok(AttemptView {
        id: values::attempt(row, 0)?,
        ix: values::step(row, 1)?,
        number: values::small(row, 2)?,
        fence: values::unsigned(row, 3)?,
        worker: values::worker(row, 4)?,
        worker_name: get(row, 5)?,
        state: get(row, 6)?,
        confirmed: get(row, 7)?,
        started_at: values::time(row, 8)?,
        ended_at: values::maybe_time(row, 9)?,
        exit_code: get(row, 10)?,
        signal: get(row, 11)?,
        error_code: get(row, 12)?,
        error_message: get(row, 13)?,
        late_outcome: get(row, 14)?,
        cpu_ms: values::unsigned(row, 15)?,
        memory_bytes_max: values::unsigned(row, 16)?,
        cleanup: get(row, 17)?,
        duration_ms: values::maybe_unsigned(row, 18)?,
    })
}

fn event_view(row: &Row) -> Read<EventView> {
    Ok(EventView {
        id: values::unsigned(row, 0)?,
        job: values::job(row, 1)?,
        ix: values::maybe_small(row, 2)?.map(StepIx),
        step: get(row, 3)?,
        at: values::time(row, 4)?,
        kind: get(row, 5)?,
        verb: get(row, 6)?,
        from: get(row, 7)?,
        to: get(row, 8)?,
        worker: values::maybe_uuid(row, 9)?.map(WorkerId),
        reason: get(row, 10)?,
    })
}

fn log_chunk(row: &Row) -> Read<LogChunk> {
    Ok(LogChunk { first_seq: values::unsigned(row, 0)?, last_seq: values::unsigned(row, 1)?, blocks: get(row, 2)? })
}

pub(crate) fn worker_row(row: &Row) -> Read<WorkerRow> {
    Ok(WorkerRow {
        id: values::worker(row, 0)?,
        name: get(row, 1)?,
        epoch: engine::Epoch(values::unsigned(row, 2)?),
        draining: get(row, 3)?,
        kind: get(row, 4)?,
        tags: values::tags(row, 5)?,
        slots: values::small(row, 6)?,
        session: values::maybe_uuid(row, 7)?,
        boot_id: get(row, 8)?,
        state_id: values::uuid(row, 9)?,
        machine: get(row, 10)?,
        version: get(row, 11)?,
        platform: get(row, 12)?,
        hostname: get(row, 13)?,
        pid: values::small(row, 14)?,
        created_at: values::time(row, 15)?,
        started_at: values::maybe_time(row, 16)?,
        last_seen_at: values::maybe_time(row, 17)?,
        removed_at: values::maybe_time(row, 18)?,
        left_heard: get::<Option<i64>>(row, 19)?.map(Heard),
        used_epoch: engine::Epoch(values::unsigned(row, 20)?),
        allowed_tags: values::tags(row, 21)?,
        server: values::maybe_uuid(row, 22)?.map(ServerId),
        unwilling: get(row, 23)?,
        features: values::tags(row, 24)?,
        unread: get(row, 25)?,
        after_loss: get::<Option<i64>>(row, 26)?.map(i64::cast_unsigned),
    })
}

fn token_row(row: &Row) -> Read<TokenRow> {
    Ok(TokenRow {
        id: values::uuid(row, 0)?,
        kind: get(row, 1)?,
        role: get(row, 2)?,
        name: get(row, 3)?,
        hash: values::hash(row, 4)?,
        tags: values::tags(row, 5)?,
        uses_left: values::maybe_small(row, 6)?,
        created_at: values::time(row, 7)?,
        expires_at: values::maybe_time(row, 8)?,
        revoked_at: values::maybe_time(row, 9)?,
    })
}

fn secret_row(row: &Row) -> Read<SecretRow> {
    Ok(SecretRow { name: get(row, 0)?, sealed: get(row, 1)?, set_at: values::time(row, 2)?, set_by: get(row, 3)? })
}

fn task_row(row: &Row) -> Read<TaskRow> {
    Ok(TaskRow { name: get(row, 0)?, source: get(row, 1)?, pushed_at: values::time(row, 2)?, pushed_by: get(row, 3)? })
}
