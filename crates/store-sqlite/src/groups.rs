//! Concurrency groups: who waits, who may have a slot, and who was admitted last.

use engine::{JobId, Time};
use rusqlite::{Connection, OptionalExtension, Result, Transaction, params};
use store::Batch;
use store::plan::Plan;
use store::read::{LineView, SlotView};

use crate::commit::Failure;
use crate::sql;
use crate::values::{self, clamped};

pub(crate) fn write(tx: &Transaction<'_>, batch: &Batch, plan: &Plan<'_>) -> std::result::Result<(), Failure> {
    let mut put = tx.prepare_cached(sql::PUT_GROUP)?;
    for admission in batch.admissions.iter().filter(|admission| plan.takes_group(&admission.group)) {
        if let Some(last) = admission.jobs.last() {
            put.execute(params![admission.group, last.0.as_bytes(), batch.now.0])?;
        }
    }
    Ok(())
}

pub(crate) fn prune(tx: &Transaction<'_>, before: Time, limit: usize) -> std::result::Result<usize, Failure> {
    Ok(tx.prepare_cached(sql::PRUNE_GROUPS)?.execute(params![before.0, clamped(limit)])?)
}

pub(crate) fn slots(connection: &Connection, group: &str, ended_after: Time) -> Result<Vec<SlotView>> {
    let mut slots = connection.prepare_cached(sql::SLOTS)?;
    let found = slots.query_map(params![group, ended_after.0], |row| {
        Ok(SlotView {
            job: values::job(row, 0)?,
            created_at: values::time(row, 1)?,
            ended_at: values::maybe_time(row, 2)?,
            cancelling: row.get(3)?,
        })
    })?;
    found.collect()
}

pub(crate) fn line(connection: &Connection, group: &str, limit: usize) -> Result<Vec<LineView>> {
    let mut line = connection.prepare_cached(sql::LINE)?;
    let found = line.query_map(params![group, clamped(limit)], |row| {
        Ok(LineView { job: values::job(row, 0)?, priority: row.get(1)?, created_at: values::time(row, 2)? })
    })?;
    found.collect()
}

pub(crate) fn stray_slots(connection: &Connection, ended_after: Time) -> Result<Vec<(String, JobId)>> {
    let mut strays = connection.prepare_cached(sql::STRAY_SLOTS)?;
    strays.query_map([ended_after.0], |row| Ok((row.get(0)?, values::job(row, 1)?)))?.collect()
}

pub(crate) fn last_admitted(connection: &Connection, group: &str) -> Result<Option<JobId>> {
    connection.prepare_cached(sql::LAST_ADMITTED)?.query_row([group], |row| values::job(row, 0)).optional()
}

/// The groups that jobs wait for.
pub(crate) fn lines(connection: &Connection, after: &str, limit: usize) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    while names.len() < limit {
        let last = names.last().map_or(after, String::as_str);
        let Some(next) = next(connection, sql::NEXT_LINE, last)? else { break };
        names.push(next);
    }
    Ok(names)
}

/// All groups that have open jobs: each step goes from one name to the next, whatever the number of jobs.
pub(crate) fn groups(connection: &Connection, after: &str, limit: usize) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    while names.len() < limit {
        let last = names.last().map_or(after, String::as_str);
        let (waiting, running) = (next(connection, sql::NEXT_LINE, last)?, next(connection, sql::NEXT_GROUP, last)?);
        let Some(next) = waiting.into_iter().chain(running).min() else { break };
        names.push(next);
    }
    Ok(names)
}

fn next(connection: &Connection, text: &str, after: &str) -> Result<Option<String>> {
    connection.prepare_cached(text)?.query_row([after], |row| row.get(0)).optional()
}
