//! A database that says no: to one event, or to all for a while.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use engine::{AttemptId, Event, JobId, StepIx, Time, WorkerId};
use protocol::attempt::Ticket;
use protocol::link::{
    HeldAttempt, HeldState, Hello, Kept, LogHeader, MissingCause, RefusedCode, ServerMessage, VerdictKind,
    WorkerMessage,
};
use server::clock::Clock;
use server::dispatch::Roster;
use server::ledger::{self, Command, Commit, Ledger, LedgerDown, LinkEvent, SubmitError, Submitted};
use store::read::OutboxView;
use store::rows::{self, QueuedStep, ServerRow, StoredJob, WorkerRow};
use store::{
    Batch, Cleared, Committed, Due, DueLog, Enrolled, HeldStep, Piece, Reader, Store, StoreError, Strays, Tenure,
};
use store_sqlite::SqliteStore;

use crate::cluster::{Cluster, running};
use crate::desk::{Desk, ONE, hello, submit};
use crate::recovery::held;

const SECOND: Duration = Duration::from_secs(1);

const DOOMED: &str = "name: doomed\nsteps:\n  a: { run: 'true' }\n";

/// The real store, which refuses every batch that writes a job of the task `poison`, or changes one of the task
/// `cursed`, or lets one of the task `doomed` recover; or is away when told so.
pub(crate) struct Faulty<S = SqliteStore> {
    inner: S,
    away: Arc<AtomicBool>,
    /// Commits the next batch, and does not say so.
    mute: Arc<AtomicBool>,
    /// Cannot be asked who holds what.
    blind: Arc<AtomicBool>,
    /// Refuses so many of the next batches, whatever is in them.
    moody: Arc<AtomicU32>,
    /// Refuses so many of the next batches that change a job of the task `shy`.
    shy: Arc<AtomicU32>,
    /// Is away for so many of the next families that are asked for.
    kinless: Arc<AtomicU32>,
    /// Is away for so many of the next jobs that are read.
    absent: Arc<AtomicU32>,
    /// Other servers may write to it as well.
    shared: bool,
}

impl<S> Faulty<S> {
    /// It has no faults yet but for the tasks that it does not like.
    fn kind(inner: S) -> Faulty<S> {
        let (away, mute, blind) = (Arc::default(), Arc::default(), Arc::default());
        let (moody, shy, kinless, absent) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        Faulty { inner, away, mute, blind, moody, shy, kinless, absent, shared: false }
    }

    /// Refuses so many of the next batches.
    pub(crate) fn moody(inner: S, moody: Arc<AtomicU32>) -> Faulty<S> {
        Faulty { moody, ..Faulty::kind(inner) }
    }

    /// Commits what is next, and does not say so, whenever this is set.
    pub(crate) fn mute(inner: S, mute: Arc<AtomicBool>) -> Faulty<S> {
        Faulty { mute, ..Faulty::kind(inner) }
    }
}

/// Whether one of so many was left.
fn takes_one(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl<S: Store> Store for Faulty<S> {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, StoreError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable { message: "it is away".to_owned() });
        }
        let cursed = |job: &store::JobWrite| job.row.task == "cursed" && job.expected.is_some();
        let doomed = |job: &store::JobWrite| job.row.task == "doomed" && job.row.state == "recovering";
        if batch.jobs.iter().any(|job| job.row.task == "poison" || cursed(job) || doomed(job)) {
            return Err(StoreError::Refused { message: "it does not like this".to_owned() });
        }
        let shy = |job: &store::JobWrite| job.row.task == "shy" && job.expected.is_some();
        if batch.jobs.iter().any(shy) && takes_one(&self.shy) {
            return Err(StoreError::Refused { message: "it does not like this now".to_owned() });
        }
        if takes_one(&self.moody) {
            return Err(StoreError::Refused { message: "it does not like anything now".to_owned() });
        }
        let committed = self.inner.commit(batch)?;
        if self.mute.swap(false, Ordering::Relaxed) {
            return Err(StoreError::Unavailable { message: "the answer is lost".to_owned() });
        }
        Ok(committed)
    }

    fn is_shared(&self) -> bool {
        self.shared || self.inner.is_shared()
    }

    fn register_server(&mut self, server: &ServerRow, stale_before: Time) -> Result<u64, StoreError> {
        self.inner.register_server(server, stale_before)
    }

    fn changed_since(&mut self, after: u64, limit: usize) -> Result<Vec<(u64, JobId)>, StoreError> {
        self.inner.changed_since(after, limit)
    }

    fn load_job(&mut self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        if takes_one(&self.absent) {
            return Err(StoreError::Unavailable { message: "it is away for a moment".to_owned() });
        }
        self.inner.load_job(id)
    }
    fn place_of(&mut self, attempt: AttemptId) -> Result<Option<(JobId, StepIx)>, StoreError> {
        self.inner.place_of(attempt)
    }
    fn open_kin(&mut self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        if takes_one(&self.kinless) {
            return Err(StoreError::Unavailable { message: "it is away for a moment".to_owned() });
        }
        self.inner.open_kin(job, limit)
    }
    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.inner.due(now, limit)
    }
    fn due_outbox(&mut self, now: Time, limit: usize) -> Result<Vec<OutboxView>, StoreError> {
        self.inner.due_outbox(now, limit)
    }

    fn next_outbox(&mut self) -> Result<Option<Time>, StoreError> {
        self.inner.next_outbox()
    }

    fn due_logs(&mut self, now: Time, limit: usize) -> Result<Vec<DueLog>, StoreError> {
        self.inner.due_logs(now, limit)
    }
    fn due_triggers(&mut self, now: Time, limit: usize) -> Result<Vec<rows::TriggerRow>, StoreError> {
        self.inner.due_triggers(now, limit)
    }
    fn next_check(&mut self) -> Result<Option<Time>, StoreError> {
        self.inner.next_check()
    }
    fn queued(&mut self) -> Result<Vec<QueuedStep>, StoreError> {
        self.inner.queued()
    }
    fn held(&mut self) -> Result<Vec<(JobId, StepIx)>, StoreError> {
        self.inner.held()
    }
    fn held_steps(&mut self) -> Result<Vec<HeldStep>, StoreError> {
        if self.blind.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable { message: "it cannot be read".to_owned() });
        }
        self.inner.held_steps()
    }
    fn reserve_fences(&mut self, count: u64, floor: u64) -> Result<u64, StoreError> {
        self.inner.reserve_fences(count, floor)
    }
    fn worker(&mut self, id: WorkerId) -> Result<Option<WorkerRow>, StoreError> {
        self.inner.worker(id)
    }
    fn prune_beats(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.inner.prune_beats(before, limit, under)
    }
    fn doom(&mut self, jobs: &[(JobId, u64)], now: Time, under: Option<Tenure>) -> Result<Vec<JobId>, StoreError> {
        self.inner.doom(jobs, now, under)
    }
    fn clear_doomed(&mut self, piece: Piece, under: Option<Tenure>) -> Result<Cleared, StoreError> {
        self.inner.clear_doomed(piece, under)
    }
    fn drop_log(
        &mut self,
        attempt: AttemptId,
        now: Time,
        piece: Piece,
        under: Option<Tenure>,
    ) -> Result<Cleared, StoreError> {
        self.inner.drop_log(attempt, now, piece, under)
    }
    fn prune_definitions(
        &mut self,
        after: Option<[u8; 32]>,
        limit: usize,
        under: Option<Tenure>,
    ) -> Result<(usize, Option<[u8; 32]>), StoreError> {
        self.inner.prune_definitions(after, limit, under)
    }
    fn drop_strays(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<Strays, StoreError> {
        self.inner.drop_strays(before, limit, under)
    }
    fn depart(
        &mut self,
        worker: WorkerId,
        unseen_since: Time,
        now: Time,
        under: Option<Tenure>,
    ) -> Result<bool, StoreError> {
        self.inner.depart(worker, unseen_since, now, under)
    }
    fn prune_groups(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError> {
        self.inner.prune_groups(before, limit, under)
    }
    fn put_token(&mut self, token: &rows::TokenRow) -> Result<(), StoreError> {
        self.inner.put_token(token)
    }
    fn revoke_token(&mut self, id: uuid::Uuid, now: Time) -> Result<bool, StoreError> {
        self.inner.revoke_token(id, now)
    }
    fn enroll(&mut self, hash: &[u8; 32], worker: &rows::NewWorker, now: Time) -> Result<Enrolled, StoreError> {
        self.inner.enroll(hash, worker, now)
    }
    fn put_secret(&mut self, secret: &rows::SecretRow) -> Result<(), StoreError> {
        self.inner.put_secret(secret)
    }
    fn remove_secret(&mut self, name: &str) -> Result<bool, StoreError> {
        self.inner.remove_secret(name)
    }
    fn put_task(&mut self, task: &rows::TaskRow) -> Result<(), StoreError> {
        self.inner.put_task(task)
    }
    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        self.inner.set_meta(key, value)
    }
    fn reader(&self) -> Arc<dyn Reader> {
        self.inner.reader()
    }
}

fn desk() -> (Desk<Faulty>, Arc<AtomicBool>) {
    let away = Arc::new(AtomicBool::new(false));
    let flag = away.clone();
    (Desk::with(|inner| Faulty { away: flag, ..Faulty::kind(inner) }), away)
}

/// The sweep is a backstop: it must not turn itself off, however often it fails.
#[test]
fn a_sweep_that_fails_comes_again_for_ever() {
    let blind = Arc::new(AtomicBool::new(true));
    let flag = blind.clone();
    let mut desk = Desk::with_config(
        |inner| Faulty { blind: flag, ..Faulty::kind(inner) },
        |config| config.rules.dispatch_ack = Duration::from_secs(30_000),
    );
    let mut w = desk.worker("w", "script", 2);
    desk.submit(ONE);
    let ticket = w.offer().ticket;
    desk.pass(Duration::from_secs(1_000));
    w.none();
    blind.store(false, Ordering::Relaxed);
    desk.pass(Duration::from_secs(6));
    assert_eq!(w.take()[0], ServerMessage::Withdraw { ticket });
}

#[test]
fn one_poison_event_stands_alone_and_the_rest_goes_through() {
    let (mut desk, _) = desk();
    let mut w = desk.worker("w", "script", 8);
    let mut answers = Vec::new();
    let mut commands = Vec::new();
    for n in 0..9 {
        let (command, answer) = submit(if n == 5 { "name: poison\nsteps:\n  a: { run: 'true' }\n" } else { ONE }, None);
        commands.push(command);
        answers.push(answer);
    }
    desk.round(commands);
    for (n, answer) in answers.iter_mut().enumerate() {
        let answer = answer.try_recv().expect("answered");
        assert_eq!(answer.is_err(), n == 5, "{n}: {answer:?}");
        match answer {
            Ok(made) => desk.check(made.job, "pending: queued"),
            Err(error) => assert!(matches!(error, SubmitError::Internal(_))),
        }
    }
    // Each of the eight was offered exactly once, although the batch was decided several times.
    let offered: std::collections::BTreeSet<_> = w.take().iter().map(|m| format!("{m:?}")).collect();
    assert_eq!(offered.len(), 8);
}

#[test]
fn nothing_is_answered_or_sent_before_the_commit() {
    let (mut desk, away) = desk();
    let mut w = desk.worker("w", "script", 1);
    away.store(true, Ordering::Relaxed);
    let (command, mut answer) = submit(ONE, None);
    let tick = desk.tick();
    desk.core().begin(vec![command], tick);
    for _ in 0..3 {
        assert!(matches!(desk.core().commit(), Commit::Retry(_)));
        assert!(answer.try_recv().is_err(), "no answer while the database is away");
        w.none();
    }
    away.store(false, Ordering::Relaxed);
    assert!(matches!(desk.core().commit(), Commit::Done));
    let job = answer.try_recv().expect("answered now").expect("made").job;
    desk.check(job, "pending: queued");
    w.offer();
}

#[test]
fn a_job_that_can_never_be_written_again_holds_up_nobody() {
    let (mut desk, _) = desk();
    let cursed = desk.submit("name: cursed\nsteps:\n  a: { run: 'true', unmatched: 30s }\n");
    let mut w = desk.worker("w", "script", 4);
    // It cannot be offered, nor checked, nor failed; others can.
    w.none();
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.pass(std::time::Duration::from_secs(3_700));
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
    desk.check(cursed, "pending: queued");
    // Its check is not asked for without a pause.
    assert!(desk.core().wake_at() > desk.now);
}

/// It cannot be held while it cannot be written; later it can, and waits for a person as all others do.
#[test]
fn a_job_that_could_not_be_told_of_a_restore_is_told_later() {
    let shy = Arc::new(AtomicU32::new(0));
    let flag = shy.clone();
    let mut desk = Desk::with(|inner| Faulty { shy: flag, shared: true, ..Faulty::kind(inner) });
    let text = "name: shy\nsteps:\n  a: { run: 'true' }\n  b: { run: 'true', effects: none }\n";
    let job = desk.submit(text);
    let now = desk.now + SECOND;
    ledger::say_restored(desk.core().store_mut(), now).expect("written").expect("a server has run");
    shy.store(1, Ordering::Relaxed);
    desk.pass(SECOND * 5);
    assert_eq!(shy.load(Ordering::Relaxed), 0);
    let mut w = desk.worker("w", "script", 4);
    desk.pass(SECOND * 30);
    w.none();
    desk.check(job, "pending: queued queued");
    desk.pass(SECOND * 60);
    desk.check(job, "pending: held queued");
    let mut w = desk.knock(w.worker, hello("w", "script", 4, Vec::new())).welcomed();
    assert_eq!(desk.start(&mut w).step, "b");
    let approve = Event::Approve { step: StepIx(0), by: "ann".to_owned(), comment: String::new() };
    desk.event(job, approve).expect("it waits for that");
    desk.pass(SECOND);
    assert_eq!(w.offer().step, "a");
}

#[test]
fn one_attempt_that_cannot_be_marked_as_cut_off_does_not_stop_the_ledger() {
    let (mut desk, _) = desk();
    let mut w = desk.worker("w", "script", 2);
    let doomed = desk.submit(DOOMED);
    desk.start(&mut w);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.check(job, "recovering: recovering");
    desk.check(doomed, "running: running");
    let mut other = desk.worker("other", "script", 1);
    let next = desk.submit(ONE);
    let spec = desk.start(&mut other);
    desk.ends(&other, spec.ticket, 0);
    desk.check(next, "success: success");
}

/// Else the server that had the link keeps it, and its worker never brings again what is waited for.
#[test]
fn a_link_is_lost_on_record_with_the_first_of_its_attempts_that_can_be_written() {
    let mut cluster = Cluster::with(2, Faulty::kind);
    let mut w = cluster.desk(0).worker("w", "script", 2);
    let doomed = cluster.desk(0).submit(DOOMED);
    let first = cluster.desk(0).start(&mut w);
    let job = cluster.desk(0).submit(ONE);
    let second = cluster.desk(0).start(&mut w);
    cluster.freeze(0);
    while cluster.desk(1).seen(job).job == "running" {
        cluster.pass(SECOND / 10);
    }
    cluster.desk(1).check(job, "recovering: recovering");
    // It is back before anybody looks again.
    cluster.thaw(0);
    cluster.pass(SECOND * 5);
    w.take();
    assert!(w.closed, "its link was taken for lost");
    let brings = vec![running(&first), running(&second)];
    cluster.desk(0).connect(w.worker, "w", "script", 2, brings);
    cluster.desk(0).check(job, "running: running");
    cluster.desk(0).check(doomed, "running: running");
}

/// It is found in the same round as whatever else comes then.
#[test]
fn nobody_else_is_refused_for_a_lost_link_that_cannot_be_written() {
    let mut cluster = Cluster::with(2, Faulty::kind);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let doomed = cluster.desk(0).submit(DOOMED);
    cluster.desk(0).start(&mut w);
    cluster.kill(0);
    for _ in 0..1_000 {
        cluster.now = cluster.now + SECOND / 10;
        cluster.desk(1).submit(ONE);
    }
    assert_eq!(cluster.desk(1).core().census().aside, 1);
    cluster.desk(1).check(doomed, "running: running");
}

#[test]
fn a_lost_link_is_written_later_and_with_it_when_its_worker_left() {
    let shy = Arc::new(AtomicU32::new(0));
    let flag = shy.clone();
    let mut desk = Desk::with(|inner| Faulty { shy: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit("name: shy\nsteps:\n  a: { run: 'true' }\n");
    desk.start(&mut w);
    // Its lost link is refused together with the word of it, and then alone.
    shy.store(3, Ordering::Relaxed);
    desk.hang_up(&w);
    assert_eq!((shy.load(Ordering::Relaxed), desk.core().census().aside), (0, 1));
    desk.check(job, "running: running");
    let row = desk.reader.workers().expect("a read").into_iter().find(|row| row.id == w.worker).expect("a row");
    assert!(row.left_heard.is_some());
    desk.pass(SECOND * 62);
    desk.check(job, "recovering: recovering");
}

/// With each mark the rows are read again where there were other servers, and a lost link is found again that cannot be
/// written. Nobody else may be refused for it.
#[test]
fn an_attempt_that_cannot_be_marked_as_cut_off_is_left_alone_when_the_rows_are_read_again() {
    let mut desk = Desk::with(|mut inner| {
        let (id, address, gone) =
            (rows::ServerId(uuid::Uuid::from_u128(1)), "gone".to_owned(), Time(1_700_000_000_000_000));
        let row = ServerRow {
            id,
            generation: 0,
            address,
            started_at: gone,
            beat_at: gone,
            beat_heard: engine::Heard(0),
            left_at: Some(gone),
        };
        inner.register_server(&row, Time(0)).expect("a row");
        Faulty { shared: true, ..Faulty::kind(inner) }
    });
    let mut w = desk.worker("w", "script", 1);
    let doomed = desk.submit("name: doomed\nsteps:\n  a: { run: 'true' }\n");
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.check(doomed, "running: running");
    let mut other = desk.worker("other", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut other);
    for second in 0..50 {
        desk.now = desk.now + Duration::from_secs(1);
        let (first_seq, last_seq, missing, cause) = (1, 0, 0, MissingCause::Limit);
        let header = LogHeader { ticket: spec.ticket, first_seq, last_seq, missing, cause, complete: false };
        desk.log(&other, header, Vec::new());
        assert_eq!(
            other.take(),
            [ServerMessage::LogAck { ticket: spec.ticket, seq: 0, dropped: false }],
            "after {second} seconds"
        );
        assert!(desk.core().wake_at() > desk.now, "after {second} seconds: what fails is not tried without a pause");
    }
    desk.ends(&other, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn nothing_is_kept_of_a_job_that_was_set_aside_and_ended_meanwhile() {
    let (mut desk, _) = desk();
    let mut w = desk.worker("w", "script", 1);
    let doomed = desk.submit(DOOMED);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    assert_eq!(desk.core().census().aside, 1);
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    desk.ends(&w, spec.ticket, 0);
    desk.check(doomed, "success: success");
    desk.pass(Duration::from_secs(70));
    assert_eq!(desk.core().census().aside, 0);
}

/// Nothing else speaks of a step that is queued: its job has to be looked at when it is left alone no more.
#[test]
fn a_step_whose_offer_was_refused_is_offered_later() {
    let shy = Arc::new(AtomicU32::new(2));
    let flag = shy.clone();
    let mut desk = Desk::with(|inner| Faulty { shy: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let first = desk.start(&mut w);
    let job = desk.submit("name: shy\nsteps:\n  a: { run: 'true', unmatched: 1h }\n");
    // Its offer is refused together with the end that makes room for it, and then alone.
    desk.ends(&w, first.ticket, 0);
    w.take();
    desk.pass(Duration::from_secs(50));
    assert_eq!((shy.load(Ordering::Relaxed), desk.core().census().aside), (0, 1));
    w.none();
    desk.pass(Duration::from_secs(12));
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

/// A report on an attempt that is over changes nothing, also where it cannot even be kept as evidence.
#[test]
fn a_stale_report_that_cannot_be_written_fails_no_step() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty { moody: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    let retry = "retry: { attempts: 2, delay: 60s, jitter: false }";
    let job = desk.submit(&format!("name: r\nsteps:\n  a: {{ run: 'false', {retry} }}\n"));
    let ticket = desk.start(&mut w).ticket;
    desk.ends(&w, ticket, 1);
    desk.check(job, "running: waiting");
    // With other things, alone, and then it goes to quarantine.
    moody.store(2, Ordering::Relaxed);
    desk.ends(&w, ticket, 1);
    assert_eq!(moody.load(Ordering::Relaxed), 0);
    desk.check(job, "running: waiting");
}

/// Batches without a word on it were refused: that is no reason to leave it alone.
#[test]
fn a_job_is_not_set_aside_for_what_was_not_about_it() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty { moody: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(100));
    // A mark, the look at the rows after it, and the look at each link that is gone.
    moody.store(3, Ordering::Relaxed);
    desk.pass(Duration::from_secs(19));
    desk.check(job, "recovering: recovering");
    desk.pass(Duration::from_secs(2));
    desk.check(job, "failed: failed");
}

/// Nothing is wrong with it: it is looked at again as soon as it can be.
#[test]
fn a_job_is_not_set_aside_because_the_database_was_away() {
    let (moody, absent) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (moods, absences) = (moody.clone(), absent.clone());
    let mut desk = Desk::with(|inner| Faulty { moody: moods, absent: absences, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    let retry = "retry: { attempts: 2, delay: 60s, jitter: false }";
    let job = desk.submit(&format!("name: r\nsteps:\n  a: {{ run: 'false', {retry} }}\n"));
    let ticket = desk.start(&mut w).ticket;
    desk.ends(&w, ticket, 1);
    desk.check(job, "running: waiting");
    desk.pass(Duration::from_secs(30));
    // A refusal empties the memory, so that the job has to be read when its time has come.
    moody.store(1, Ordering::Relaxed);
    desk.pass(Duration::from_secs(25));
    absent.store(1, Ordering::Relaxed);
    desk.pass(Duration::from_secs(7));
    assert_eq!(absent.load(Ordering::Relaxed), 0);
    w.offer();
}

/// Its step is in no queue then, and nobody else may have a word for it.
#[test]
fn a_job_that_could_not_be_read_when_the_rest_was_is_read_later() {
    let (moody, absent) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (moods, absences) = (moody.clone(), absent.clone());
    let mut desk = Desk::with(|inner| Faulty { moody: moods, absent: absences, ..Faulty::kind(inner) });
    let job = desk.submit("name: patient\nsteps:\n  a: { run: 'true', unmatched: 1h }\n");
    // A refusal empties the memory, and all is read again.
    moody.store(1, Ordering::Relaxed);
    absent.store(1, Ordering::Relaxed);
    desk.pass(Duration::from_secs(5));
    assert_eq!(absent.load(Ordering::Relaxed), 0);
    let mut w = desk.worker("w", "script", 1);
    assert_eq!(w.offer().job, job.0);
}

/// What it is cannot be told while it cannot be read; so it is not started, as if it might have run.
#[test]
fn what_cannot_be_read_does_not_start_while_commits_are_lost_and_does_later() {
    for absences in 0..6 {
        let (moody, absent) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (moods, away) = (moody.clone(), absent.clone());
        let mut desk = Desk::with(|inner| Faulty { moody: moods, absent: away, ..Faulty::kind(inner) });
        // It has not reported until the window is over.
        let _awaited = desk.worker("awaited", "gpu", 1);
        let mut w = desk.worker("w", "script", 1);
        let job = desk.submit(ONE);
        let spec = w.offer();
        let proof = desk.enrol("proof");
        let first = desk.knock(proof, hello("proof", "gpu", 1, Vec::new())).welcomed();
        desk.hang_up(&first);
        let last_epoch = first.welcome.epoch + 1;
        desk.knock(proof, Hello { last_epoch, ..hello("proof", "gpu", 1, Vec::new()) }).welcomed();
        // A refusal empties the memory, so that the job has to be read again.
        moody.store(1, Ordering::Relaxed);
        absent.store(absences, Ordering::Relaxed);
        desk.says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
        assert_eq!(moody.load(Ordering::Relaxed), 0);
        desk.pass(Duration::from_secs(60));
        assert_eq!(absent.load(Ordering::Relaxed), 0);
        let said = w.take();
        assert!(!said.iter().any(|mail| matches!(mail, ServerMessage::Go { .. })), "{absences}: it may have run");
        assert!(w.closed, "{absences}: it is asked for what it has");
        let comes = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, Vec::new()) };
        let mut w = desk.knock(w.worker, comes).welcomed();
        w.none();
        desk.check(job, "pending: queued");
        desk.pass(Duration::from_secs(70));
        assert!(
            w.take().iter().any(|mail| matches!(mail, ServerMessage::Offer { .. })),
            "{absences}: its time has come"
        );
    }
}

/// A worker that is told to end its attempt without an answer does not ask again, and the row waits for it in vain.
#[test]
fn a_worker_is_not_welcomed_by_rows_that_could_not_be_read() {
    for absences in 0..8 {
        let (moody, absent) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (moods, away) = (moody.clone(), absent.clone());
        let mut desk = Desk::with(|inner| Faulty { moody: moods, absent: away, ..Faulty::kind(inner) });
        let mut w = desk.worker("w", "script", 1);
        let job = desk.submit(ONE);
        let spec = desk.start(&mut w);
        desk.hang_up(&w);
        desk.check(job, "recovering: recovering");
        // A refusal empties the memory, so that the job has to be read again.
        moody.store(1, Ordering::Relaxed);
        absent.store(absences, Ordering::Relaxed);
        let brings = vec![held(&spec, HeldState::Running)];
        let last_epoch = w.welcome.epoch;
        let back = desk.knock(w.worker, Hello { last_epoch, ..hello("w", "script", 1, brings) }).welcomed();
        assert_eq!(absent.load(Ordering::Relaxed), 0);
        assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue, "{absences}");
        desk.check(job, "running: running");
    }
}

/// Nobody else would hear of it.
#[test]
fn a_loss_is_said_though_the_round_that_noticed_it_was_refused() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty { moody: flag, ..Faulty::kind(inner) });
    let proof = desk.enrol("proof");
    let first = desk.knock(proof, hello("proof", "gpu", 1, Vec::new())).welcomed();
    desk.hang_up(&first);
    let last_epoch = first.welcome.epoch + 1;
    moody.store(1, Ordering::Relaxed);
    let comes = Hello { last_epoch, kept: Some(Kept::Apart), ..hello("proof", "gpu", 1, Vec::new()) };
    let mut asked = desk.knock(proof, comes);
    assert_eq!(asked.refused().map(|(code, _)| code), Some(RefusedCode::Recall));
    assert_eq!(moody.load(Ordering::Relaxed), 0);
    desk.pass(Duration::from_secs(3));
    assert!(desk.reader.meta("amnesia").expect("a read").is_some());
}

/// A worker has every frame of a log answered, or it waits for ever and keeps the attempt.
#[test]
fn a_piece_of_a_log_that_was_refused_is_asked_for_once_more() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty { moody: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 3);
    let mut acks_when_refused = |times: u32, tries: usize| {
        desk.submit(ONE);
        let ticket = desk.start(&mut w).ticket;
        let (first_seq, last_seq, missing, cause) = (1, 0, 0, MissingCause::Limit);
        for _ in 0..tries {
            moody.store(times, Ordering::Relaxed);
            desk.log(&w, LogHeader { ticket, first_seq, last_seq, missing, cause, complete: true }, Vec::new());
            assert_eq!(moody.load(Ordering::Relaxed), 0, "all were used");
        }
        w.take().iter().filter(|said| matches!(said, ServerMessage::LogAck { seq: 0, .. })).count()
    };
    // The frame in a batch and alone; then also the word that it could not be written.
    assert_eq!((acks_when_refused(2, 1), acks_when_refused(3, 1)), (1, 1));
    assert_eq!(acks_when_refused(2, 2), 1, "what is never written is not sent for ever");
}

/// How often one piece was refused says nothing about the next.
#[test]
fn each_piece_of_a_log_that_was_refused_is_asked_for_once_more() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty { moody: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    for last_seq in 1..4 {
        let (first_seq, missing, cause) = (last_seq + 1, last_seq, MissingCause::Limit);
        let header = LogHeader { ticket, first_seq, last_seq, missing, cause, complete: false };
        moody.store(2, Ordering::Relaxed);
        desk.log(&w, header, Vec::new());
        assert_eq!(w.one(), ServerMessage::LogAck { ticket, seq: last_seq - 1, dropped: true });
        desk.log(&w, header, Vec::new());
        assert_eq!(w.one(), ServerMessage::LogAck { ticket, seq: last_seq, dropped: false });
    }
}

/// Nobody else would ask, and what the database did not like is over by then.
#[test]
fn a_log_that_was_refused_is_asked_for_when_it_is_closed() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty { moody: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    desk.ends(&w, ticket, 0);
    let (first_seq, last_seq, missing, cause) = (1, 0, 0, MissingCause::Limit);
    let header = LogHeader { ticket, first_seq, last_seq, missing, cause, complete: true };
    for _ in 0..2 {
        moody.store(2, Ordering::Relaxed);
        desk.log(&w, header, Vec::new());
    }
    let asked = ServerMessage::LogAck { ticket, seq: 0, dropped: true };
    assert_eq!(w.take(), std::slice::from_ref(&asked), "what is never written is not sent for ever");
    for _ in 0..13 {
        desk.pass(Duration::from_secs(10));
        desk.heartbeat(&w);
    }
    assert_eq!(w.take(), [asked], "its time is over");
    desk.log(&w, header, Vec::new());
    let said = w.take();
    assert!(said.iter().any(|said| matches!(said, ServerMessage::Forget { .. })), "{said:?}");
}

/// A refused batch empties the server's memory; the worker said its end before that, and says it no more.
#[test]
fn an_attempt_is_forgotten_though_another_batch_was_refused_between_its_end_and_its_log() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty { moody: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    desk.ends(&w, ticket, 0);
    moody.store(1, Ordering::Relaxed);
    desk.submit(ONE);
    assert_eq!(moody.load(Ordering::Relaxed), 0, "it was refused once");
    w.take();
    let (first_seq, last_seq, missing, cause) = (1, 0, 0, MissingCause::Limit);
    desk.log(&w, LogHeader { ticket, first_seq, last_seq, missing, cause, complete: true }, Vec::new());
    let said = w.take();
    assert!(said.iter().any(|said| matches!(said, ServerMessage::Forget { .. })), "{said:?}");
}

/// A refused batch empties the server's memory, and the row that tells of the end is deleted with its job by another server.
#[test]
fn an_attempt_of_a_deleted_job_is_forgotten_though_a_batch_was_refused_between_its_end_and_its_log() {
    static MOODY: LazyLock<Arc<AtomicU32>> = LazyLock::new(Arc::default);
    let mut cluster = Cluster::with(2, |inner| Faulty { moody: MOODY.clone(), ..Faulty::kind(inner) });
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(1).submit(ONE);
    let ticket = cluster.desk(1).start(&mut w).ticket;
    cluster.desk(1).ends(&w, ticket, 0);
    MOODY.store(1, Ordering::Relaxed);
    cluster.desk(1).submit("name: other\nsteps:\n  a: { run: 'true', unmatched: 1h, tags: [gpu] }\n");
    assert_eq!(MOODY.load(Ordering::Relaxed), 0, "it was refused once");
    // A frame finds no room: where the log stands is remembered again, and its end is not.
    cluster.desk(1).round(vec![Command::Link(LinkEvent::LogDropped { link: w.link, ticket })]);
    cluster.pass(SECOND * 200);
    assert_eq!(cluster.desk(0).prune(Duration::ZERO).jobs, 1);
    cluster.pass(SECOND * 60);
    assert!(cluster.desk(1).reader.job(job).expect("a look").is_none());
    w.take();
    let (first_seq, last_seq, missing, cause) = (1, 0, 0, MissingCause::Limit);
    cluster.desk(1).log(&w, LogHeader { ticket, first_seq, last_seq, missing, cause, complete: true }, Vec::new());
    let said = w.take();
    assert!(said.iter().any(|said| matches!(said, ServerMessage::Forget { .. })), "{said:?}");
}

async fn ask(ledger: &Ledger) -> Result<Submitted, LedgerDown> {
    ask_while(ledger, || {}).await
}

/// `then` happens when the ledger has taken the question, and before it is answered.
async fn ask_while(ledger: &Ledger, then: impl FnOnce()) -> Result<Submitted, LedgerDown> {
    let (command, answer) = submit(ONE, None);
    let sent = ledger.ask(|reply| {
        then();
        match command {
            Command::Submit(submit, _) => Command::Submit(submit, reply),
            _ => unreachable!("a submit"),
        }
    });
    drop(answer);
    sent.await.map(|made| made.expect("a good job"))
}

#[tokio::test]
async fn nobody_is_kept_waiting_while_the_database_is_away() {
    let (mut desk, away) = desk();
    let core = desk.core.take().expect("the server runs");
    let (_stop, stays) = tokio::sync::watch::channel(false);
    let clock = Arc::new(Clock::starting_at(desk.now));
    let (ledger, _thread) = ledger::start(core, clock, None, stays).expect("a thread");
    let asked_before = ask_while(&ledger, || away.store(true, Ordering::Relaxed));
    let asked_after = async {
        while ledger.is_healthy() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let began = std::time::Instant::now();
        let looked = ledger.inspect(Roster::connected).await;
        let took = began.elapsed();
        (looked, took, ask(&ledger).await)
    };
    let (before, (looked, took, after)) = tokio::join!(asked_before, asked_after);
    assert!(matches!(before, Err(LedgerDown::WentAway(ref why)) if why.contains("it is away")), "{before:?}");
    assert!(matches!(looked, Err(LedgerDown::Away(_))), "{looked:?}");
    assert!(took < Duration::from_secs(2), "a look took {took:?}");
    assert!(matches!(after, Err(LedgerDown::Away(_))), "{after:?}");

    away.store(false, Ordering::Relaxed);
    ask(&ledger).await.expect("it is back within the patience");
    // The first was carried out in the end, the second was never sent.
    assert_eq!(desk.reader.job_counts().expect("readable"), [("pending".to_owned(), 2)]);
}

#[test]
fn a_commit_whose_answer_was_lost_happened_once() {
    let mute = Arc::new(AtomicBool::new(false));
    let flag = mute.clone();
    let mut desk = Desk::with(|inner| Faulty { mute: flag, ..Faulty::kind(inner) });
    let mut w = desk.worker("w", "script", 2);
    let silently = |desk: &mut Desk<Faulty>, commands: Vec<Command>| {
        mute.store(true, Ordering::Relaxed);
        let tick = desk.tick();
        desk.core().begin(commands, tick);
        assert!(matches!(desk.core().commit(), Commit::Retry(_)));
        assert!(matches!(desk.core().commit(), Commit::Done), "it is there already");
    };
    let (command, mut answer) = submit(ONE, None);
    silently(&mut desk, vec![command]);
    let job = answer.try_recv().expect("an answer").expect("a good job").job;
    assert_eq!(desk.reader.jobs(&store::JobFilter { limit: 9, ..Default::default() }).expect("a read").items.len(), 1);
    // So are its effects, and what a worker says.
    let ticket = w.offer().ticket;
    let messages = vec![protocol::link::WorkerMessage::Accept { ticket }];
    silently(&mut desk, vec![Command::Link(ledger::LinkEvent::Messages { link: w.link, messages })]);
    assert_eq!(w.go(), ticket);
    desk.check(job, "running: running");
    // The next marks are made as ever.
    desk.now = desk.now + Duration::from_secs(2);
    silently(&mut desk, Vec::new());
    desk.pass(Duration::from_secs(60));
    let hearing = desk.reader.hearing().expect("a read").expect("a mark");
    assert!(desk.now.since(hearing.mark_at) <= Duration::from_secs(2) && hearing.deaf_us == 0, "{hearing:?}");
    desk.ends(&w, ticket, 0);
    desk.check(job, "success: success");
}

/// The order to stop follows from what another server did, and is in nobody's batch: a refusal must not lose it.
#[test]
fn what_another_server_demands_is_said_though_the_round_that_noticed_it_was_refused() {
    static MOODY: LazyLock<Arc<AtomicU32>> = LazyLock::new(Arc::default);
    let mut cluster = Cluster::with(2, |inner| Faulty { moody: MOODY.clone(), ..Faulty::kind(inner) });
    let mut w = cluster.desk(0).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    cluster.pass(SECOND);
    let cancel = Event::Cancel { by: "eve".to_owned(), force: false };
    cluster.desk(1).event(job, cancel).expect("it runs");
    cluster.now = cluster.now + SECOND;
    MOODY.store(1, Ordering::Relaxed);
    cluster.desk(0).submit("name: other\nsteps:\n  a: { run: 'true', unmatched: 1h, tags: [gpu] }\n");
    assert_eq!(MOODY.load(Ordering::Relaxed), 0, "the round was refused");
    cluster.pass(SECOND);
    let told = w.take();
    let stop = |said: &ServerMessage| matches!(said, ServerMessage::Stop { ticket, .. } if *ticket == spec.ticket);
    assert!(told.iter().any(stop), "{told:?}");
}

/// What a hello brings of a child that is not on record is decided by its family's rows: not by those that could be read.
#[test]
fn a_family_that_cannot_be_read_is_read_again_before_a_lost_child_is_answered() {
    let tasks = [("child", "name: child\nsteps:\n  work: { run: 'true' }\n")];
    let outer = "name: outer\nsteps:\n  first: { run: 'true', tags: [gpu], unmatched: 1h }\n  call: { needs: [first], task: child }\n";
    let unread = Arc::new(AtomicU32::new(0));
    let flag = unread.clone();
    let mut desk = Desk::with(|inner| Faulty { kinless: flag, ..Faulty::kind(inner) });
    let parent = desk.submit_with(outer, &tasks);
    let ticket = Ticket { attempt: uuid::Uuid::from_u128(7), fence: u64::MAX / 2 };
    let brings = HeldAttempt {
        ticket,
        job: parent.child(StepIx(1), 1).0,
        step: "work".to_owned(),
        state: HeldState::Running,
        log_first_seq: 0,
        log_last_seq: 0,
        events: 0,
        unsure: false,
    };
    let worker = desk.enrol("w");
    unread.store(1, Ordering::Relaxed);
    desk.connect(worker, "w", "script", 1, vec![brings]);
    assert_eq!(unread.load(Ordering::Relaxed), 0, "it could not be read");
    let attempt = ticket.attempt.to_string();
    assert!(desk.stored(parent).job.data.contains(&attempt), "its parent waits for it");
}
