//! Looking at the tables. Each call sees one moment.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::codec::{self, Corrupt};
use store::read::{
    AttemptGlance, AttemptView, EventView, Family, JobSummary, Kin, LineView, Lineage, LogChunk, LogMarkView, LogState,
    OutboxCounts, OutboxView, SlotView, StaleAttempt, StepGlance,
};
use store::rows::{
    BeatRole, BeatRow, BreakerRow, EventRow, HearingRow, IdempotencyRow, JobRow, LineageRow, LoadedJob, LoadedStep,
    SecretRow, ServerRow, StepRow, StoredJob, TaskRow, TokenRow, TriggerRow, WorkerRow,
};
use store::{Cleared, JobFilter, LeaseRow, OldJob, OldLog, Page, Reader, StoreError, Strays, prefix};
use uuid::Uuid;

use crate::database::MemoryDatabase;
use crate::groups;
use crate::indexes::StepPlace;
use crate::retention;
use crate::tables::{AttemptRecord, MarkRow, OutboxRecord, Tables};

/// Reads from any thread.
#[derive(Debug)]
pub struct MemoryReader {
    database: MemoryDatabase,
}

impl MemoryReader {
    pub(crate) fn new(database: MemoryDatabase) -> MemoryReader {
        MemoryReader { database }
    }

    fn look<T>(&self, read: impl FnOnce(&Tables) -> T) -> Result<T, StoreError> {
        Ok(read(&self.database.lock()))
    }
}

impl Reader for MemoryReader {
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        stored_job(&self.database.lock(), id)
    }

    fn jobs_by_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let Some((low, high)) = prefix::range(prefix) else {
            return Ok(Vec::new());
        };
        self.look(|t| {
            let found = |begun: bool| {
                let range = t.jobs.range(JobId(low)..=JobId(high));
                range
                    .filter(move |(_, row)| (row.parent.is_some() || row.hook_of.is_some()) == begun)
                    .map(|(id, _)| *id)
            };
            found(false).chain(found(true)).take(limit).collect()
        })
    }

    fn last_job(&self) -> Result<Option<JobId>, StoreError> {
        self.look(|t| {
            t.jobs.iter().rev().find(|(_, row)| row.parent.is_none() && row.hook_of.is_none()).map(|(id, _)| *id)
        })
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Page<JobSummary>, StoreError> {
        self.look(|t| {
            // One more than asked for, to know whether there are more.
            let wanted = filter.limit.saturating_add(1);
            let mut items: Vec<_> = listed(t, filter).take(wanted).map(job_summary).collect();
            let more = items.len() > filter.limit;
            items.truncate(filter.limit);
            Page { items, more }
        })
    }

    fn attempts(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.look(|t| {
            let places = t.attempts.index().range(of_step((job, StepIx(0)))..);
            let ids = places.take_while(|((of, _), ..)| *of == job).map(|(.., id)| id);
            ids.filter_map(|id| Some(attempt_view(t, t.attempts.get(id)?))).collect()
        })
    }

    fn unconfirmed(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        let given_up = |attempt: &AttemptView| !attempt.confirmed && attempt.ended_at.is_some();
        Ok(self.attempts(job)?.into_iter().filter(given_up).collect())
    }

    fn slots(&self, group: &str, ended_after: Time) -> Result<Vec<SlotView>, StoreError> {
        self.look(|t| groups::slots(t, group, ended_after))
    }

    fn line(&self, group: &str, limit: usize) -> Result<Vec<LineView>, StoreError> {
        self.look(|t| groups::line(t, group, limit))
    }

    fn lines(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.look(|t| groups::lines(t, after, limit))
    }

    fn stray_slots(&self, ended_after: Time) -> Result<Vec<(String, JobId)>, StoreError> {
        self.look(|t| groups::stray_slots(t, ended_after))
    }

    fn groups(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.look(|t| groups::groups(t, after, limit))
    }

    fn last_admitted(&self, group: &str) -> Result<Option<JobId>, StoreError> {
        self.look(|t| t.groups.get(&group.to_owned()).map(|row| row.last_admitted))
    }

    fn lineage(&self, job: JobId) -> Result<Lineage, StoreError> {
        self.look(|t| Lineage {
            continues: t.lineage.get(&job).map(|row| row.continues),
            resolved_by: t.lineage.index().stands_in.get(&job).copied(),
        })
    }

    fn family(&self, job: JobId, limit: usize) -> Result<Family, StoreError> {
        self.look(|t| {
            let root = t.lineage.get(&job).map_or(job, |row| row.root);
            let places = t.lineage.index().places.range((root, 0)..=(root, u32::MAX)).rev().take(limit);
            let kin = |row: &LineageRow| Kin {
                job: row.job,
                continues: row.continues,
                number: row.number,
                how: row.how.to_owned(),
            };
            Family { root, members: places.filter_map(|(_, job)| t.lineage.get(job)).map(kin).collect() }
        })
    }

    fn children(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.look(|t| {
            let of_parent = t.jobs.index().children.range((job, Time(i64::MIN), JobId(Uuid::nil()))..);
            of_parent.take_while(|(parent, ..)| *parent == job).map(|(.., id)| *id).take(limit).collect()
        })
    }

    fn hooks(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.look(|t| {
            let of_job = t.jobs.index().hooks.range((job, Time(i64::MIN), JobId(Uuid::nil()))..);
            of_job.take_while(|(of, ..)| *of == job).map(|(.., id)| *id).take(limit).collect()
        })
    }

    fn outbox_of(&self, job: JobId, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.look(|t| {
            let of_job = t.outbox.index().by_job.range((job, Time(i64::MIN), Uuid::nil())..);
            let of_job = of_job.take_while(|(of, ..)| *of == job).take(limit);
            of_job.filter_map(|(.., id)| t.outbox.get(id)).map(OutboxRecord::view).collect()
        })
    }

    fn dead_outbox(&self, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.look(|t| {
            let dead = t.outbox.index().dead.iter().take(limit);
            dead.filter_map(|(_, id)| t.outbox.get(id)).map(OutboxRecord::view).collect()
        })
    }

    fn outbox(&self, id: Uuid) -> Result<Option<OutboxView>, StoreError> {
        self.look(|t| t.outbox.get(&id).map(OutboxRecord::view))
    }

    fn outbox_counts(&self) -> Result<OutboxCounts, StoreError> {
        self.look(|t| OutboxCounts {
            waiting: t.outbox.iter().filter(|(_, post)| post.next_at.is_some()).count() as u64,
            dead: t.outbox.index().dead.len() as u64,
        })
    }

    fn wanted_artifacts(&self, sets: &[String]) -> Result<Vec<String>, StoreError> {
        self.look(|t| {
            let left = t.steps.iter().filter_map(|(_, row)| row.artifacts.clone());
            let late = t.attempts.iter().filter_map(|(_, record)| record.late_outcome.as_ref());
            let wanted: BTreeSet<String> =
                left.chain(late.filter_map(|(outcome, _)| codec::late_artifacts(outcome))).collect();
            sets.iter().filter(|set| wanted.contains(*set)).cloned().collect()
        })
    }

    fn definition_of(&self, job: JobId) -> Result<Option<[u8; 32]>, StoreError> {
        self.look(|t| t.jobs.get(&job).map(|row| row.definition))
    }

    fn attempt(&self, id: AttemptId) -> Result<Option<AttemptGlance>, StoreError> {
        self.look(|t| {
            let AttemptRecord { row, begun, late_outcome } =
                t.attempts.get(&id).filter(|a| t.jobs.contains(&a.row.job))?;
            let reported = row.state == "ended" || late_outcome.is_some();
            Some(AttemptGlance { number: row.number, confirmed: row.confirmed, reported, begun: *begun })
        })
    }

    fn step(&self, job: JobId, ix: StepIx) -> Result<Option<StepGlance>, StoreError> {
        self.look(|t| {
            let state = t.steps.get(&(job, ix))?.state.to_owned();
            let attempts = t.attempts.index().range(of_step((job, ix))..);
            let attempts = attempts.take_while(|(place, ..)| *place == (job, ix));
            Some(StepGlance { state, attempts: attempts.map(|(_, number, id)| (*id, *number)).collect() })
        })
    }

    fn step_named(&self, job: JobId, name: &str) -> Result<Option<StepIx>, StoreError> {
        self.look(|t| {
            let mut steps = t.steps.range((job, StepIx(0))..=(job, StepIx(u32::MAX)));
            steps.find(|(_, row)| row.name == name).map(|((_, ix), _)| *ix)
        })
    }

    fn events(&self, job: Option<JobId>, after: u64, limit: usize) -> Result<Vec<EventView>, StoreError> {
        let Some(first) = after.checked_add(1) else {
            return Ok(Vec::new());
        };
        self.look(|t| match job {
            None => t.events.range(first..).take(limit).map(|(id, row)| event_view(t, *id, row)).collect(),
            Some(job) => {
                let own = t.events.index().range((job, first)..=(job, u64::MAX)).take(limit);
                own.filter_map(|(_, id)| Some(event_view(t, *id, t.events.get(id)?))).collect()
            }
        })
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        self.look(Tables::last_event)
    }

    fn log_state(&self, attempt: AttemptId) -> Result<LogState, StoreError> {
        self.look(|t| t.log_state(attempt))
    }

    fn log_states(&self, attempts: &[AttemptId]) -> Result<Vec<LogState>, StoreError> {
        self.look(|t| attempts.iter().map(|attempt| t.log_state(*attempt)).collect())
    }

    fn log_chunks(&self, attempt: AttemptId, from_seq: u64, bytes_max: usize) -> Result<Vec<LogChunk>, StoreError> {
        self.look(|t| {
            // From the chunk that holds the line on: the last one that begins at or before it, if it reaches that far.
            let holder = t.chunks.range((attempt, 0)..=(attempt, from_seq)).next_back();
            let begin = holder.map_or(0, |((_, first), _)| *first);
            let (mut chunks, mut bytes) = (Vec::new(), 0);
            for ((_, first), chunk) in t.chunks.range((attempt, begin)..=(attempt, u64::MAX)) {
                if chunk.last_seq < from_seq {
                    continue;
                }
                bytes += chunk.blocks.len();
                if bytes > bytes_max && !chunks.is_empty() {
                    break;
                }
                let (last_seq, blocks) = (chunk.last_seq, chunk.blocks.clone());
                chunks.push(LogChunk { first_seq: *first, last_seq, blocks });
            }
            chunks
        })
    }

    fn log_marks(
        &self,
        attempt: AttemptId,
        from_seq: u64,
        to_seq: u64,
        limit: usize,
    ) -> Result<Vec<LogMarkView>, StoreError> {
        if from_seq > to_seq {
            return Ok(Vec::new());
        }
        self.look(|t| {
            let marks = t.marks.range((attempt, from_seq, 0)..=(attempt, to_seq, u32::MAX)).take(limit);
            marks.map(|(_, mark)| mark_view(mark)).collect()
        })
    }

    fn beats(&self, attempt: AttemptId) -> Result<Vec<BeatRow>, StoreError> {
        self.look(|t| {
            let mut beats: Vec<_> = beats_of(t, attempt).cloned().collect();
            beats.sort_by_key(|beat| (beat.role, beat.last_at));
            beats
        })
    }

    fn stale(&self, before: Time, limit: usize) -> Result<Vec<StaleAttempt>, StoreError> {
        self.look(|t| {
            let held = t.steps.index().held.iter().filter_map(|(.., place)| stale_attempt(t, t.steps.get(place)?));
            let mut stale: Vec<_> = held.filter(|held| held.last_sign < before).collect();
            stale.sort_by_key(|held| held.last_sign);
            stale.truncate(limit);
            stale
        })
    }

    fn breaker(&self) -> Result<Option<BreakerRow>, StoreError> {
        self.look(|t| t.breaker.get(&()).copied())
    }

    fn hearing(&self) -> Result<Option<HearingRow>, StoreError> {
        self.look(|t| t.hearing.get(&()).copied())
    }

    fn servers(&self) -> Result<Vec<ServerRow>, StoreError> {
        self.look(|t| {
            let mut servers: Vec<_> = t.servers.iter().map(|(_, row)| row.clone()).collect();
            servers.sort_by_key(|row| row.generation);
            servers
        })
    }

    fn leases(&self) -> Result<Vec<LeaseRow>, StoreError> {
        self.look(|t| t.leases.iter().map(|(_, row)| *row).collect())
    }

    fn workers(&self) -> Result<Vec<Arc<WorkerRow>>, StoreError> {
        self.look(|t| t.workers.index().name.values().cloned().collect())
    }

    fn worker_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerRow>, StoreError> {
        self.look(|t| t.worker(*t.workers.index().credential.get(hash)?).cloned())
    }

    fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.look(|t| {
            let mut tokens: Vec<_> = t.tokens.iter().map(|(_, row)| row.clone()).collect();
            tokens.sort_by_key(|token| (token.created_at, token.id));
            tokens
        })
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
        self.look(|t| t.tokens.get(t.tokens.index().get(hash)?).cloned())
    }

    fn idempotency(&self, token: Uuid, key: &str) -> Result<Option<IdempotencyRow>, StoreError> {
        self.look(|t| t.idempotency.get(&(token, key.to_owned())).cloned())
    }

    fn secrets(&self) -> Result<Vec<SecretRow>, StoreError> {
        self.look(|t| t.secrets.iter().map(|(_, row)| row.clone()).collect())
    }

    fn secret(&self, name: &str) -> Result<Option<SecretRow>, StoreError> {
        self.look(|t| t.secrets.get(&name.to_owned()).cloned())
    }

    fn tasks(&self) -> Result<Vec<TaskRow>, StoreError> {
        self.look(|t| t.tasks.iter().map(|(_, row)| row.clone()).collect())
    }

    fn task_stamps(&self) -> Result<Vec<(String, Time)>, StoreError> {
        self.look(|t| t.tasks.iter().map(|(name, row)| (name.clone(), row.pushed_at)).collect())
    }

    fn trigger(&self, id: &str) -> Result<Option<TriggerRow>, StoreError> {
        self.look(|t| t.triggers.get(&id.to_owned()).cloned())
    }

    fn triggers(&self) -> Result<Vec<TriggerRow>, StoreError> {
        self.look(|t| t.triggers.iter().map(|(_, row)| row.clone()).collect())
    }

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.look(|t| t.meta.get(&key.to_owned()).map(|row| row.0.clone()))
    }

    fn old_jobs(&self, after: Option<JobId>, until: JobId, limit: usize) -> Result<Vec<OldJob>, StoreError> {
        self.look(|t| retention::old_jobs(t, after, until, limit))
    }

    fn old_logs(&self, after: Option<AttemptId>, until: AttemptId, limit: usize) -> Result<Vec<OldLog>, StoreError> {
        self.look(|t| retention::old_logs(t, after, until, limit))
    }

    fn weight(&self, job: JobId) -> Result<Cleared, StoreError> {
        self.look(|t| retention::weight(t, job))
    }

    fn strays(&self, before: Time) -> Result<Strays, StoreError> {
        self.look(|t| retention::strays(t, before))
    }

    fn departed(&self, worker: WorkerId) -> Result<Option<Time>, StoreError> {
        self.look(|t| t.departed.get(&worker).map(|row| row.at))
    }

    fn departed_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerId>, StoreError> {
        self.look(|t| t.departed.index().get(hash).copied())
    }

    fn job_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.look(|t| {
            let states = t.jobs.index().by_state.iter().filter(|(_, jobs)| !jobs.is_empty());
            states.map(|(state, jobs)| ((*state).to_owned(), jobs.len() as u64)).collect()
        })
    }
}

/// A job with its steps and its definition. The writer loads by it too.
pub(crate) fn stored_job(tables: &Tables, id: JobId) -> Result<Option<StoredJob>, StoreError> {
    let Some(row) = tables.jobs.get(&id) else {
        return Ok(None);
    };
    let missing = || Corrupt::Job { job: id, what: "its definition is not stored".to_owned() };
    let definition = tables.definitions.get(&row.definition).cloned().ok_or_else(missing)?;
    let steps = tables.steps.range((id, StepIx(0))..=(id, StepIx(u32::MAX)));
    let steps = steps.map(|(_, step)| loaded_step(step)).collect();
    Ok(Some(StoredJob { job: loaded_job(row), steps, definition }))
}

fn loaded_job(row: &JobRow) -> LoadedJob {
    LoadedJob {
        id: row.id,
        parent: row.parent,
        hook_of: row.hook_of,
        group: row.group.clone(),
        version: row.version,
        state: row.state.to_owned(),
        input: row.input.clone(),
        submitted_by: row.submitted_by.clone(),
        created_at: row.created_at,
        check_at: row.check_at,
        data: row.data.clone(),
    }
}

fn loaded_step(row: &StepRow) -> LoadedStep {
    LoadedStep {
        ix: row.ix,
        state: row.state.to_owned(),
        check_at: row.check_at,
        updated_at: row.updated_at,
        data: row.data.clone(),
    }
}

/// Jobs that pass the filter, the newest first.
fn listed<'a>(tables: &'a Tables, filter: &'a JobFilter) -> Box<dyn Iterator<Item = &'a JobRow> + 'a> {
    let older = (Bound::Unbounded, filter.before.map_or(Bound::Unbounded, Bound::Excluded));
    let index = tables.jobs.index();
    let narrowed = match (&filter.task, &filter.state) {
        (Some(task), _) => index.by_task.get(task),
        (None, Some(state)) => index.by_state.get(state.as_str()),
        (None, None) => return Box::new(tables.jobs.range(older).rev().map(|(_, row)| row)),
    };
    let ids = narrowed.into_iter().flat_map(move |ids| ids.range(older).rev());
    let fits = |row: &&JobRow| filter.state.as_deref().is_none_or(|state| row.state == state);
    Box::new(ids.filter_map(|id| tables.jobs.get(id)).filter(fits))
}

fn job_summary(row: &JobRow) -> JobSummary {
    JobSummary {
        id: row.id,
        task: row.task.clone(),
        state: row.state.to_owned(),
        created_at: row.created_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
        error_code: row.error_code.map(str::to_owned),
        error_message: row.error_message.clone(),
        error_step: row.error_step.clone(),
        submitted_by: row.submitted_by.clone(),
        parent: row.parent,
        hook_of: row.hook_of,
        group: row.group.clone(),
        in_line: row.group.is_some() && row.admitted_at.is_none() && row.check_at.is_some(),
    }
}

/// The place in the attempts' order before all of a step's.
fn of_step(place: StepPlace) -> (StepPlace, u32, AttemptId) {
    (place, 0, AttemptId(Uuid::nil()))
}

fn attempt_view(tables: &Tables, record: &AttemptRecord) -> AttemptView {
    let row = &record.row;
    AttemptView {
        id: row.id,
        ix: row.ix,
        number: row.number,
        fence: row.fence.0,
        worker: row.worker,
        worker_name: tables.worker(row.worker).map(|worker| worker.name.clone()),
        state: row.state.to_owned(),
        confirmed: row.confirmed,
        started_at: row.started_at,
        ended_at: row.ended_at,
        exit_code: row.exit_code,
        signal: row.signal,
        error_code: row.error_code.map(str::to_owned),
        error_message: row.error_message.clone(),
        late_outcome: record.late_outcome.as_ref().map(|(outcome, _)| outcome.clone()),
        duration_ms: row.duration_ms,
        cpu_ms: row.cpu_ms,
        memory_bytes_max: row.memory_bytes_max,
        cleanup: row.cleanup.clone(),
    }
}

fn event_view(tables: &Tables, id: u64, row: &EventRow) -> EventView {
    let step = row.ix.and_then(|ix| tables.steps.get(&(row.job, ix)));
    EventView {
        id,
        job: row.job,
        ix: row.ix,
        step: step.map(|step| step.name.clone()),
        at: row.at,
        kind: row.kind.to_owned(),
        verb: row.verb.map(str::to_owned),
        from: row.from.map(str::to_owned),
        to: row.to.map(str::to_owned),
        worker: row.worker,
        reason: row.reason.clone(),
    }
}

fn mark_view(row: &MarkRow) -> LogMarkView {
    LogMarkView {
        after_seq: row.after_seq,
        sub: row.sub,
        at: row.at,
        missing: row.missing,
        closing: row.closing,
        text: row.text.clone(),
    }
}

fn beats_of(tables: &Tables, attempt: AttemptId) -> impl Iterator<Item = &BeatRow> {
    let first = (attempt, WorkerId(Uuid::nil()), BeatRole::Claimer);
    tables.beats.range(first..).take_while(move |((of, ..), _)| *of == attempt).map(|(_, beat)| beat)
}

/// What a worker holds, and when it last gave a sign of life: the runner once one was heard, else the worker itself.
fn stale_attempt(tables: &Tables, step: &StepRow) -> Option<StaleAttempt> {
    let (attempt, worker_id) = (step.attempt?, step.worker?);
    let last_of = |role| beats_of(tables, attempt).filter(|beat| beat.role == role).map(|beat| beat.last_at).max();
    let (claimer_at, runner_at) = (last_of(BeatRole::Claimer), last_of(BeatRole::Runner));
    let worker = tables.worker(worker_id);
    Some(StaleAttempt {
        job: step.job,
        ix: step.ix,
        step: step.name.clone(),
        state: step.state.to_owned(),
        attempt,
        worker: worker_id,
        worker_name: worker.map(|worker| worker.name.clone()),
        hostname: worker.map(|worker| worker.hostname.clone()).unwrap_or_default(),
        claimer_at,
        runner_at,
        last_sign: runner_at.or(claimer_at).unwrap_or(step.updated_at),
    })
}
