//! Triggers: where each stands.

use engine::JobId;
use rusqlite::{Row, Transaction, params};
use store::Batch;
use store::plan::Plan;
use store::rows::TriggerRow;

use crate::commit::Failure;
use crate::sql;
use crate::values::{self, micros, signed};

pub(crate) fn write(tx: &Transaction<'_>, batch: &Batch, plan: &Plan<'_>) -> Result<(), Failure> {
    let mut put = tx.prepare_cached(sql::PUT_TRIGGER)?;
    for write in batch.triggers.iter().filter(|write| plan.takes_trigger(&write.row.id)) {
        let row = &write.row;
        put.execute(params![
            row.id,
            signed(row.version)?,
            row.task,
            row.kind,
            row.definition,
            micros(row.paused_at),
            row.paused_by,
            micros(row.planned_at),
            micros(row.next_at),
            micros(row.last_at),
            row.last_job.as_ref().map(|job| job.0.as_bytes()),
            row.last_error,
            signed(row.missed)?,
            row.notice,
            micros(row.notice_at),
        ])?;
    }
    Ok(())
}

pub(crate) fn trigger_row(row: &Row<'_>) -> rusqlite::Result<TriggerRow> {
    Ok(TriggerRow {
        id: row.get(0)?,
        version: values::unsigned(row, 1)?,
        task: row.get(2)?,
        kind: row.get(3)?,
        definition: row.get(4)?,
        paused_at: values::maybe_time(row, 5)?,
        paused_by: row.get(6)?,
        planned_at: values::maybe_time(row, 7)?,
        next_at: values::maybe_time(row, 8)?,
        last_at: values::maybe_time(row, 9)?,
        last_job: values::maybe_uuid(row, 10)?.map(JobId),
        last_error: row.get(11)?,
        missed: values::unsigned(row, 12)?,
        notice: row.get(13)?,
        notice_at: values::maybe_time(row, 14)?,
    })
}
