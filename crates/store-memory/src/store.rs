//! A server's handle on the database.

use std::ops::Bound;
use std::sync::Arc;

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::read::OutboxView;
use store::rows::{NewWorker, QueuedStep, SecretRow, ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow, WorkerRow};
use store::{
    Batch, Cleared, Committed, Due, DueLog, Enrolled, HeldStep, Piece, Reader, Store, StoreError, Strays, Tenure,
};
use uuid::Uuid;

use crate::database::MemoryDatabase;
use crate::indexes::StepPlace;
use crate::reader::{self, MemoryReader};
use crate::tables::{Counter, FENCES_COUNTER, MetaRow, OutboxRecord, Tables, countable, refused};
use crate::{beats, commit, groups, leases, retention, servers, workers};

/// Named by the schema of a database that has one; taken here too.
const SCHEMAS_OWN_KEY: &str = "min_reader";

/// One of any number of writers. What one commits, all see at once.
#[derive(Debug)]
pub struct MemoryStore {
    database: MemoryDatabase,
    reader: Arc<MemoryReader>,
}

impl MemoryStore {
    pub(crate) fn new(database: MemoryDatabase) -> MemoryStore {
        MemoryStore { reader: Arc::new(MemoryReader::new(database.clone())), database }
    }

    fn transact<T>(&self, write: impl FnOnce(&mut Tables) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.database.lock().transact(write)
    }

    /// The same, if this lease is still held.
    fn tidy<T>(
        &self,
        under: Option<Tenure>,
        write: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact(|tables| {
            leases::compare(tables, under)?;
            write(tables)
        })
    }
}

impl Store for MemoryStore {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, StoreError> {
        if batch.is_empty() {
            return Ok(Committed::default());
        }
        self.transact(|tables| commit::write(tables, batch))
    }

    fn load_job(&mut self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        reader::stored_job(&self.database.lock(), id)
    }

    fn place_of(&mut self, attempt: AttemptId) -> Result<Option<(JobId, StepIx)>, StoreError> {
        let tables = self.database.lock();
        // What is left of a job that is off the record is nobody's.
        if let Some(granted) = tables.attempts.get(&attempt).filter(|a| tables.jobs.contains(&a.row.job)) {
            return Ok(Some((granted.row.job, granted.row.ix)));
        }
        let lowest: StepPlace = (JobId(Uuid::nil()), StepIx(0));
        let offered = tables.steps.index().held.range((attempt, None, lowest)..).next();
        Ok(offered.filter(|(held, ..)| *held == attempt).map(|(.., place)| *place))
    }

    fn open_kin(&mut self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let tables = self.database.lock();
        let open = tables.jobs.range(job.kin()).filter(|(_, row)| row.check_at.is_some());
        Ok(open.map(|(id, _)| *id).take(limit).collect())
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        let tables = self.database.lock();
        let jobs = tables.jobs.index().due.iter().take_while(|(at, _)| *at <= now);
        let jobs = jobs.map(|(at, job)| Due { at: *at, job: *job, step: None, queued: false });
        let steps = tables.steps.index().due.iter().take_while(|(at, ..)| *at <= now);
        let steps = steps.map(|(at, state, _, (job, ix))| {
            let queued = *state == "queued";
            Due { at: *at, job: *job, step: Some(*ix), queued }
        });
        let mut due: Vec<Due> = jobs.take(limit).chain(steps.take(limit)).collect();
        due.sort_unstable_by_key(|d| (d.at, d.job, d.step));
        due.truncate(limit);
        Ok(due)
    }

    fn due_logs(&mut self, now: Time, limit: usize) -> Result<Vec<DueLog>, StoreError> {
        let tables = self.database.lock();
        let due = tables.logs.index().iter().take_while(|(at, _)| *at <= now).take(limit);
        let due = due.filter_map(|(_, attempt)| {
            let log = tables.logs.get(attempt)?;
            let worker = tables.attempts.get(attempt).map(|record| record.row.worker);
            Some(DueLog { attempt: *attempt, last_seq: log.last_seq, end_seq: log.end_seq, worker })
        });
        Ok(due.collect())
    }

    fn due_triggers(&mut self, now: Time, limit: usize) -> Result<Vec<TriggerRow>, StoreError> {
        let tables = self.database.lock();
        let due = tables.triggers.index().iter().take_while(|(at, _)| *at <= now).take(limit);
        Ok(due.filter_map(|(_, id)| tables.triggers.get(id).cloned()).collect())
    }

    fn due_outbox(&mut self, now: Time, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        let tables = self.database.lock();
        let due = tables.outbox.index().due.iter().take_while(|(at, _)| *at <= now).take(limit);
        Ok(due.filter_map(|(_, id)| tables.outbox.get(id)).map(OutboxRecord::view).collect())
    }

    fn next_outbox(&mut self) -> Result<Option<Time>, StoreError> {
        Ok(self.database.lock().outbox.index().due.first().map(|(at, _)| *at))
    }

    fn next_check(&mut self) -> Result<Option<Time>, StoreError> {
        let tables = self.database.lock();
        let jobs = tables.jobs.index().due.first().map(|(at, _)| *at);
        let steps = tables.steps.index().due.first().map(|(at, ..)| *at);
        let logs = tables.logs.index().first().map(|(at, _)| *at);
        let triggers = tables.triggers.index().first().map(|(at, _)| *at);
        Ok([jobs, steps, logs, triggers].into_iter().flatten().min())
    }

    fn queued(&mut self) -> Result<Vec<QueuedStep>, StoreError> {
        let tables = self.database.lock();
        Ok(tables.steps.index().queued.iter().map(|(job, ix)| QueuedStep { job: *job, ix: *ix }).collect())
    }

    fn held(&mut self) -> Result<Vec<(JobId, StepIx)>, StoreError> {
        let tables = self.database.lock();
        let mut held: Vec<_> = tables.steps.index().held.iter().map(|(.., place)| *place).collect();
        held.sort_unstable();
        Ok(held)
    }

    fn held_steps(&mut self) -> Result<Vec<HeldStep>, StoreError> {
        let tables = self.database.lock();
        let held = tables.steps.index().held.iter().filter_map(|(attempt, worker, place)| {
            let step = tables.steps.get(place)?;
            Some(HeldStep {
                job: step.job,
                ix: step.ix,
                state: step.state.to_owned(),
                for_operator: step.owner == Some("operator"),
                worker: (*worker)?,
                attempt: *attempt,
                since: step.updated_at,
            })
        });
        Ok(held.collect())
    }

    fn reserve_fences(&mut self, count: u64, floor: u64) -> Result<u64, StoreError> {
        self.transact(|tables| {
            let last = tables.counters.get(&FENCES_COUNTER).map_or(0, |counter| counter.0);
            // Zero is no fence, so that "none yet" has a number too.
            let first = (last + 1).max(floor);
            let end = first.checked_add(count).ok_or_else(|| refused(format!("{count} fences are too many")))?;
            tables.counters.put(FENCES_COUNTER, Counter(countable(end - 1)?));
            Ok(first)
        })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn register_server(&mut self, server: &ServerRow, stale_before: Time) -> Result<u64, StoreError> {
        self.transact(|tables| servers::register(tables, server, stale_before))
    }

    fn changed_since(&mut self, after: u64, limit: usize) -> Result<Vec<(u64, JobId)>, StoreError> {
        let tables = self.database.lock();
        let later = tables.events.range((Bound::Excluded(after), Bound::Unbounded));
        Ok(later.take(limit).map(|(id, row)| (*id, row.job)).collect())
    }

    fn worker(&mut self, id: WorkerId) -> Result<Option<WorkerRow>, StoreError> {
        Ok(self.database.lock().worker(id).cloned())
    }

    fn prune_beats(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, |tables| Ok(beats::prune(tables, before, limit)))
    }

    fn doom(&mut self, jobs: &[(JobId, u64)], now: Time, under: Option<Tenure>) -> Result<Vec<JobId>, StoreError> {
        self.tidy(under, |tables| retention::doom(tables, jobs, now))
    }

    fn clear_doomed(&mut self, piece: Piece, under: Option<Tenure>) -> Result<Cleared, StoreError> {
        self.tidy(under, |tables| Ok(retention::clear_doomed(tables, piece)))
    }

    fn drop_log(
        &mut self,
        attempt: AttemptId,
        now: Time,
        piece: Piece,
        under: Option<Tenure>,
    ) -> Result<Cleared, StoreError> {
        self.tidy(under, |tables| Ok(retention::drop_log(tables, attempt, now, piece)))
    }

    fn prune_definitions(
        &mut self,
        after: Option<[u8; 32]>,
        limit: usize,
        under: Option<Tenure>,
    ) -> Result<(usize, Option<[u8; 32]>), StoreError> {
        self.tidy(under, |tables| Ok(retention::prune_definitions(tables, after, limit)))
    }

    fn drop_strays(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<Strays, StoreError> {
        self.tidy(under, |tables| Ok(retention::drop_strays(tables, before, limit)))
    }

    fn depart(
        &mut self,
        worker: WorkerId,
        unseen_since: Time,
        now: Time,
        under: Option<Tenure>,
    ) -> Result<bool, StoreError> {
        self.tidy(under, |tables| Ok(retention::depart(tables, worker, unseen_since, now)))
    }

    fn prune_groups(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, |tables| Ok(groups::prune(tables, before, limit)))
    }

    fn put_token(&mut self, token: &TokenRow) -> Result<(), StoreError> {
        self.transact(|tables| {
            if tables.tokens.index().get(&token.hash).is_some_and(|id| *id != token.id) {
                return Err(refused(format!("another token than {} has this secret", token.id)));
            }
            tables.tokens.put(token.id, token.clone());
            Ok(())
        })
    }

    fn revoke_token(&mut self, id: Uuid, now: Time) -> Result<bool, StoreError> {
        self.transact(|tables| {
            Ok(tables.tokens.update(&id, |token| {
                token.revoked_at.is_none().then(|| TokenRow { revoked_at: Some(now), ..token.clone() })
            }))
        })
    }

    fn enroll(&mut self, token_hash: &[u8; 32], worker: &NewWorker, now: Time) -> Result<Enrolled, StoreError> {
        self.transact(|tables| workers::enroll(tables, token_hash, worker, now))
    }

    fn put_secret(&mut self, secret: &SecretRow) -> Result<(), StoreError> {
        self.transact(|tables| {
            tables.secrets.put(secret.name.clone(), secret.clone());
            Ok(())
        })
    }

    fn remove_secret(&mut self, name: &str) -> Result<bool, StoreError> {
        self.transact(|tables| {
            let known = tables.secrets.contains(&name.to_owned());
            if known {
                tables.secrets.remove(name.to_owned());
            }
            Ok(known)
        })
    }

    fn put_task(&mut self, task: &TaskRow) -> Result<(), StoreError> {
        self.transact(|tables| {
            tables.tasks.put(task.name.clone(), task.clone());
            Ok(())
        })
    }

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        if key == SCHEMAS_OWN_KEY {
            return Err(refused(format!("`{key}` belongs to the schema")));
        }
        self.transact(|tables| {
            tables.meta.put(key.to_owned(), MetaRow(value.to_owned()));
            Ok(())
        })
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }
}
