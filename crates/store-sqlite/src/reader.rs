//! Looking, beside the writer. Each call sees one moment.

use std::sync::Arc;

use engine::{AttemptId, Heard, JobId, StepIx, Time, WorkerId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use store::codec::Corrupt;
use store::read::{
    AttemptGlance, AttemptView, EventView, Family, JobSummary, Kin, LineView, Lineage, LogChunk, LogMarkView, LogState,
    OutboxCounts, OutboxView, SlotView, StaleAttempt, StepGlance,
};
use store::rows::{
    BeatRow, BreakerRow, DefinitionRow, HearingRow, IdempotencyRow, LoadedJob, LoadedStep, SecretRow, ServerId,
    ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow, WorkerRow,
};
use store::{Cleared, JobFilter, LeaseRow, OldJob, OldLog, Page, Reader, StoreError, Strays, prefix};
use uuid::Uuid;

use crate::commit;
use crate::error::translate;
use crate::place::Place;
use crate::pool::Pool;
use crate::values::{self, clamped};
use crate::{beats, groups, leases, logs, retention, servers, sql, triggers};

/// Greater than any id, which has a byte less.
const AFTER_ALL_IDS: [u8; 17] = [0xff; 17];

/// Reads from any thread, through a few connections of its own.
#[derive(Debug)]
pub struct SqliteReader {
    pool: Pool,
}

impl SqliteReader {
    pub(crate) fn open(place: Place) -> Result<SqliteReader, StoreError> {
        Ok(SqliteReader { pool: Pool::new(place)? })
    }

    fn look<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let connection = self.pool.lend()?;
        read(&connection).map_err(|e| translate(self.pool.name(), &e))
    }
}

impl Reader for SqliteReader {
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        stored_job(&*self.pool.lend()?, self.pool.name(), id)
    }

    fn jobs_by_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let Some((low, high)) = prefix::range(prefix) else {
            return Ok(Vec::new());
        };
        self.look(|c| {
            let mut ids = c.prepare_cached(sql::JOBS_BY_PREFIX)?;
            let range = params![low.as_bytes(), high.as_bytes(), clamped(limit)];
            ids.query_map(range, |row| values::job(row, 0))?.collect()
        })
    }

    fn last_job(&self) -> Result<Option<JobId>, StoreError> {
        self.look(|c| c.prepare_cached(sql::LAST_JOB)?.query_row([], |row| values::job(row, 0)).optional())
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Page<JobSummary>, StoreError> {
        let before: &[u8] = match &filter.before {
            Some(id) => id.0.as_bytes(),
            None => &AFTER_ALL_IDS,
        };
        // One more than asked for, to know whether there are more.
        let limit = clamped(filter.limit.saturating_add(1));
        let mut items: Vec<JobSummary> = self.look(|c| {
            let list = |text, asked| {
                c.prepare_cached(text)?.query_map::<_, &[&dyn rusqlite::ToSql], _>(asked, job_summary)?.collect()
            };
            match (&filter.task, &filter.state) {
                (None, None) => list(sql::JOBS, &[&before, &limit]),
                (None, Some(state)) => list(sql::JOBS_IN_STATE, &[&before, &limit, state]),
                (Some(task), None) => list(sql::JOBS_OF_TASK, &[&before, &limit, task]),
                (Some(task), Some(state)) => list(sql::JOBS_OF_TASK_IN_STATE, &[&before, &limit, task, state]),
            }
        })?;
        let more = items.len() > filter.limit;
        items.truncate(filter.limit);
        Ok(Page { items, more })
    }

    fn attempts(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.look(|c| {
            let mut attempts = c.prepare_cached(sql::ATTEMPTS_OF_JOB)?;
            attempts.query_map([job.0.as_bytes()], attempt_view)?.collect()
        })
    }

    fn unconfirmed(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.look(|c| {
            let mut attempts = c.prepare_cached(sql::UNCONFIRMED_ATTEMPTS)?;
            attempts.query_map([job.0.as_bytes()], attempt_view)?.collect()
        })
    }

    fn slots(&self, group: &str, ended_after: Time) -> Result<Vec<SlotView>, StoreError> {
        self.look(|c| groups::slots(c, group, ended_after))
    }

    fn line(&self, group: &str, limit: usize) -> Result<Vec<LineView>, StoreError> {
        self.look(|c| groups::line(c, group, limit))
    }

    fn lines(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.look(|c| groups::lines(c, after, limit))
    }

    fn stray_slots(&self, ended_after: Time) -> Result<Vec<(String, JobId)>, StoreError> {
        self.look(|c| groups::stray_slots(c, ended_after))
    }

    fn groups(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.look(|c| groups::groups(c, after, limit))
    }

    fn last_admitted(&self, group: &str) -> Result<Option<JobId>, StoreError> {
        self.look(|c| groups::last_admitted(c, group))
    }

    fn lineage(&self, job: JobId) -> Result<Lineage, StoreError> {
        self.look(|c| {
            let family = |row: &Row<'_>| {
                let kin = |index| Ok::<_, rusqlite::Error>(values::maybe_uuid(row, index)?.map(JobId));
                Ok(Lineage { continues: kin(0)?, resolved_by: kin(1)? })
            };
            c.prepare_cached(sql::LINEAGE)?.query_row([job.0.as_bytes()], family)
        })
    }

    fn family(&self, job: JobId, limit: usize) -> Result<Family, StoreError> {
        self.look(|c| {
            let mut family = Family { root: job, members: Vec::new() };
            let mut members = c.prepare_cached(sql::FAMILY)?;
            let mut rows = members.query(params![job.0.as_bytes(), clamped(limit)])?;
            while let Some(row) = rows.next()? {
                family.root = values::job(row, 0)?;
                let (job, continues) = (values::job(row, 1)?, values::job(row, 2)?);
                family.members.push(Kin { job, continues, number: row.get(3)?, how: row.get(4)? });
            }
            Ok(family)
        })
    }

    fn children(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.look(|c| {
            let mut children = c.prepare_cached(sql::CHILDREN)?;
            children.query_map(params![job.0.as_bytes(), clamped(limit)], |row| values::job(row, 0))?.collect()
        })
    }

    fn hooks(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let asked = params![job.0.as_bytes(), clamped(limit)];
        self.look(|c| c.prepare_cached(sql::HOOKS)?.query_map(asked, |row| values::job(row, 0))?.collect())
    }

    fn outbox_of(&self, job: JobId, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        let asked = params![job.0.as_bytes(), clamped(limit)];
        self.look(|c| c.prepare_cached(sql::OUTBOX_OF_JOB)?.query_map(asked, outbox_view)?.collect())
    }

    fn dead_outbox(&self, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.look(|c| c.prepare_cached(sql::DEAD_OUTBOX)?.query_map([clamped(limit)], outbox_view)?.collect())
    }

    fn outbox(&self, id: Uuid) -> Result<Option<OutboxView>, StoreError> {
        self.look(|c| c.prepare_cached(sql::OUTBOX)?.query_row([id.as_bytes()], outbox_view).optional())
    }

    fn outbox_counts(&self) -> Result<OutboxCounts, StoreError> {
        self.look(|c| {
            c.prepare_cached(sql::OUTBOX_COUNTS)?.query_row([], |row| {
                Ok(OutboxCounts { waiting: values::unsigned(row, 0)?, dead: values::unsigned(row, 1)? })
            })
        })
    }

    fn wanted_artifacts(&self, sets: &[String]) -> Result<Vec<String>, StoreError> {
        self.look(|c| {
            let mut wanted = c.prepare_cached(sql::WANTED_ARTIFACTS)?;
            let mut found = Vec::new();
            for set in sets {
                if wanted.query_row([set], |row| row.get(0))? {
                    found.push(set.clone());
                }
            }
            Ok(found)
        })
    }

    fn definition_of(&self, job: JobId) -> Result<Option<[u8; 32]>, StoreError> {
        self.look(|c| {
            c.prepare_cached(sql::DEFINITION_OF_JOB)?.query_row([job.0.as_bytes()], |row| row.get(0)).optional()
        })
    }

    fn attempt(&self, id: AttemptId) -> Result<Option<AttemptGlance>, StoreError> {
        self.look(|c| {
            let glance = |row: &Row<'_>| {
                Ok(AttemptGlance {
                    number: row.get(0)?,
                    confirmed: row.get(1)?,
                    reported: row.get(2)?,
                    begun: row.get(3)?,
                })
            };
            c.prepare_cached(sql::ATTEMPT)?.query_row([id.0.as_bytes()], glance).optional()
        })
    }

    fn step(&self, job: JobId, ix: StepIx) -> Result<Option<StepGlance>, StoreError> {
        self.look(|c| {
            let place = params![job.0.as_bytes(), ix.0];
            let state = c.prepare_cached(sql::STATE_OF_STEP)?.query_row(place, |row| row.get(0)).optional()?;
            let Some(state) = state else { return Ok(None) };
            let mut select = c.prepare_cached(sql::ATTEMPTS_OF_STEP)?;
            let attempts = select.query_map(place, |row| Ok((values::attempt(row, 0)?, row.get(1)?)))?;
            Ok(Some(StepGlance { state, attempts: attempts.collect::<rusqlite::Result<_>>()? }))
        })
    }

    fn step_named(&self, job: JobId, name: &str) -> Result<Option<StepIx>, StoreError> {
        self.look(|c| {
            let place = params![job.0.as_bytes(), name];
            c.prepare_cached(sql::STEP_NAMED)?.query_row(place, |row| row.get(0).map(StepIx)).optional()
        })
    }

    fn events(&self, job: Option<JobId>, after: u64, limit: usize) -> Result<Vec<EventView>, StoreError> {
        let (after, limit) = (clamped(after), clamped(limit));
        self.look(|c| match job {
            None => c.prepare_cached(sql::EVENTS)?.query_map(params![after, limit], event_view)?.collect(),
            Some(job) => {
                let mut events = c.prepare_cached(sql::EVENTS_OF_JOB)?;
                events.query_map(params![after, limit, job.0.as_bytes()], event_view)?.collect()
            }
        })
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        self.look(commit::last_event)
    }

    fn log_state(&self, attempt: AttemptId) -> Result<LogState, StoreError> {
        Ok(self.log_states(&[attempt])?.pop().unwrap_or_default())
    }

    fn log_states(&self, attempts: &[AttemptId]) -> Result<Vec<LogState>, StoreError> {
        self.look(|c| {
            let mut state = c.prepare_cached(sql::LOG_STATE)?;
            attempts.iter().map(|attempt| state.query_row([attempt.0.as_bytes()], logs::state)).collect()
        })
    }

    fn log_chunks(&self, attempt: AttemptId, from_seq: u64, bytes_max: usize) -> Result<Vec<LogChunk>, StoreError> {
        self.look(|c| {
            let mut select = c.prepare_cached(sql::LOG_CHUNKS)?;
            let mut rows = select.query(params![attempt.0.as_bytes(), clamped(from_seq)])?;
            let (mut chunks, mut bytes) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                bytes += row.get_ref(2)?.as_blob()?.len();
                if bytes > bytes_max && !chunks.is_empty() {
                    break;
                }
                chunks.push(log_chunk(row)?);
            }
            Ok(chunks)
        })
    }

    fn log_marks(
        &self,
        attempt: AttemptId,
        from_seq: u64,
        to_seq: u64,
        limit: usize,
    ) -> Result<Vec<LogMarkView>, StoreError> {
        self.look(|c| {
            let wanted = params![attempt.0.as_bytes(), clamped(from_seq), clamped(to_seq), clamped(limit)];
            c.prepare_cached(sql::LOG_MARKS)?.query_map(wanted, logs::mark)?.collect()
        })
    }

    fn beats(&self, attempt: AttemptId) -> Result<Vec<BeatRow>, StoreError> {
        self.look(|c| {
            let mut select = c.prepare_cached(sql::BEATS_OF_ATTEMPT)?;
            select.query_map([attempt.0.as_bytes()], |row| beats::beat(attempt, row))?.collect()
        })
    }

    fn stale(&self, before: Time, limit: usize) -> Result<Vec<StaleAttempt>, StoreError> {
        self.look(|c| {
            let mut select = c.prepare_cached(sql::STALE_ATTEMPTS)?;
            select.query_map(params![before.0, clamped(limit)], beats::stale)?.collect()
        })
    }

    fn breaker(&self) -> Result<Option<BreakerRow>, StoreError> {
        let breaker = |row: &Row<'_>| {
            Ok(BreakerRow {
                tripped_at: values::time(row, 0)?,
                lost: row.get(1)?,
                connected: row.get(2)?,
                ended_at: values::maybe_time(row, 3)?,
            })
        };
        self.look(|c| c.prepare_cached(sql::BREAKER)?.query_row([], breaker).optional())
    }

    fn hearing(&self) -> Result<Option<HearingRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::HEARING)?.query_row([], servers::hearing_row).optional())
    }

    fn servers(&self) -> Result<Vec<ServerRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::SERVERS)?.query_map([], servers::server_row)?.collect())
    }

    fn leases(&self) -> Result<Vec<LeaseRow>, StoreError> {
        let all: Vec<_> = self.look(|c| c.prepare_cached(sql::LEASES)?.query_map([], leases::lease_row)?.collect())?;
        Ok(all.into_iter().flatten().collect())
    }

    fn workers(&self) -> Result<Vec<Arc<WorkerRow>>, StoreError> {
        self.look(|c| c.prepare_cached(sql::WORKERS)?.query_map([], |row| worker_row(row).map(Arc::new))?.collect())
    }

    fn worker_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::WORKER_BY_CREDENTIAL)?.query_row([hash], worker_row).optional())
    }

    fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::TOKENS)?.query_map([], token_row)?.collect())
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::TOKEN_BY_HASH)?.query_row([hash], token_row).optional())
    }

    fn idempotency(&self, token: Uuid, key: &str) -> Result<Option<IdempotencyRow>, StoreError> {
        self.look(|c| {
            let mut select = c.prepare_cached(sql::IDEMPOTENCY)?;
            let found = select.query_row(params![token.as_bytes(), key], |row| {
                Ok(IdempotencyRow {
                    key: key.to_owned(),
                    token,
                    request_hash: row.get(0)?,
                    job: values::job(row, 1)?,
                    created_at: values::time(row, 2)?,
                })
            });
            found.optional()
        })
    }

    fn secrets(&self) -> Result<Vec<SecretRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::SECRETS)?.query_map([], secret_row)?.collect())
    }

    fn secret(&self, name: &str) -> Result<Option<SecretRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::SECRET)?.query_row([name], secret_row).optional())
    }

    fn tasks(&self) -> Result<Vec<TaskRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::TASKS)?.query_map([], task_row)?.collect())
    }

    fn task_stamps(&self) -> Result<Vec<(String, Time)>, StoreError> {
        let stamp = |row: &Row<'_>| Ok((row.get(0)?, Time(row.get(1)?)));
        self.look(|c| c.prepare_cached(sql::TASK_STAMPS)?.query_map([], stamp)?.collect())
    }

    fn trigger(&self, id: &str) -> Result<Option<TriggerRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::TRIGGER)?.query_row([id], triggers::trigger_row).optional())
    }

    fn triggers(&self) -> Result<Vec<TriggerRow>, StoreError> {
        self.look(|c| c.prepare_cached(sql::TRIGGERS)?.query_map([], triggers::trigger_row)?.collect())
    }

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.look(|c| c.prepare_cached(sql::META)?.query_row([key], |row| row.get(0)).optional())
    }

    fn old_jobs(&self, after: Option<JobId>, until: JobId, limit: usize) -> Result<Vec<OldJob>, StoreError> {
        self.look(|c| retention::old_jobs(c, after, until, limit))
    }

    fn old_logs(&self, after: Option<AttemptId>, until: AttemptId, limit: usize) -> Result<Vec<OldLog>, StoreError> {
        self.look(|c| retention::old_logs(c, after, until, limit))
    }

    fn weight(&self, job: JobId) -> Result<Cleared, StoreError> {
        self.look(|c| retention::weight(c, job))
    }

    fn strays(&self, before: Time) -> Result<Strays, StoreError> {
        self.look(|c| retention::strays(c, before))
    }

    fn departed(&self, worker: WorkerId) -> Result<Option<Time>, StoreError> {
        self.look(|c| retention::departed(c, worker))
    }

    fn departed_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerId>, StoreError> {
        self.look(|c| retention::departed_by_credential(c, hash))
    }

    fn job_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.look(|c| {
            let mut counts = c.prepare_cached(sql::JOB_COUNTS)?;
            counts.query_map([], |row| Ok((row.get(0)?, values::unsigned(row, 1)?)))?.collect()
        })
    }
}

/// A job with its steps and its definition, as they were at one moment. The writer loads by it too.
pub(crate) fn stored_job(connection: &Connection, path: &str, id: JobId) -> Result<Option<StoredJob>, StoreError> {
    let Some(found) = find_job(connection, id).map_err(|e| translate(path, &e))? else {
        return Ok(None);
    };
    let Found { job, definition, steps } = found;
    let missing = || Corrupt::Job { job: id, what: "its definition is not stored".to_owned() };
    Ok(Some(StoredJob { job, steps, definition: definition.ok_or_else(missing)? }))
}

struct Found {
    job: LoadedJob,
    definition: Option<DefinitionRow>,
    steps: Vec<LoadedStep>,
}

fn find_job(connection: &Connection, id: JobId) -> rusqlite::Result<Option<Found>> {
    let moment = connection.unchecked_transaction()?;
    let key = [id.0.as_bytes()];
    let head = moment.prepare_cached(sql::JOB)?.query_row(key, |row| loaded_job(id, row)).optional()?;
    let Some((job, definition)) = head else {
        return Ok(None);
    };
    let mut select = moment.prepare_cached(sql::STEPS_OF_JOB)?;
    let steps = select.query_map(key, loaded_step)?.collect::<rusqlite::Result<_>>()?;
    Ok(Some(Found { job, definition, steps }))
}

pub(crate) fn outbox_view(row: &Row<'_>) -> rusqlite::Result<OutboxView> {
    Ok(OutboxView {
        id: values::uuid(row, 0)?,
        job: values::job(row, 1)?,
        kind: row.get(2)?,
        body: row.get(3)?,
        created_at: values::time(row, 4)?,
        tries: row.get(5)?,
        next_at: values::maybe_time(row, 6)?,
        delivered_at: values::maybe_time(row, 7)?,
        error: row.get(8)?,
    })
}

fn loaded_job(id: JobId, row: &Row<'_>) -> rusqlite::Result<(LoadedJob, Option<DefinitionRow>)> {
    let job = LoadedJob {
        id,
        parent: values::parent(row, 10)?,
        hook_of: values::maybe_job(row, 12)?,
        group: row.get(13)?,
        version: values::unsigned(row, 0)?,
        state: row.get(1)?,
        input: row.get(2)?,
        submitted_by: row.get(3)?,
        created_at: values::time(row, 4)?,
        check_at: values::maybe_time(row, 5)?,
        data: row.get(6)?,
    };
    let (hash, source): ([u8; 32], Option<String>) = (row.get(7)?, row.get(8)?);
    let definition = match source {
        Some(source) => Some(DefinitionRow { hash, source, settings: row.get(9)? }),
        None => None,
    };
    Ok((job, definition))
}

fn loaded_step(row: &Row<'_>) -> rusqlite::Result<LoadedStep> {
    Ok(LoadedStep {
        ix: values::step(row, 0)?,
        state: row.get(1)?,
        check_at: values::maybe_time(row, 2)?,
        updated_at: values::time(row, 3)?,
        data: row.get(4)?,
    })
}

fn job_summary(row: &Row<'_>) -> rusqlite::Result<JobSummary> {
    Ok(JobSummary {
        id: values::job(row, 0)?,
        task: row.get(1)?,
        state: row.get(2)?,
        created_at: values::time(row, 3)?,
        started_at: values::maybe_time(row, 4)?,
        ended_at: values::maybe_time(row, 5)?,
        error_code: row.get(6)?,
        error_message: row.get(7)?,
        error_step: row.get(8)?,
        submitted_by: row.get(9)?,
        parent: values::parent(row, 10)?,
        hook_of: values::maybe_job(row, 12)?,
        group: row.get(13)?,
        in_line: row.get(14)?,
    })
}

fn attempt_view(row: &Row<'_>) -> rusqlite::Result<AttemptView> {
    Ok(AttemptView {
        id: values::attempt(row, 0)?,
        ix: values::step(row, 1)?,
        number: row.get(2)?,
        fence: values::unsigned(row, 3)?,
        worker: values::worker(row, 4)?,
        worker_name: row.get(5)?,
        state: row.get(6)?,
        confirmed: row.get(7)?,
        started_at: values::time(row, 8)?,
        ended_at: values::maybe_time(row, 9)?,
        exit_code: row.get(10)?,
        signal: row.get(11)?,
        error_code: row.get(12)?,
        error_message: row.get(13)?,
        late_outcome: row.get(14)?,
        cpu_ms: values::unsigned(row, 15)?,
        memory_bytes_max: values::unsigned(row, 16)?,
        cleanup: row.get(17)?,
        duration_ms: values::maybe_unsigned(row, 18)?,
    })
}

fn event_view(row: &Row<'_>) -> rusqlite::Result<EventView> {
    Ok(EventView {
        id: values::unsigned(row, 0)?,
        job: values::job(row, 1)?,
        ix: row.get::<_, Option<u32>>(2)?.map(engine::StepIx),
        step: row.get(3)?,
        at: values::time(row, 4)?,
        kind: row.get(5)?,
        verb: row.get(6)?,
        from: row.get(7)?,
        to: row.get(8)?,
        worker: values::maybe_uuid(row, 9)?.map(engine::WorkerId),
        reason: row.get(10)?,
    })
}

fn log_chunk(row: &Row<'_>) -> rusqlite::Result<LogChunk> {
    Ok(LogChunk { first_seq: values::unsigned(row, 0)?, last_seq: values::unsigned(row, 1)?, blocks: row.get(2)? })
}

pub(crate) fn worker_row(row: &Row<'_>) -> rusqlite::Result<WorkerRow> {
    Ok(WorkerRow {
        id: values::worker(row, 0)?,
        name: row.get(1)?,
        epoch: engine::Epoch(values::unsigned(row, 2)?),
        draining: row.get(3)?,
        kind: row.get(4)?,
        tags: values::tags(row, 5)?,
        slots: row.get(6)?,
        session: values::maybe_uuid(row, 7)?,
        boot_id: row.get(8)?,
        state_id: values::uuid(row, 9)?,
        machine: row.get(10)?,
        version: row.get(11)?,
        platform: row.get(12)?,
        hostname: row.get(13)?,
        pid: row.get(14)?,
        created_at: values::time(row, 15)?,
        started_at: values::maybe_time(row, 16)?,
        last_seen_at: values::maybe_time(row, 17)?,
        removed_at: values::maybe_time(row, 18)?,
        left_heard: row.get::<_, Option<i64>>(19)?.map(Heard),
        used_epoch: engine::Epoch(values::unsigned(row, 20)?),
        allowed_tags: values::tags(row, 21)?,
        server: values::maybe_uuid(row, 22)?.map(ServerId),
        unwilling: row.get(23)?,
        features: values::tags(row, 24)?,
        unread: row.get(25)?,
        after_loss: row.get::<_, Option<i64>>(26)?.map(i64::cast_unsigned),
    })
}

fn token_row(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    Ok(TokenRow {
        id: values::uuid(row, 0)?,
        kind: row.get(1)?,
        role: row.get(2)?,
        name: row.get(3)?,
        hash: row.get(4)?,
        tags: values::tags(row, 5)?,
        uses_left: row.get(6)?,
        created_at: values::time(row, 7)?,
        expires_at: values::maybe_time(row, 8)?,
        revoked_at: values::maybe_time(row, 9)?,
    })
}

fn secret_row(row: &Row<'_>) -> rusqlite::Result<SecretRow> {
    Ok(SecretRow { name: row.get(0)?, sealed: row.get(1)?, set_at: values::time(row, 2)?, set_by: row.get(3)? })
}

fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow { name: row.get(0)?, source: row.get(1)?, pushed_at: values::time(row, 2)?, pushed_by: row.get(3)? })
}
