//! The one database of the world, as servers see it: real SQL or plain tables, with a switch for everything that can go
//! wrong with a database, and a window through which the checkers see every commit.
//!
//! A server process gets a [`Handle`]; when it dies, the handle goes and the database stays. [`trouble`] says what goes
//! wrong, [`look`] lets it go wrong for readers too.

mod look;
#[cfg(test)]
mod tests;
mod trouble;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::read::OutboxView;
use store::rows::{NewWorker, QueuedStep, SecretRow, ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow, WorkerRow};
use store::{
    Batch, Cleared, Committed, Due, DueLog, Enrolled, HeldStep, Piece, Reader, Store, StoreError, Strays, Tenure,
};
use store_memory::MemoryDatabase;
use store_sqlite::SqliteStore;
use uuid::Uuid;

use self::look::Look;
use self::trouble::Fate;
pub(crate) use self::trouble::{Falter, Flaky, Poison, Trouble};
use crate::setup::Backing;
use crate::story::Story;

/// What the checkers hear of every batch that is in the database.
pub(crate) trait Witness: Send {
    fn committed(&mut self, server: usize, batch: &Batch, committed: &Committed);

    /// Nothing of this batch is.
    fn refused(&mut self, server: usize, batch: &Batch);

    /// Something was deleted under this lease.
    fn acted(&mut self, _tenure: Tenure) {}

    /// These jobs were taken off the record.
    fn deleted(&mut self, _jobs: &[JobId]) {}

    /// This worker was, since nobody has seen it from that time on.
    fn departed(&mut self, _worker: WorkerId, _unseen_since: Time) {}

    /// Commits were lost: which of the jobs that were deleted are there again?
    fn came_back(&mut self, _is_there: &dyn Fn(JobId) -> bool) {}

    /// The last so many batches were, and are not any more.
    fn forgotten(&mut self, batches: usize);
}

/// The database itself.
#[derive(Clone)]
pub(crate) struct Database {
    store: Arc<Mutex<Box<dyn Store>>>,
    /// The same, where it is in plain memory.
    memory: Option<MemoryDatabase>,
    troubles: Arc<Mutex<Vec<Trouble>>>,
    /// The number that each batch has among all transactions.
    batches: Arc<Mutex<Vec<u64>>>,
    witness: Arc<Mutex<dyn Witness>>,
    story: Story,
}

impl Database {
    pub(crate) fn new(backing: Backing, servers: usize, witness: Arc<Mutex<dyn Witness>>, story: Story) -> Database {
        let memory = (backing == Backing::Memory).then(MemoryDatabase::new);
        let store: Box<dyn Store> = match &memory {
            Some(memory) => Box::new(memory.open()),
            None => Box::new(SqliteStore::open_in_memory().expect("a database in memory can always be made")),
        };
        let troubles = Arc::new(Mutex::new(vec![Trouble::default(); servers]));
        let batches = Arc::new(Mutex::new(Vec::new()));
        Database { store: Arc::new(Mutex::new(store)), memory, troubles, batches, witness, story }
    }

    pub(crate) fn open(&self, server: usize) -> Handle {
        let look = Look { server, troubles: self.troubles.clone(), rows: self.reader() };
        Handle { server, database: self.clone(), reader: Arc::new(look) }
    }

    /// What it holds now stays, whatever is forgotten: no copy lags behind the day on which all was set up.
    pub(crate) fn begin(&self) {
        if let Some(memory) = &self.memory {
            memory.restore(&memory.snapshot());
        }
    }

    /// Loses the newest transactions, as a copy that lagged behind and takes over does. Only memory can. Returns how many
    /// batches of servers were among them.
    pub(crate) fn forget_last(&self, transactions: u64) -> usize {
        let Some(memory) = &self.memory else { return 0 };
        memory.forget_last(transactions);
        let mut batches = lock(&self.batches);
        let left = batches.partition_point(|number| *number <= memory.commits());
        let forgotten = batches.split_off(left).len();
        lock(&self.witness).forgotten(forgotten);
        let rows = memory.rows();
        lock(&self.witness).came_back(&|job| rows.job(job).is_some());
        forgotten
    }

    pub(crate) fn trouble<T>(&self, server: usize, change: impl FnOnce(&mut Trouble) -> T) -> T {
        change(&mut lock(&self.troubles)[server])
    }

    /// For the checkers, whatever servers can see.
    pub(crate) fn store(&self) -> MutexGuard<'_, Box<dyn Store>> {
        lock(&self.store)
    }

    pub(crate) fn reader(&self) -> Arc<dyn Reader> {
        self.store().reader()
    }
}

/// Nobody panics while holding one, short of the end of the whole world.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One server's connection.
pub(crate) struct Handle {
    server: usize,
    database: Database,
    reader: Arc<dyn Reader>,
}

impl Handle {
    fn reach(&self) -> Result<MutexGuard<'_, Box<dyn Store>>, StoreError> {
        if !self.database.trouble(self.server, Trouble::lets_through) {
            return Err(away());
        }
        Ok(lock(&self.database.store))
    }

    /// Deletes something under a lease.
    fn tidy<T>(
        &self,
        under: Option<Tenure>,
        delete: impl FnOnce(&mut dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let deleted = delete(&mut **self.reach()?)?;
        if let Some(tenure) = under {
            lock(&self.database.witness).acted(tenure);
        }
        Ok(deleted)
    }

    /// It is written; that may not be heard.
    fn answer<T>(&self, written: T) -> Result<T, StoreError> {
        let lost = self.database.trouble(self.server, Trouble::loses_answer_aside);
        if lost { Err(away()) } else { Ok(written) }
    }

    /// Another server writes a job of this batch first, if that was ordered; only memory takes a second writer.
    fn be_outrun(&self, batch: &Batch) {
        if let Some(memory) = &self.database.memory
            && let Some(job) = self.database.trouble(self.server, |trouble| trouble.rival(batch))
        {
            memory.touch(job);
        }
    }
}

fn away() -> StoreError {
    StoreError::Unavailable { message: "the simulated database is away".to_owned() }
}

impl Store for Handle {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, StoreError> {
        drop(self.reach()?);
        let fate = self.database.trouble(self.server, |trouble| trouble.fate(batch));
        match fate {
            Fate::Error => return Err(away()),
            Fate::Refused => {
                lock(&self.database.witness).refused(self.server, batch);
                return Err(StoreError::Refused { message: "a simulated constraint failed".to_owned() });
            }
            Fate::Happens | Fate::AnswerLost => self.be_outrun(batch),
        }
        let committed = self.database.store().commit(batch)?;
        self.database.trouble(self.server, |trouble| trouble.commits += 1);
        if let Some(memory) = &self.database.memory {
            lock(&self.database.batches).push(memory.commits());
        }
        self.database.story.committed(self.server, batch, &committed);
        lock(&self.database.witness).committed(self.server, batch, &committed);
        if fate == Fate::AnswerLost { Err(away()) } else { Ok(committed) }
    }

    fn load_job(&mut self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.reach()?.load_job(id)
    }

    fn place_of(&mut self, attempt: AttemptId) -> Result<Option<(JobId, StepIx)>, StoreError> {
        self.reach()?.place_of(attempt)
    }

    fn open_kin(&mut self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.reach()?.open_kin(job, limit)
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.reach()?.due(now, limit)
    }

    fn due_logs(&mut self, now: Time, limit: usize) -> Result<Vec<DueLog>, StoreError> {
        self.reach()?.due_logs(now, limit)
    }

    fn due_triggers(&mut self, now: Time, limit: usize) -> Result<Vec<TriggerRow>, StoreError> {
        self.reach()?.due_triggers(now, limit)
    }

    fn due_outbox(&mut self, now: Time, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.reach()?.due_outbox(now, limit)
    }

    fn next_outbox(&mut self) -> Result<Option<Time>, StoreError> {
        self.reach()?.next_outbox()
    }

    fn next_check(&mut self) -> Result<Option<Time>, StoreError> {
        self.reach()?.next_check()
    }

    fn queued(&mut self) -> Result<Vec<QueuedStep>, StoreError> {
        self.reach()?.queued()
    }

    fn held(&mut self) -> Result<Vec<(JobId, StepIx)>, StoreError> {
        self.reach()?.held()
    }

    fn held_steps(&mut self) -> Result<Vec<HeldStep>, StoreError> {
        self.reach()?.held_steps()
    }

    fn reserve_fences(&mut self, count: u64, floor: u64) -> Result<u64, StoreError> {
        let reserved = self.reach()?.reserve_fences(count, floor)?;
        self.answer(reserved)
    }

    fn is_shared(&self) -> bool {
        lock(&self.database.store).is_shared()
    }

    fn register_server(&mut self, server: &ServerRow, stale_before: Time) -> Result<u64, StoreError> {
        self.reach()?.register_server(server, stale_before)
    }

    fn changed_since(&mut self, after: u64, limit: usize) -> Result<Vec<(u64, JobId)>, StoreError> {
        self.reach()?.changed_since(after, limit)
    }

    fn worker(&mut self, id: WorkerId) -> Result<Option<WorkerRow>, StoreError> {
        self.reach()?.worker(id)
    }

    fn prune_beats(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, |store| store.prune_beats(before, limit, under))
    }

    fn doom(&mut self, jobs: &[(JobId, u64)], now: Time, under: Option<Tenure>) -> Result<Vec<JobId>, StoreError> {
        let gone = self.tidy(under, |store| store.doom(jobs, now, under))?;
        if !gone.is_empty() {
            let names = || gone.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            self.database.story.add(|| format!("server {} deletes what is old: {}", self.server, names()));
        }
        lock(&self.database.witness).deleted(&gone);
        self.answer(gone)
    }

    fn clear_doomed(&mut self, piece: Piece, under: Option<Tenure>) -> Result<Cleared, StoreError> {
        self.tidy(under, |store| store.clear_doomed(piece, under))
    }

    fn drop_log(
        &mut self,
        attempt: AttemptId,
        now: Time,
        piece: Piece,
        under: Option<Tenure>,
    ) -> Result<Cleared, StoreError> {
        self.tidy(under, |store| store.drop_log(attempt, now, piece, under))
    }

    fn prune_definitions(
        &mut self,
        after: Option<[u8; 32]>,
        limit: usize,
        under: Option<Tenure>,
    ) -> Result<(usize, Option<[u8; 32]>), StoreError> {
        self.tidy(under, |store| store.prune_definitions(after, limit, under))
    }

    fn drop_strays(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<Strays, StoreError> {
        self.tidy(under, |store| store.drop_strays(before, limit, under))
    }

    fn depart(
        &mut self,
        worker: WorkerId,
        unseen_since: Time,
        now: Time,
        under: Option<Tenure>,
    ) -> Result<bool, StoreError> {
        let gone = self.tidy(under, |store| store.depart(worker, unseen_since, now, under))?;
        if gone {
            self.database
                .story
                .add(|| format!("server {} deletes worker {worker}, which is away for long", self.server));
            lock(&self.database.witness).departed(worker, unseen_since);
        }
        self.answer(gone)
    }

    fn prune_groups(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, |store| store.prune_groups(before, limit, under))
    }

    fn put_token(&mut self, token: &TokenRow) -> Result<(), StoreError> {
        self.reach()?.put_token(token)
    }

    fn revoke_token(&mut self, id: Uuid, now: Time) -> Result<bool, StoreError> {
        self.reach()?.revoke_token(id, now)
    }

    fn enroll(&mut self, token_hash: &[u8; 32], worker: &NewWorker, now: Time) -> Result<Enrolled, StoreError> {
        self.reach()?.enroll(token_hash, worker, now)
    }

    fn put_secret(&mut self, secret: &SecretRow) -> Result<(), StoreError> {
        self.reach()?.put_secret(secret)
    }

    fn remove_secret(&mut self, name: &str) -> Result<bool, StoreError> {
        self.reach()?.remove_secret(name)
    }

    fn put_task(&mut self, task: &TaskRow) -> Result<(), StoreError> {
        self.reach()?.put_task(task)
    }

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        self.reach()?.set_meta(key, value)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }
}
