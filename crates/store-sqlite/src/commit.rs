//! One batch, one transaction.
//!
//! Versions are looked at before anything is written, so a job that moved is left out whole. The statements behind
//! [`jobs`], [`steps`] and [`attempts`] are the only ones in the project that write states.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use store::plan::Plan;
use store::rows::{AttemptRow, EventRow, FleetChange, OutboxMove, StepRow};
use store::{Batch, Committed, StoreError};
use uuid::Uuid;

use crate::error::translate;
use crate::values::{micros, signed};
use crate::{beats, groups, leases, logs, servers, sql, triggers, values, workers};

/// What can go wrong on the way: SQLite's own words, or ours.
pub(crate) enum Failure {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

pub(crate) fn commit(connection: &mut Connection, path: &str, batch: &Batch) -> Result<Committed, StoreError> {
    if batch.is_empty() {
        return Ok(Committed::default());
    }
    write(connection, batch).map_err(|failure| failure.into_store(path))
}

fn write(connection: &mut Connection, batch: &Batch) -> Result<Committed, Failure> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    leases::compare(&tx, batch.under.iter().copied())?;
    let plan = plan(&tx, batch)?;
    definitions(&tx, batch)?;
    jobs(&tx, &plan)?;
    steps(&tx, batch.steps.iter().filter(|row| plan.takes(row.job)))?;
    attempts(&tx, batch.attempts.iter().filter(|row| plan.takes(row.job)))?;
    let event_ids = events(&tx, &batch.events, &plan)?;
    idempotency(&tx, batch, &plan)?;
    outbox(&tx, batch, &plan)?;
    let outbox_moved = outbox_moves(&tx, batch)?;
    evidence(&tx, batch, &plan)?;
    logs::write(&tx, batch)?;
    beats::write(&tx, &batch.beats)?;
    lineage(&tx, batch, &plan)?;
    triggers::write(&tx, batch, &plan)?;
    groups::write(&tx, batch, &plan)?;
    fleet(&tx, batch)?;
    workers::said_hello(&tx, batch)?;
    workers::seen(&tx, batch)?;
    workers::left(&tx, batch)?;
    workers::unwilling(&tx, batch)?;
    workers::used_epochs(&tx, batch)?;
    let mark_moved = !servers::mark(&tx, batch)?;
    servers::put(&tx, batch.server.as_ref())?;
    let leases = leases::claim(&tx, batch)?;
    breaker(&tx, batch)?;
    tx.commit()?;
    Ok(Committed {
        conflicts: plan.conflicts,
        event_ids,
        triggers_moved: plan.triggers_moved,
        groups_moved: plan.groups_moved,
        mark_moved,
        outbox_moved,
        leases,
    })
}

fn plan<'a>(tx: &Transaction<'_>, batch: &'a Batch) -> Result<Plan<'a>, Failure> {
    let mut version = tx.prepare_cached(sql::JOB_VERSION)?;
    let mut taken = tx.prepare_cached(sql::IDEMPOTENCY)?;
    let mut followed = tx.prepare_cached(sql::FOLLOWED)?;
    let mut trigger = tx.prepare_cached(sql::TRIGGER_VERSION)?;
    let mut admitted = tx.prepare_cached(sql::LAST_ADMITTED)?;
    Plan::new(
        batch,
        |id| Ok(version.query_row([id.0.as_bytes()], |row| values::unsigned(row, 0)).optional()?),
        |row| Ok(taken.exists(params![row.token.as_bytes(), row.key])?),
        |row| Ok(followed.exists(params![row.root.0.as_bytes(), row.number])?),
        |id| Ok(trigger.query_row([id], |row| values::unsigned(row, 0)).optional()?),
        |group| Ok(admitted.query_row([group], |row| values::job(row, 0)).optional()?),
    )
}

fn definitions(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    let mut add = tx.prepare_cached(sql::ADD_DEFINITION)?;
    for row in &batch.definitions {
        add.execute(params![row.hash, row.source, row.settings])?;
    }
    Ok(())
}

fn jobs(tx: &Transaction<'_>, plan: &Plan<'_>) -> Result<(), Failure> {
    let mut put = tx.prepare_cached(sql::PUT_JOB)?;
    for job in plan.jobs() {
        let row = &job.last.row;
        let written = put.execute(params![
            row.id.0.as_bytes(),
            signed(row.version)?,
            row.state,
            row.owner,
            micros(row.check_at),
            row.action,
            row.task,
            row.definition,
            row.input,
            row.priority,
            row.submitted_by,
            row.created_at.0,
            micros(row.started_at),
            micros(row.ended_at),
            micros(row.expires_at),
            row.error_code,
            row.error_message,
            row.error_step,
            row.data,
            row.parent.as_ref().map(|parent| parent.job.0.as_bytes()),
            row.parent.map(|parent| parent.step.0),
            row.hook_of.as_ref().map(|job| job.0.as_bytes()),
            row.group,
            micros(row.admitted_at),
            row.strays,
            job.expected.map(signed).transpose()?,
        ])?;
        if written != 1 {
            return Err(refused(format!("job {} changed while its batch was written", row.id)));
        }
    }
    Ok(())
}

fn steps<'a>(tx: &Transaction<'_>, rows: impl Iterator<Item = &'a StepRow>) -> Result<(), Failure> {
    let mut put = tx.prepare_cached(sql::PUT_STEP)?;
    for row in rows {
        put.execute(params![
            row.job.0.as_bytes(),
            row.ix.0,
            row.name,
            row.state,
            row.owner,
            micros(row.check_at),
            row.action,
            row.worker.as_ref().map(|w| w.0.as_bytes()),
            row.attempt.as_ref().map(|a| a.0.as_bytes()),
            row.fence.map(|f| signed(f.0)).transpose()?,
            row.dispatch_attempts,
            row.error_code,
            row.error_message,
            micros(row.queued_at),
            micros(row.disconnected_at),
            row.recovery_deadline.map(|h| h.0),
            row.updated_at.0,
            row.data,
            row.artifacts,
        ])?;
    }
    Ok(())
}

fn attempts<'a>(tx: &Transaction<'_>, rows: impl Iterator<Item = &'a AttemptRow>) -> Result<(), Failure> {
    let mut put = tx.prepare_cached(sql::PUT_ATTEMPT)?;
    for row in rows {
        put.execute(params![
            row.id.0.as_bytes(),
            row.job.0.as_bytes(),
            row.ix.0,
            row.number,
            signed(row.fence.0)?,
            row.worker.0.as_bytes(),
            signed(row.epoch.0)?,
            row.state,
            row.confirmed,
            row.started_at.0,
            micros(row.ended_at),
            row.exit_code,
            row.signal,
            row.error_code,
            row.error_message,
            signed(row.cpu_ms)?,
            signed(row.memory_bytes_max)?,
            row.cleanup,
            row.duration_ms.map(signed).transpose()?,
        ])?;
    }
    Ok(())
}

fn events(tx: &Transaction<'_>, rows: &[EventRow], plan: &Plan<'_>) -> Result<Vec<Option<u64>>, Failure> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut last = last_event(tx)?;
    let mut ids = Vec::with_capacity(rows.len());
    let mut add = tx.prepare_cached(sql::ADD_EVENT)?;
    for row in rows {
        if !plan.takes(row.job) {
            ids.push(None);
            continue;
        }
        last += 1;
        add.execute(params![
            signed(last)?,
            row.job.0.as_bytes(),
            row.ix.map(|ix| ix.0),
            row.at.0,
            row.kind,
            row.verb,
            row.from,
            row.to,
            row.worker.as_ref().map(|w| w.0.as_bytes()),
            row.reason,
        ])?;
        ids.push(Some(last));
    }
    Ok(ids)
}

fn idempotency(tx: &Transaction<'_>, batch: &Batch, plan: &Plan<'_>) -> Result<(), Failure> {
    let mut add = tx.prepare_cached(sql::ADD_IDEMPOTENCY)?;
    for row in batch.idempotency.iter().filter(|row| plan.takes(row.job)) {
        let job = row.job.0.as_bytes();
        add.execute(params![row.token.as_bytes(), row.key, row.request_hash, job, row.created_at.0])?;
    }
    Ok(())
}

fn outbox(tx: &Transaction<'_>, batch: &Batch, plan: &Plan<'_>) -> Result<(), Failure> {
    let mut add = tx.prepare_cached(sql::ADD_OUTBOX)?;
    for row in batch.outbox.iter().filter(|row| plan.takes(row.job)) {
        add.execute(params![row.id.as_bytes(), row.job.0.as_bytes(), row.kind, row.body, row.created_at.0])?;
    }
    Ok(())
}

/// Those that somebody else was faster with.
fn outbox_moves(tx: &Transaction<'_>, batch: &Batch) -> Result<BTreeSet<Uuid>, Failure> {
    let mut update = tx.prepare_cached(sql::MOVE_OUTBOX)?;
    let mut moved = BTreeSet::new();
    for row in &batch.outbox_moves {
        let OutboxMove { id, expected, tries, next_at, delivered_at, error } = row;
        let row = params![id.as_bytes(), expected, tries, micros(*next_at), micros(*delivered_at), error];
        if update.execute(row)? == 0 {
            moved.insert(*id);
        }
    }
    Ok(moved)
}

/// What changes no state: late ends of attempts that were given up, and events that could not be handled.
fn evidence(tx: &Transaction<'_>, batch: &Batch, plan: &Plan<'_>) -> Result<(), Failure> {
    let mut late = tx.prepare_cached(sql::ADD_LATE_OUTCOME)?;
    let undone = plan.undone(batch);
    for row in batch.late_outcomes.iter().filter(|row| !undone.contains(&row.attempt)) {
        late.execute(params![row.attempt.0.as_bytes(), row.outcome, row.at.0])?;
    }
    let mut confirm = tx.prepare_cached(sql::CONFIRM_ATTEMPT)?;
    for (attempt, fence) in batch.confirmed.iter().filter(|(attempt, _)| !undone.contains(attempt)) {
        confirm.execute(params![attempt.0.as_bytes(), signed(fence.0)?])?;
    }
    let mut begin = tx.prepare_cached(sql::BEGIN_ATTEMPT)?;
    for (attempt, fence) in &batch.begun {
        begin.execute(params![attempt.0.as_bytes(), signed(fence.0)?])?;
    }
    let mut quarantine = tx.prepare_cached(sql::ADD_QUARANTINE)?;
    for row in batch.quarantine.iter().filter(|row| row.job.is_none_or(|job| plan.takes(job))) {
        let job = row.job.as_ref().map(|job| job.0.as_bytes());
        quarantine.execute(params![job, row.at.0, row.event, row.error])?;
    }
    Ok(())
}

fn lineage(tx: &Transaction<'_>, batch: &Batch, plan: &Plan<'_>) -> Result<(), Failure> {
    for row in batch.lineage.iter().filter(|row| plan.takes(row.job)) {
        let [job, continues, root] = [&row.job, &row.continues, &row.root].map(|id| id.0.as_bytes());
        let row = params![job, continues, root, row.number, row.resolves, row.how, row.by, row.at.0];
        tx.prepare_cached(sql::ADD_LINEAGE)?.execute(row)?;
    }
    Ok(())
}

fn fleet(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    for change in &batch.fleet {
        match change {
            FleetChange::Drain { worker, on } => {
                tx.prepare_cached(sql::DRAIN_WORKER)?.execute(params![worker.0.as_bytes(), on])?;
            }
            FleetChange::Remove { worker, at } => {
                tx.prepare_cached(sql::REMOVE_WORKER)?.execute(params![worker.0.as_bytes(), at.0])?;
            }
        }
    }
    for (key, value) in &batch.meta {
        tx.prepare_cached(sql::PUT_META)?.execute(params![key, value])?;
    }
    Ok(())
}

fn breaker(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    if let Some(row) = &batch.breaker {
        let ended_at = micros(row.ended_at);
        tx.prepare_cached(sql::PUT_BREAKER)?.execute(params![row.tripped_at.0, row.lost, row.connected, ended_at])?;
    }
    if let Some(at) = batch.breaker_ended {
        tx.prepare_cached(sql::END_BREAKER)?.execute([at.0])?;
    }
    Ok(())
}

/// The highest number that an event ever had.
pub(crate) fn last_event(connection: &Connection) -> rusqlite::Result<u64> {
    connection.prepare_cached(sql::LAST_EVENT)?.query_row([], |row| values::unsigned(row, 0))
}

/// The highest number that was ever given under this name.
pub(crate) fn counter(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    let mut select = connection.prepare_cached(sql::COUNTER)?;
    Ok(select.query_row([name], |row| values::unsigned(row, 0)).optional()?.unwrap_or(0))
}

pub(crate) fn put_counter(tx: &Transaction<'_>, name: &str, value: u64) -> Result<(), Failure> {
    tx.prepare_cached(sql::PUT_COUNTER)?.execute(params![name, signed(value)?])?;
    Ok(())
}

pub(crate) fn refused(message: String) -> Failure {
    Failure::Store(StoreError::Refused { message })
}

impl Failure {
    pub(crate) fn into_store(self, path: &str) -> StoreError {
        match self {
            Failure::Sqlite(error) => translate(path, &error),
            Failure::Store(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}
