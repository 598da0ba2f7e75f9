//! A server's reader, which fails when its database does: decisions are made by looks, too.

use std::sync::{Arc, Mutex};

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::read::{
    AttemptGlance, AttemptView, EventView, Family, JobSummary, LineView, Lineage, LogChunk, LogMarkView, LogState,
    OutboxCounts, OutboxView, SlotView, StaleAttempt, StepGlance,
};
use store::rows::{
    BeatRow, BreakerRow, HearingRow, IdempotencyRow, SecretRow, ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow,
    WorkerRow,
};
use store::{Cleared, JobFilter, LeaseRow, OldJob, OldLog, Page, Reader, StoreError, Strays};
use uuid::Uuid;

use super::{Trouble, away, lock};

pub(super) struct Look {
    pub(super) server: usize,
    pub(super) troubles: Arc<Mutex<Vec<Trouble>>>,
    pub(super) rows: Arc<dyn Reader>,
}

impl Look {
    fn reach(&self) -> Result<&dyn Reader, StoreError> {
        if lock(&self.troubles)[self.server].lets_through() { Ok(&*self.rows) } else { Err(away()) }
    }
}

impl Reader for Look {
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.reach()?.job(id)
    }

    fn jobs_by_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.reach()?.jobs_by_prefix(prefix, limit)
    }

    fn slots(&self, group: &str, ended_after: Time) -> Result<Vec<SlotView>, StoreError> {
        self.reach()?.slots(group, ended_after)
    }

    fn line(&self, group: &str, limit: usize) -> Result<Vec<LineView>, StoreError> {
        self.reach()?.line(group, limit)
    }

    fn lines(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.reach()?.lines(after, limit)
    }

    fn stray_slots(&self, ended_after: Time) -> Result<Vec<(String, JobId)>, StoreError> {
        self.reach()?.stray_slots(ended_after)
    }

    fn groups(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.reach()?.groups(after, limit)
    }

    fn last_admitted(&self, group: &str) -> Result<Option<JobId>, StoreError> {
        self.reach()?.last_admitted(group)
    }

    fn unconfirmed(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.reach()?.unconfirmed(job)
    }

    fn last_job(&self) -> Result<Option<JobId>, StoreError> {
        self.reach()?.last_job()
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Page<JobSummary>, StoreError> {
        self.reach()?.jobs(filter)
    }

    fn attempts(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.reach()?.attempts(job)
    }

    fn lineage(&self, job: JobId) -> Result<Lineage, StoreError> {
        self.reach()?.lineage(job)
    }

    fn family(&self, job: JobId, limit: usize) -> Result<Family, StoreError> {
        self.reach()?.family(job, limit)
    }

    fn hooks(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.reach()?.hooks(job, limit)
    }

    fn outbox_of(&self, job: JobId, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.reach()?.outbox_of(job, limit)
    }

    fn dead_outbox(&self, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.reach()?.dead_outbox(limit)
    }

    fn outbox(&self, id: Uuid) -> Result<Option<OutboxView>, StoreError> {
        self.reach()?.outbox(id)
    }

    fn outbox_counts(&self) -> Result<OutboxCounts, StoreError> {
        self.reach()?.outbox_counts()
    }

    fn children(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.reach()?.children(job, limit)
    }

    fn wanted_artifacts(&self, sets: &[String]) -> Result<Vec<String>, StoreError> {
        self.reach()?.wanted_artifacts(sets)
    }

    fn definition_of(&self, job: JobId) -> Result<Option<[u8; 32]>, StoreError> {
        self.reach()?.definition_of(job)
    }

    fn attempt(&self, id: AttemptId) -> Result<Option<AttemptGlance>, StoreError> {
        self.reach()?.attempt(id)
    }

    fn step(&self, job: JobId, ix: StepIx) -> Result<Option<StepGlance>, StoreError> {
        self.reach()?.step(job, ix)
    }

    fn step_named(&self, job: JobId, name: &str) -> Result<Option<StepIx>, StoreError> {
        self.reach()?.step_named(job, name)
    }

    fn events(&self, job: Option<JobId>, after: u64, limit: usize) -> Result<Vec<EventView>, StoreError> {
        self.reach()?.events(job, after, limit)
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        self.reach()?.last_event()
    }

    fn log_state(&self, attempt: AttemptId) -> Result<LogState, StoreError> {
        self.reach()?.log_state(attempt)
    }

    fn log_states(&self, attempts: &[AttemptId]) -> Result<Vec<LogState>, StoreError> {
        self.reach()?.log_states(attempts)
    }

    fn log_chunks(&self, attempt: AttemptId, from_seq: u64, bytes_max: usize) -> Result<Vec<LogChunk>, StoreError> {
        self.reach()?.log_chunks(attempt, from_seq, bytes_max)
    }

    fn log_marks(
        &self,
        attempt: AttemptId,
        from_seq: u64,
        to_seq: u64,
        limit: usize,
    ) -> Result<Vec<LogMarkView>, StoreError> {
        self.reach()?.log_marks(attempt, from_seq, to_seq, limit)
    }

    fn beats(&self, attempt: AttemptId) -> Result<Vec<BeatRow>, StoreError> {
        self.reach()?.beats(attempt)
    }

    fn stale(&self, before: Time, limit: usize) -> Result<Vec<StaleAttempt>, StoreError> {
        self.reach()?.stale(before, limit)
    }

    fn breaker(&self) -> Result<Option<BreakerRow>, StoreError> {
        self.reach()?.breaker()
    }

    fn hearing(&self) -> Result<Option<HearingRow>, StoreError> {
        self.reach()?.hearing()
    }

    fn servers(&self) -> Result<Vec<ServerRow>, StoreError> {
        self.reach()?.servers()
    }

    fn leases(&self) -> Result<Vec<LeaseRow>, StoreError> {
        self.reach()?.leases()
    }

    fn workers(&self) -> Result<Vec<Arc<WorkerRow>>, StoreError> {
        self.reach()?.workers()
    }

    fn worker_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerRow>, StoreError> {
        self.reach()?.worker_by_credential(hash)
    }

    fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.reach()?.tokens()
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
        self.reach()?.token_by_hash(hash)
    }

    fn idempotency(&self, token: Uuid, key: &str) -> Result<Option<IdempotencyRow>, StoreError> {
        self.reach()?.idempotency(token, key)
    }

    fn secrets(&self) -> Result<Vec<SecretRow>, StoreError> {
        self.reach()?.secrets()
    }

    fn secret(&self, name: &str) -> Result<Option<SecretRow>, StoreError> {
        self.reach()?.secret(name)
    }

    fn tasks(&self) -> Result<Vec<TaskRow>, StoreError> {
        self.reach()?.tasks()
    }

    fn task_stamps(&self) -> Result<Vec<(String, Time)>, StoreError> {
        self.reach()?.task_stamps()
    }

    fn trigger(&self, id: &str) -> Result<Option<TriggerRow>, StoreError> {
        self.reach()?.trigger(id)
    }

    fn triggers(&self) -> Result<Vec<TriggerRow>, StoreError> {
        self.reach()?.triggers()
    }

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.reach()?.meta(key)
    }

    fn old_jobs(&self, after: Option<JobId>, until: JobId, limit: usize) -> Result<Vec<OldJob>, StoreError> {
        self.reach()?.old_jobs(after, until, limit)
    }

    fn old_logs(&self, after: Option<AttemptId>, until: AttemptId, limit: usize) -> Result<Vec<OldLog>, StoreError> {
        self.reach()?.old_logs(after, until, limit)
    }

    fn weight(&self, job: JobId) -> Result<Cleared, StoreError> {
        self.reach()?.weight(job)
    }

    fn strays(&self, before: Time) -> Result<Strays, StoreError> {
        self.reach()?.strays(before)
    }

    fn departed(&self, worker: WorkerId) -> Result<Option<Time>, StoreError> {
        self.reach()?.departed(worker)
    }

    fn departed_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerId>, StoreError> {
        self.reach()?.departed_by_credential(hash)
    }

    fn job_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.reach()?.job_counts()
    }
}
