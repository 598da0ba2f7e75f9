//! Triggers: where each stands.

use store::plan::Plan;
use store::rows::TriggerRow;
use store::{Batch, StoreError};
use tokio_postgres::Row;

use crate::commit::Writes;
use crate::hold::Held;
use crate::sql;
use crate::values::{self, Read, column, counted, get, maybe_text, micros, signed, text};

pub(crate) fn write<'a>(
    writes: &mut Writes<'a>,
    batch: &'a Batch,
    plan: &Plan<'_>,
    held: &Held,
) -> Result<(), StoreError> {
    let taken = batch.triggers.iter().filter(|write| plan.takes_trigger(&write.row.id));
    let mut rows: Vec<&TriggerRow> = taken.map(|write| &write.row).collect();
    rows.sort_by_key(|row| &row.id);
    if rows.is_empty() {
        return Ok(());
    }
    let params = vec![
        column(&rows, |row| text(&row.id)),
        counted(&rows, |row| signed(row.version))?,
        column(&rows, |row| text(&row.task)),
        column(&rows, |row| text(&row.kind)),
        column(&rows, |row| text(&row.definition)),
        column(&rows, |row| micros(row.paused_at)),
        column(&rows, |row| maybe_text(&row.paused_by)),
        column(&rows, |row| micros(row.planned_at)),
        column(&rows, |row| micros(row.next_at)),
        column(&rows, |row| micros(row.last_at)),
        column(&rows, |row| row.last_job.map(|job| job.0)),
        column(&rows, |row| maybe_text(&row.last_error)),
        counted(&rows, |row| signed(row.missed))?,
        column(&rows, |row| maybe_text(&row.notice)),
        column(&rows, |row| micros(row.notice_at)),
    ];
    let place = writes.train.add(sql::PUT_TRIGGER, params);
    writes.expect(place, rows.iter().filter(|row| !held.has_trigger(&row.id)).count(), "triggers");
    Ok(())
}

pub(crate) fn trigger_row(row: &Row) -> Read<TriggerRow> {
    Ok(TriggerRow {
        id: get(row, 0)?,
        version: values::unsigned(row, 1)?,
        task: get(row, 2)?,
        kind: get(row, 3)?,
        definition: get(row, 4)?,
        paused_at: values::maybe_time(row, 5)?,
        paused_by: get(row, 6)?,
        planned_at: values::maybe_time(row, 7)?,
        next_at: values::maybe_time(row, 8)?,
        last_at: values::maybe_time(row, 9)?,
        last_job: values::maybe_job(row, 10)?,
        last_error: get(row, 11)?,
        missed: values::unsigned(row, 12)?,
        notice: get(row, 13)?,
        notice_at: values::maybe_time(row, 14)?,
    })
}
