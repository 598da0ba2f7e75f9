//! The one writing connection.

use std::path::Path;
use std::sync::Arc;

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use store::read::OutboxView;
use store::rows::{NewWorker, QueuedStep, SecretRow, ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow, WorkerRow};
use store::{
    Batch, Cleared, Committed, Due, DueLog, Enrolled, HeldStep, Piece, Reader, Store, StoreError, Strays, Tenure,
};
use uuid::Uuid;

use crate::commit::{self, Failure, refused};
use crate::error::translate;
use crate::lock::ServerLock;
use crate::migrate;
use crate::place::Place;
use crate::reader::{self, SqliteReader};
use crate::values::{self, clamped, micros, tags_text};
use crate::{beats, groups, leases, logs, retention, servers, sql, triggers};

/// The counter that fences come from.
const FENCES_COUNTER: &str = "fence";

/// A database file that this process alone writes, or one in memory.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    reader: Arc<SqliteReader>,
    place: Place,
    /// Last, since fields are dropped in order: the writer closes before the next server may come in.
    _lock: Option<ServerLock>,
}

impl SqliteStore {
    /// Opens the database at `path`, and creates it if it is not there. Its folder must exist.
    pub fn open(path: &Path) -> Result<SqliteStore, StoreError> {
        let path = canonical(path)?;
        let lock = ServerLock::take(&path)?;
        SqliteStore::start(Place::file(&path), Some(lock))
    }

    /// A database that is gone when the store and its readers are.
    pub fn open_in_memory() -> Result<SqliteStore, StoreError> {
        SqliteStore::start(Place::memory(), None)
    }

    fn start(place: Place, lock: Option<ServerLock>) -> Result<SqliteStore, StoreError> {
        let mut connection = place.open_writer()?;
        migrate::run(&mut connection, &place.name, migrate::MIGRATIONS)?;
        let reader = Arc::new(SqliteReader::open(place.clone())?);
        Ok(SqliteStore { connection, reader, place, _lock: lock })
    }

    /// Writes the whole file anew, without the pages that deleted rows left free. As long as nobody does, new rows use them.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        self.run(|c| c.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"))
    }

    /// Reads, or writes by one statement, which is a transaction of its own.
    fn run<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.connection).map_err(|e| translate(&self.place.name, &e))
    }

    /// Writes in a transaction that is only committed if all of it worked.
    fn change<T>(
        &mut self,
        write: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let transact = || {
            let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = write(&tx)?;
            tx.commit()?;
            Ok(value)
        };
        transact().map_err(|failure: Failure| failure.into_store(&self.place.name))
    }

    /// The same, if this lease is still held.
    fn tidy<T>(
        &mut self,
        under: Option<Tenure>,
        write: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.change(|tx| {
            leases::compare(tx, under)?;
            write(tx)
        })
    }
}

impl Drop for SqliteStore {
    /// Empties the write-ahead log, even while readers live on: the next start then knows that all is well.
    fn drop(&mut self) {
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
            tracing::warn!(database = %self.place.name, %error, "the write-ahead log stays until the next start");
        }
    }
}

impl Store for SqliteStore {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, StoreError> {
        commit::commit(&mut self.connection, &self.place.name, batch)
    }

    fn load_job(&mut self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        reader::stored_job(&self.connection, &self.place.name, id)
    }

    fn place_of(&mut self, attempt: AttemptId) -> Result<Option<(JobId, StepIx)>, StoreError> {
        self.run(|c| {
            for text in [sql::PLACE_OF_GRANTED, sql::PLACE_OF_OFFERED] {
                let mut find = c.prepare_cached(text)?;
                let place = find.query_row([attempt.0.as_bytes()], step_place).optional()?;
                if place.is_some() {
                    return Ok(place);
                }
            }
            Ok(None)
        })
    }

    fn open_kin(&mut self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let kin = job.kin();
        self.run(|c| {
            let asked = params![kin.start().0.as_bytes(), kin.end().0.as_bytes(), clamped(limit)];
            c.prepare_cached(sql::OPEN_KIN)?.query_map(asked, |row| values::job(row, 0))?.collect()
        })
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        let asked = params![now.0, clamped(limit)];
        let mut due = self.run(|c| {
            let mut jobs = c.prepare_cached(sql::DUE_JOBS)?;
            let mut steps = c.prepare_cached(sql::DUE_STEPS)?;
            let jobs = jobs.query_map(asked, |row| {
                Ok(Due { at: values::time(row, 0)?, job: values::job(row, 1)?, step: None, queued: false })
            })?;
            let steps = steps.query_map(asked, |row| {
                let (at, job, step) = (values::time(row, 0)?, values::job(row, 1)?, Some(values::step(row, 2)?));
                Ok(Due { at, job, step, queued: row.get(3)? })
            })?;
            jobs.chain(steps).collect::<rusqlite::Result<Vec<Due>>>()
        })?;
        due.sort_unstable_by_key(|d| (d.at, d.job, d.step));
        due.truncate(limit);
        Ok(due)
    }

    fn due_logs(&mut self, now: Time, limit: usize) -> Result<Vec<DueLog>, StoreError> {
        self.run(|c| c.prepare_cached(sql::DUE_LOGS)?.query_map(params![now.0, clamped(limit)], logs::due)?.collect())
    }

    fn due_triggers(&mut self, now: Time, limit: usize) -> Result<Vec<TriggerRow>, StoreError> {
        let asked = params![now.0, clamped(limit)];
        self.run(|c| c.prepare_cached(sql::DUE_TRIGGERS)?.query_map(asked, triggers::trigger_row)?.collect())
    }

    fn due_outbox(&mut self, now: Time, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        let asked = params![now.0, clamped(limit)];
        self.run(|c| c.prepare_cached(sql::DUE_OUTBOX)?.query_map(asked, reader::outbox_view)?.collect())
    }

    fn next_outbox(&mut self) -> Result<Option<Time>, StoreError> {
        self.run(|c| c.prepare_cached(sql::NEXT_OUTBOX)?.query_row([], |row| values::maybe_time(row, 0)))
    }

    fn next_check(&mut self) -> Result<Option<Time>, StoreError> {
        self.run(|c| {
            let least = |text| c.prepare_cached(text)?.query_row([], |row| values::maybe_time(row, 0));
            let times = [
                least(sql::NEXT_CHECK_OF_JOBS)?,
                least(sql::NEXT_CHECK_OF_STEPS)?,
                least(sql::NEXT_CHECK_OF_LOGS)?,
                least(sql::NEXT_CHECK_OF_TRIGGERS)?,
            ];
            Ok(times.into_iter().flatten().min())
        })
    }

    fn queued(&mut self) -> Result<Vec<QueuedStep>, StoreError> {
        self.run(|c| {
            let mut steps = c.prepare_cached(sql::QUEUED_STEPS)?;
            steps.query_map([], |row| step_place(row).map(|(job, ix)| QueuedStep { job, ix }))?.collect()
        })
    }

    fn held(&mut self) -> Result<Vec<(JobId, StepIx)>, StoreError> {
        self.run(|c| c.prepare_cached(sql::HELD)?.query_map([], step_place)?.collect())
    }

    fn held_steps(&mut self) -> Result<Vec<HeldStep>, StoreError> {
        self.run(|c| {
            let mut steps = c.prepare_cached(sql::HELD_STEPS)?;
            let held = steps.query_map([], |row| {
                Ok(HeldStep {
                    job: values::job(row, 0)?,
                    ix: values::step(row, 1)?,
                    state: row.get(2)?,
                    for_operator: row.get(3)?,
                    worker: values::worker(row, 4)?,
                    attempt: values::attempt(row, 5)?,
                    since: values::time(row, 6)?,
                })
            })?;
            held.collect()
        })
    }

    fn reserve_fences(&mut self, count: u64, floor: u64) -> Result<u64, StoreError> {
        self.change(|tx| {
            let last = commit::counter(tx, FENCES_COUNTER)?;
            // Zero is no fence, so that "none yet" has a number too.
            let first = (last + 1).max(floor);
            let end = first.checked_add(count).ok_or_else(|| refused(format!("{count} fences are too many")))?;
            commit::put_counter(tx, FENCES_COUNTER, end - 1)?;
            Ok(first)
        })
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn register_server(&mut self, server: &ServerRow, stale_before: Time) -> Result<u64, StoreError> {
        self.change(|tx| servers::register(tx, server, stale_before))
    }

    fn changed_since(&mut self, after: u64, limit: usize) -> Result<Vec<(u64, JobId)>, StoreError> {
        let asked = params![clamped(after), clamped(limit)];
        self.run(|c| {
            let mut changed = c.prepare_cached(sql::CHANGED_SINCE)?;
            changed.query_map(asked, |row| Ok((values::unsigned(row, 0)?, values::job(row, 1)?)))?.collect()
        })
    }

    fn worker(&mut self, id: WorkerId) -> Result<Option<WorkerRow>, StoreError> {
        self.run(|c| c.prepare_cached(sql::WORKER)?.query_row([id.0.as_bytes()], reader::worker_row).optional())
    }

    fn prune_beats(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, |tx| beats::prune(tx, before, limit))
    }

    fn doom(&mut self, jobs: &[(JobId, u64)], now: Time, under: Option<Tenure>) -> Result<Vec<JobId>, StoreError> {
        self.tidy(under, |tx| retention::doom(tx, jobs, now))
    }

    fn clear_doomed(&mut self, piece: Piece, under: Option<Tenure>) -> Result<Cleared, StoreError> {
        self.tidy(under, |tx| retention::clear_doomed(tx, piece))
    }

    fn drop_log(
        &mut self,
        attempt: AttemptId,
        now: Time,
        piece: Piece,
        under: Option<Tenure>,
    ) -> Result<Cleared, StoreError> {
        self.tidy(under, |tx| retention::drop_log(tx, attempt, now, piece))
    }

    fn prune_definitions(
        &mut self,
        after: Option<[u8; 32]>,
        limit: usize,
        under: Option<Tenure>,
    ) -> Result<(usize, Option<[u8; 32]>), StoreError> {
        self.tidy(under, |tx| retention::prune_definitions(tx, after, limit))
    }

    fn drop_strays(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<Strays, StoreError> {
        self.tidy(under, |tx| retention::drop_strays(tx, before, limit))
    }

    fn depart(
        &mut self,
        worker: WorkerId,
        unseen_since: Time,
        now: Time,
        under: Option<Tenure>,
    ) -> Result<bool, StoreError> {
        self.tidy(under, |tx| retention::depart(tx, worker, unseen_since, now))
    }

    fn prune_groups(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, |tx| groups::prune(tx, before, limit))
    }

    fn put_token(&mut self, token: &TokenRow) -> Result<(), StoreError> {
        self.run(|c| {
            c.prepare_cached(sql::PUT_TOKEN)?.execute(params![
                token.id.as_bytes(),
                token.kind,
                token.role,
                token.name,
                token.hash,
                tags_text(&token.tags),
                token.uses_left,
                token.created_at.0,
                micros(token.expires_at),
                micros(token.revoked_at),
            ])
        })?;
        Ok(())
    }

    fn revoke_token(&mut self, id: Uuid, now: Time) -> Result<bool, StoreError> {
        let revoked = self.run(|c| c.prepare_cached(sql::REVOKE_TOKEN)?.execute(params![id.as_bytes(), now.0]))?;
        Ok(revoked > 0)
    }

    fn enroll(&mut self, token_hash: &[u8; 32], worker: &NewWorker, now: Time) -> Result<Enrolled, StoreError> {
        self.change(|tx| {
            let spent = tx.prepare_cached(sql::SPEND_ENROLL_TOKEN)?.execute(params![token_hash, now.0])?;
            if spent == 0 {
                return Ok(Enrolled::Refused);
            }
            tx.prepare_cached(sql::ADD_WORKER)?.execute(params![
                worker.id.0.as_bytes(),
                worker.name,
                worker.credential_hash,
                worker.state_id.as_bytes(),
                now.0,
                token_hash,
            ])?;
            Ok(Enrolled::Yes)
        })
    }

    fn put_secret(&mut self, secret: &SecretRow) -> Result<(), StoreError> {
        self.run(|c| {
            let SecretRow { name, sealed, set_at, set_by } = secret;
            c.prepare_cached(sql::PUT_SECRET)?.execute(params![name, sealed, set_at.0, set_by])
        })?;
        Ok(())
    }

    fn remove_secret(&mut self, name: &str) -> Result<bool, StoreError> {
        let removed = self.run(|c| c.prepare_cached(sql::REMOVE_SECRET)?.execute([name]))?;
        Ok(removed > 0)
    }

    fn put_task(&mut self, task: &TaskRow) -> Result<(), StoreError> {
        let row = params![task.name, task.source, task.pushed_at.0, task.pushed_by];
        self.run(|c| c.prepare_cached(sql::PUT_TASK)?.execute(row))?;
        Ok(())
    }

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        if key == migrate::MIN_READER {
            return Err(StoreError::Refused { message: format!("`{key}` belongs to the schema") });
        }
        self.run(|c| c.prepare_cached(sql::PUT_META)?.execute([key, value]))?;
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }
}

fn step_place(row: &rusqlite::Row<'_>) -> rusqlite::Result<(JobId, StepIx)> {
    Ok((values::job(row, 0)?, values::step(row, 1)?))
}

/// One name for one file: the lock of a file that is reached by two names would not hold.
pub(crate) fn canonical(path: &Path) -> Result<std::path::PathBuf, StoreError> {
    let unavailable = |e: std::io::Error| StoreError::Unavailable {
        message: format!("cannot open the database at {}: {e}; does its folder exist?", path.display()),
    };
    if path.exists() {
        return path.canonicalize().map_err(unavailable);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| unavailable(std::io::ErrorKind::InvalidFilename.into()))?;
    Ok(folder.canonicalize().map_err(unavailable)?.join(name))
}
