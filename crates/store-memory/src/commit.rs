//! One batch: in the order in which SQLite writes it, so that it is refused for the same reasons.

use std::collections::BTreeSet;

use store::plan::{Plan, PlannedJob};
use store::rows::{AttemptRow, EventRow, JobRow, OutboxMove, StepRow};
use store::{Batch, Committed, StoreError};
use uuid::Uuid;

use crate::tables::{AttemptRecord, MetaRow, OutboxRecord, Tables, countable, refused};
use crate::{beats, groups, leases, logs, servers, workers};

pub(crate) fn write(tables: &mut Tables, batch: &Batch) -> Result<Committed, StoreError> {
    leases::compare(tables, batch.under.iter().copied())?;
    let plan = Plan::new(
        batch,
        |id| Ok::<_, StoreError>(tables.jobs.get(&id).map(|row| row.version)),
        |row| Ok(tables.idempotency.contains(&(row.token, row.key.clone()))),
        |row| Ok(tables.lineage.index().places.contains_key(&(row.root, row.number))),
        |id| Ok(tables.triggers.get(&id.to_owned()).map(|row| row.version)),
        |group| Ok(tables.groups.get(&group.to_owned()).map(|row| row.last_admitted)),
    )?;
    definitions(tables, batch);
    jobs(tables, &plan)?;
    steps(tables, batch.steps.iter().filter(|row| plan.takes(row.job)))?;
    attempts(tables, batch.attempts.iter().filter(|row| plan.takes(row.job)))?;
    let event_ids = events(tables, &batch.events, &plan)?;
    for row in batch.idempotency.iter().filter(|row| plan.takes(row.job)) {
        tables.idempotency.put((row.token, row.key.clone()), row.clone());
    }
    outbox(tables, batch, &plan)?;
    let outbox_moved = outbox_moves(tables, batch);
    evidence(tables, batch, &plan)?;
    logs::write(tables, batch)?;
    beats::write(tables, &batch.beats)?;
    lineage(tables, batch, &plan)?;
    triggers(tables, batch, &plan)?;
    groups::write(tables, batch, &plan);
    workers::write(tables, batch)?;
    let mark_moved = !servers::mark(tables, batch.hearing);
    if let Some(server) = &batch.server {
        servers::put(tables, server)?;
    }
    let leases = leases::claim(tables, batch)?;
    settings(tables, batch);
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

/// The first text under a hash stays.
fn definitions(tables: &mut Tables, batch: &Batch) {
    for row in &batch.definitions {
        if !tables.definitions.contains(&row.hash) {
            tables.definitions.put(row.hash, row.clone());
        }
    }
}

/// What a job was submitted with never changes.
fn jobs(tables: &mut Tables, plan: &Plan<'_>) -> Result<(), StoreError> {
    for PlannedJob { last, .. } in plan.jobs() {
        countable(last.row.version)?;
        let row = match tables.jobs.get(&last.row.id) {
            None => last.row.clone(),
            Some(old) => JobRow {
                parent: old.parent,
                hook_of: old.hook_of,
                group: old.group.clone(),
                task: old.task.clone(),
                definition: old.definition,
                input: old.input.clone(),
                priority: old.priority,
                submitted_by: old.submitted_by.clone(),
                created_at: old.created_at,
                expires_at: old.expires_at,
                ..last.row.clone()
            },
        };
        tables.jobs.put(row.id, row);
    }
    Ok(())
}

fn steps<'a>(tables: &mut Tables, rows: impl Iterator<Item = &'a StepRow>) -> Result<(), StoreError> {
    for row in rows {
        row.fence.map(|fence| countable(fence.0)).transpose()?;
        let place = (row.job, row.ix);
        let row = match tables.steps.get(&place) {
            None => row.clone(),
            Some(old) => StepRow { name: old.name.clone(), ..row.clone() },
        };
        tables.steps.put(place, row);
    }
    Ok(())
}

/// What names an attempt never changes.
fn attempts<'a>(tables: &mut Tables, rows: impl Iterator<Item = &'a AttemptRow>) -> Result<(), StoreError> {
    for row in rows {
        for number in [row.fence.0, row.epoch.0, row.duration_ms.unwrap_or(0), row.cpu_ms, row.memory_bytes_max] {
            countable(number)?;
        }
        let record = match tables.attempts.get(&row.id) {
            None => AttemptRecord { row: row.clone(), begun: false, late_outcome: None },
            Some(record @ AttemptRecord { row: old, .. }) => {
                let AttemptRow { job, ix, number, fence, worker, started_at, .. } = *old;
                let row = AttemptRow { job, ix, number, fence, worker, started_at, ..row.clone() };
                AttemptRecord { row, ..record.clone() }
            }
        };
        tables.attempts.put(row.id, record);
    }
    Ok(())
}

fn events(tables: &mut Tables, rows: &[EventRow], plan: &Plan<'_>) -> Result<Vec<Option<u64>>, StoreError> {
    let mut last = tables.last_event();
    let mut ids = Vec::with_capacity(rows.len());
    for row in rows {
        if !plan.takes(row.job) {
            ids.push(None);
            continue;
        }
        last = countable(last + 1)?;
        tables.events.put(last, row.clone());
        ids.push(Some(last));
    }
    Ok(ids)
}

fn outbox(tables: &mut Tables, batch: &Batch, plan: &Plan<'_>) -> Result<(), StoreError> {
    for row in batch.outbox.iter().filter(|row| plan.takes(row.job)) {
        if tables.outbox.contains(&row.id) {
            return Err(refused(format!("{} is in the outbox already", row.id)));
        }
        let waiting =
            OutboxRecord { row: row.clone(), tries: 0, next_at: Some(row.created_at), delivered_at: None, error: None };
        tables.outbox.put(row.id, waiting);
    }
    Ok(())
}

/// Those that somebody else was faster with.
fn outbox_moves(tables: &mut Tables, batch: &Batch) -> BTreeSet<Uuid> {
    let mut moved = BTreeSet::new();
    for OutboxMove { id, expected, tries, next_at, delivered_at, error } in &batch.outbox_moves {
        let written = tables.outbox.update(id, |record| {
            let (tries, next_at, delivered_at, error) = (*tries, *next_at, *delivered_at, error.clone());
            let row = OutboxRecord { row: record.row.clone(), tries, next_at, delivered_at, error };
            (record.tries == *expected && record.delivered_at.is_none()).then_some(row)
        });
        if !written {
            moved.insert(*id);
        }
    }
    moved
}

/// What changes no state: late ends of attempts that were given up, and events that could not be handled.
fn evidence(tables: &mut Tables, batch: &Batch, plan: &Plan<'_>) -> Result<(), StoreError> {
    let undone = plan.undone(batch);
    for late in batch.late_outcomes.iter().filter(|late| !undone.contains(&late.attempt)) {
        tables.attempts.update(&late.attempt, |record| {
            let is_news = record.late_outcome.is_none() && record.row.state != "ended";
            is_news.then(|| AttemptRecord {
                row: AttemptRow { confirmed: true, ..record.row.clone() },
                late_outcome: Some((late.outcome.clone(), late.at)),
                ..record.clone()
            })
        });
    }
    for (attempt, fence) in batch.confirmed.iter().filter(|(attempt, _)| !undone.contains(attempt)) {
        countable(fence.0)?;
        tables.attempts.update(attempt, |record| {
            let row = AttemptRow { confirmed: true, ..record.row.clone() };
            (record.row.fence == *fence).then(|| AttemptRecord { row, ..record.clone() })
        });
    }
    for (attempt, fence) in &batch.begun {
        countable(fence.0)?;
        tables.attempts.update(attempt, |record| {
            (record.row.fence == *fence).then(|| AttemptRecord { begun: true, ..record.clone() })
        });
    }
    for row in batch.quarantine.iter().filter(|row| row.job.is_none_or(|job| plan.takes(job))) {
        let next = tables.quarantine.iter().next_back().map_or(1, |(id, _)| id + 1);
        tables.quarantine.put(next, row.clone());
    }
    Ok(())
}

fn lineage(tables: &mut Tables, batch: &Batch, plan: &Plan<'_>) -> Result<(), StoreError> {
    for row in batch.lineage.iter().filter(|row| plan.takes(row.job)) {
        if tables.lineage.contains(&row.job) {
            return Err(refused(format!("job {} continues another already", row.job)));
        }
        if row.resolves && tables.lineage.index().stands_in.contains_key(&row.continues) {
            return Err(refused(format!("another job stands in for job {} already", row.continues)));
        }
        tables.lineage.put(row.job, row.clone());
    }
    Ok(())
}

fn triggers(tables: &mut Tables, batch: &Batch, plan: &Plan<'_>) -> Result<(), StoreError> {
    for write in batch.triggers.iter().filter(|write| plan.takes_trigger(&write.row.id)) {
        countable(write.row.version)?;
        countable(write.row.missed)?;
        tables.triggers.put(write.row.id.clone(), write.row.clone());
    }
    Ok(())
}

fn settings(tables: &mut Tables, batch: &Batch) {
    for (key, value) in &batch.meta {
        tables.meta.put((*key).to_owned(), MetaRow(value.clone()));
    }
    if let Some(row) = batch.breaker {
        tables.breaker.put((), row);
    }
    if let Some(at) = batch.breaker_ended {
        tables.breaker.update(&(), |row| {
            let ended = store::rows::BreakerRow { ended_at: Some(at), ..*row };
            row.ended_at.is_none().then_some(ended)
        });
    }
}
