//! The one connection of a server that writes.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use store::read::OutboxView;
use store::rows::{
    NewWorker, OpenJob, QueuedStep, SecretRow, ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow, WorkerRow,
};
use store::{
    Batch, Bell, Cleared, Committed, Due, DueLog, Enrolled, Found, HeldStep, Piece, Reader, SLOW, Store, StoreError,
    Strays, Tenure, Wanted,
};
use tokio_postgres::{Config, Row};
use uuid::Uuid;

use crate::address;
use crate::bell::PostgresBell;
use crate::driver::wait;
use crate::options::Options;
use crate::place::{Place, Purpose};
use crate::reader::{self, PostgresReader, all};
use crate::session::{Failure, Session, Train};
use crate::values::{self, Param, Read, Value, clamped, get, micros, param, signed, tags_text, text};
use crate::{ahead, commit, leases, logs, migrate, retention, servers, sql, triggers};

/// Longer than any statement may take, and than any lock is waited for: after it nobody knows what became of the work, and the
/// connection is given up.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// How often a transaction is begun anew because others were faster.
const RACES_MAX: u32 = 5;

/// A database that other servers may use at the same time.
pub struct PostgresStore {
    /// None after it was lost: the next call opens another one.
    session: Option<Session>,
    place: Place,
    reader: Arc<PostgresReader>,
    /// Names this store among all that have this database open, see [`PostgresStore::settle`].
    writer: i64,
    /// Where it listens; none: nowhere, see [`Options::listen`].
    listen: Option<Config>,
    /// Only there since somebody asked for it: it has a connection.
    bell: OnceLock<Arc<PostgresBell>>,
}

impl PostgresStore {
    /// Opens the database at this address (`postgres://user@host/database`), and makes its tables if it is empty.
    pub fn open(url: &str) -> Result<PostgresStore, StoreError> {
        PostgresStore::open_with(url, &Options::default())
    }

    pub fn open_with(url: &str, options: &Options) -> Result<PostgresStore, StoreError> {
        let place = Place::new(url, options.pooled)?;
        let reader = Arc::new(PostgresReader::new(place.clone(), options.connections));
        // Random: the standard library's hashers are made so that nobody can guess them.
        let writer = i64::from_ne_bytes(RandomState::new().hash_one("writer").to_ne_bytes());
        let listen = match &options.listen {
            Some(url) => Some(address::read(url).map_err(of_listen)?),
            None => (!options.pooled).then(|| place.config().clone()),
        };
        let mut session = place.connect_first()?;
        migrate::open(&mut session, &place, &migrate::log)?;
        Ok(PostgresStore { session: Some(session), place, reader, writer, listen, bell: OnceLock::new() })
    }

    /// Has the database do something, on a connection that is good.
    fn work<T>(&mut self, work: impl AsyncFnOnce(&mut Session) -> Result<T, Failure>) -> Result<T, StoreError> {
        let mut session = match self.session.take().filter(Session::is_usable) {
            Some(session) => session,
            None => self.connect()?,
        };
        let Some(outcome) = wait(ANSWER_PATIENCE, work(&mut session)) else {
            session.give_up();
            return Err(self.place.unavailable(&format!("{SLOW}: no answer within {} s", ANSWER_PATIENCE.as_secs())));
        };
        self.session = Some(session);
        outcome.map_err(|failure| failure.into_store(&self.place.name))
    }

    fn connect(&mut self) -> Result<Session, StoreError> {
        let mut session = self.place.connect(Purpose::Write)?;
        match wait(ANSWER_PATIENCE, self.settle(&mut session)) {
            Some(Ok(())) => Ok(session),
            Some(Err(failure)) => Err(failure.into_store(&self.place.name)),
            None => {
                session.give_up();
                Err(self.place.unavailable("the last transaction does not end"))
            }
        }
    }

    /// Waits until this store's last transaction is over, on whatever connection it was.
    ///
    /// A commit whose answer was lost may still be under way when the rows are asked whether it happened, and they would say no. So
    /// every batch holds a lock of its store's own from its first statement to its end, and whoever comes after a lost connection
    /// takes it once. No batch can begin after that: each sends its COMMIT only after its first answers have come.
    async fn settle(&self, session: &mut Session) -> Result<(), Failure> {
        let mut train = Train::beginning();
        let writer = train.add(sql::LOCK_WRITER, vec![param(self.writer)]);
        train.commit();
        let answers = session.run(&train).await?;
        migrate::check_still_known(&answers[writer])
    }

    /// Writes in a transaction that is only committed if all of it worked.
    fn change<T>(&mut self, write: &impl AsyncFn(&mut Session) -> Result<T, Failure>) -> Result<T, StoreError> {
        self.work(async |session| {
            let mut races = 0;
            loop {
                match session.transact(write).await {
                    Err(failure) if failure.is_race() && races < RACES_MAX => races += 1,
                    outcome => return outcome,
                }
            }
        })
    }

    /// The same, if this lease is still held.
    fn tidy<T>(
        &mut self,
        under: Option<Tenure>,
        write: &impl AsyncFn(&mut Session) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.change(&async |session| {
            leases::compare(session, under).await?;
            write(session).await
        })
    }

    /// One statement, which is a transaction of its own; how many rows it wrote.
    fn execute(&mut self, text: &'static str, params: &[&dyn Value]) -> Result<u64, StoreError> {
        self.work(async |session| session.execute(text, params).await)
    }

    fn list<T>(
        &mut self,
        text: &'static str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> Read<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.work(async |session| all(session, text, params, read).await)
    }

    fn one<T>(
        &mut self,
        text: &'static str,
        params: &[Param<'_>],
        read: impl Fn(&Row) -> Read<T>,
    ) -> Result<T, StoreError> {
        let found = self.list(text, params, read)?.into_iter().next();
        found.ok_or_else(|| self.place.unavailable("a question that always has an answer had none"))
    }
}

impl Store for PostgresStore {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, StoreError> {
        let writer = self.writer;
        self.work(async |session| commit::commit(session, batch, writer).await)
    }

    fn load_job(&mut self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.work(async |session| reader::stored_job(session, id).await)
    }

    fn load_jobs(&mut self, ids: &[JobId]) -> Result<Vec<StoredJob>, StoreError> {
        self.work(async |session| reader::stored_jobs(session, ids).await)
    }

    fn open_among(&mut self, ids: &[JobId]) -> Result<Vec<OpenJob>, StoreError> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.list(sql::OPEN_AMONG, &[param(ids)], |row| {
            Ok(OpenJob { id: values::job(row, 0)?, has_queued: get(row, 1)? })
        })
    }

    fn place_of(&mut self, attempt: AttemptId) -> Result<Option<(JobId, StepIx)>, StoreError> {
        Ok(self.list(sql::PLACE_OF, &[param(attempt.0)], step_place)?.pop())
    }

    fn look_ahead(&mut self, wanted: &Wanted) -> Result<Found, StoreError> {
        if wanted.is_empty() {
            return Ok(Found::default());
        }
        self.work(async |session| ahead::look(session, wanted).await)
    }

    fn open_kin(&mut self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let kin = job.kin();
        let asked = vec![param(kin.start().0), param(kin.end().0), param(clamped(limit))];
        self.list(sql::OPEN_KIN, &asked, |row| values::job(row, 0))
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        let mut due = self.work(async |session| {
            let mut train = Train::default();
            let jobs = train.add(sql::DUE_JOBS, vec![param(now.0), param(clamped(limit))]);
            let steps = train.add(sql::DUE_STEPS, vec![param(now.0), param(clamped(limit))]);
            let answers = session.run(&train).await?;
            let job =
                |row: &Row| Ok(Due { at: values::time(row, 0)?, job: values::job(row, 1)?, step: None, queued: false });
            let step = |row: &Row| {
                let (at, job, step) = (values::time(row, 0)?, values::job(row, 1)?, Some(values::step(row, 2)?));
                Ok(Due { at, job, step, queued: get(row, 3)? })
            };
            let (jobs, steps) = (answers[jobs].iter().map(job), answers[steps].iter().map(step));
            Ok(jobs.chain(steps).collect::<Read<Vec<Due>>>()?)
        })?;
        due.sort_unstable_by_key(|d| (d.at, d.job, d.step));
        due.truncate(limit);
        Ok(due)
    }

    fn due_logs(&mut self, now: Time, limit: usize) -> Result<Vec<DueLog>, StoreError> {
        self.list(sql::DUE_LOGS, &[param(now.0), param(clamped(limit))], logs::due)
    }

    fn due_triggers(&mut self, now: Time, limit: usize) -> Result<Vec<TriggerRow>, StoreError> {
        self.list(sql::DUE_TRIGGERS, &[param(now.0), param(clamped(limit))], triggers::trigger_row)
    }

    fn due_outbox(&mut self, now: Time, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.list(sql::DUE_OUTBOX, &[param(now.0), param(clamped(limit))], reader::outbox_view)
    }

    fn next_outbox(&mut self) -> Result<Option<Time>, StoreError> {
        self.one(sql::NEXT_OUTBOX, &[], |row| values::maybe_time(row, 0))
    }

    fn next_check(&mut self) -> Result<Option<Time>, StoreError> {
        self.one(sql::NEXT_CHECK, &[], |row| values::maybe_time(row, 0))
    }

    fn queued(&mut self) -> Result<Vec<QueuedStep>, StoreError> {
        self.list(sql::QUEUED_STEPS, &[], |row| step_place(row).map(|(job, ix)| QueuedStep { job, ix }))
    }

    fn held(&mut self) -> Result<Vec<(JobId, StepIx)>, StoreError> {
        self.list(sql::HELD, &[], step_place)
    }

    fn held_steps(&mut self) -> Result<Vec<HeldStep>, StoreError> {
        self.list(sql::HELD_STEPS, &[], |row| {
            Ok(HeldStep {
                job: values::job(row, 0)?,
                ix: values::step(row, 1)?,
                state: get(row, 2)?,
                for_operator: get(row, 3)?,
                worker: values::worker(row, 4)?,
                attempt: values::attempt(row, 5)?,
                since: values::time(row, 6)?,
            })
        })
    }

    fn reserve_fences(&mut self, count: u64, floor: u64) -> Result<u64, StoreError> {
        let asked = vec![param(signed(count)?), param(signed(floor)?)];
        let last = self.one(sql::RESERVE_FENCES, &asked, |row| values::unsigned(row, 0))?;
        Ok(last + 1 - count)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn clock(&mut self) -> Result<Option<Time>, StoreError> {
        self.one(sql::CLOCK, &[], |row| values::time(row, 0)).map(Some)
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        let config = self.listen.as_ref()?;
        let start = || Arc::new(PostgresBell::start(self.place.driver(), config.clone(), self.place.leads_to(config)));
        Some(self.bell.get_or_init(start).clone())
    }

    fn register_server(&mut self, server: &ServerRow, stale_before: Time) -> Result<u64, StoreError> {
        self.change(&async |session| servers::register(session, server, stale_before).await)
    }

    fn changed_since(&mut self, after: u64, limit: usize) -> Result<Vec<(u64, JobId)>, StoreError> {
        // Numbers become visible in their order, see `add_events.sql`: nothing has to be held back.
        let asked = vec![param(clamped(after)), param(clamped(limit))];
        self.list(sql::CHANGED_SINCE, &asked, |row| Ok((values::unsigned(row, 0)?, values::job(row, 1)?)))
    }

    fn worker(&mut self, id: WorkerId) -> Result<Option<WorkerRow>, StoreError> {
        Ok(self.list(sql::WORKER, &[param(id.0)], reader::worker_row)?.pop())
    }

    fn prune_beats(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, &async |session| {
            let mut pruned = 0;
            for text in [sql::PRUNE_BEATS, sql::PRUNE_BEAT_HISTORY] {
                pruned += session.execute(text, &[&before.0, &clamped(limit)]).await?;
            }
            Ok(count(pruned))
        })
    }

    fn doom(&mut self, jobs: &[(JobId, u64)], now: Time, under: Option<Tenure>) -> Result<Vec<JobId>, StoreError> {
        self.tidy(under, &async |session| retention::doom(session, jobs, now).await)
    }

    fn clear_doomed(&mut self, piece: Piece, under: Option<Tenure>) -> Result<Cleared, StoreError> {
        self.tidy(under, &async |session| retention::clear_doomed(session, piece).await)
    }

    fn drop_log(
        &mut self,
        attempt: AttemptId,
        now: Time,
        piece: Piece,
        under: Option<Tenure>,
    ) -> Result<Cleared, StoreError> {
        self.tidy(under, &async |session| retention::drop_log(session, attempt, now, piece).await)
    }

    fn prune_definitions(
        &mut self,
        after: Option<[u8; 32]>,
        limit: usize,
        under: Option<Tenure>,
    ) -> Result<(usize, Option<[u8; 32]>), StoreError> {
        self.tidy(under, &async |session| retention::prune_definitions(session, after, limit).await)
    }

    fn drop_strays(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<Strays, StoreError> {
        self.tidy(under, &async |session| retention::drop_strays(session, before, limit).await)
    }

    fn depart(
        &mut self,
        worker: WorkerId,
        unseen_since: Time,
        now: Time,
        under: Option<Tenure>,
    ) -> Result<bool, StoreError> {
        self.tidy(under, &async |session| retention::depart(session, worker, unseen_since, now).await)
    }

    fn prune_groups(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.tidy(under, &async |session| {
            session.execute(sql::PRUNE_GROUPS, &[&before.0, &clamped(limit)]).await.map(count)
        })
    }

    fn put_token(&mut self, token: &TokenRow) -> Result<(), StoreError> {
        let TokenRow { id, kind, role, name, hash, tags, uses_left, created_at, expires_at, revoked_at } = token;
        let (kind, role, name, tags) = (text(kind), text(role), text(name), tags_text(tags));
        let uses_left = uses_left.map(i64::from);
        let (hash, times) = (hash.as_slice(), (micros(*expires_at), micros(*revoked_at)));
        self.execute(
            sql::PUT_TOKEN,
            &[id, &kind, &role, &name, &hash, &tags, &uses_left, &created_at.0, &times.0, &times.1],
        )
        .map(drop)
    }

    fn revoke_token(&mut self, id: Uuid, now: Time) -> Result<bool, StoreError> {
        self.execute(sql::REVOKE_TOKEN, &[&id, &now.0]).map(|revoked| revoked > 0)
    }

    fn enroll(&mut self, token_hash: &[u8; 32], worker: &NewWorker, now: Time) -> Result<Enrolled, StoreError> {
        let (token, name, credential) = (token_hash.as_slice(), text(&worker.name), worker.credential_hash.as_slice());
        self.change(&async |session| {
            if session.execute(sql::SPEND_ENROLL_TOKEN, &[&token, &now.0]).await? == 0 {
                return Ok(Enrolled::Refused);
            }
            let row: [&dyn Value; 6] = [&worker.id.0, &name, &credential, &worker.state_id, &now.0, &token];
            session.execute(sql::ADD_WORKER, &row).await?;
            Ok(Enrolled::Yes)
        })
    }

    fn put_secret(&mut self, secret: &SecretRow) -> Result<(), StoreError> {
        let SecretRow { name, sealed, set_at, set_by } = secret;
        self.execute(sql::PUT_SECRET, &[&text(name), sealed, &set_at.0, &text(set_by)]).map(drop)
    }

    fn remove_secret(&mut self, name: &str) -> Result<bool, StoreError> {
        self.execute(sql::REMOVE_SECRET, &[&text(name)]).map(|removed| removed > 0)
    }

    fn put_task(&mut self, task: &TaskRow) -> Result<(), StoreError> {
        let TaskRow { name, source, pushed_at, pushed_by } = task;
        self.execute(sql::PUT_TASK, &[&text(name), &text(source), &pushed_at.0, &text(pushed_by)]).map(drop)
    }

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        if key == migrate::MIN_READER {
            return Err(StoreError::Refused { message: format!("`{key}` belongs to the schema") });
        }
        self.execute(sql::PUT_META, &[&vec![text(key)], &vec![text(value)]]).map(drop)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if let Some(bell) = self.bell.get() {
            bell.end();
        }
    }
}

fn of_listen(error: StoreError) -> StoreError {
    match error {
        StoreError::Refused { message } => StoreError::Refused { message: format!("`postgres.listen`: {message}") },
        error => error,
    }
}

fn step_place(row: &Row) -> Read<(JobId, StepIx)> {
    Ok((values::job(row, 0)?, values::step(row, 1)?))
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use store::rows::OutboxRow;
    use testkit::postgres::Database;

    use super::*;

    /// However many rows travel together, they travel with the same statements.
    #[test]
    fn the_size_of_a_batch_makes_no_statement() {
        let database = Database::new();
        let mut store = PostgresStore::open(&database.url()).expect("a database");
        let mut batches = 0;
        let mut prepared = |size: u128| {
            batches += 1;
            let id = |n: u128| Uuid::from_u128((batches << 64) + n);
            let (job, kind, body, created_at) = (JobId(id(0)), "webhook", String::new(), Time(0));
            let outbox =
                (0..size).map(|n| OutboxRow { id: id(n), job, kind, body: body.clone(), created_at }).collect();
            let seen = (0..size).map(|n| (WorkerId(id(n)), Time(0))).collect();
            store.commit(&Batch { outbox, seen, ..Batch::default() }).expect("a batch");
            let count = "SELECT count(*) FROM pg_prepared_statements";
            store.one(count, &[], |row| get::<i64>(row, 0)).expect("a count")
        };
        prepared(1);
        let few = prepared(1);
        assert!(few > 3, "statements are prepared: {few}");
        for size in [2, 3, 50, 1_000] {
            assert_eq!(prepared(size), few, "{size}");
        }
    }
}
