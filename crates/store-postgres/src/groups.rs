//! Concurrency groups: who waits, who may have a slot, and who was admitted last.

use store::Batch;
use store::plan::Plan;
use store::read::{LineView, SlotView};
use tokio_postgres::Row;

use crate::commit::Writes;
use crate::hold::Held;
use crate::sql;
use crate::values::{self, Read, column, get, param, text};

pub(crate) fn write<'a>(writes: &mut Writes<'a>, batch: &'a Batch, plan: &Plan<'_>, held: &Held) {
    let taken = batch.admissions.iter().filter(|admission| plan.takes_group(&admission.group));
    let mut rows: Vec<_> = taken.filter_map(|taken| Some((taken.group.as_str(), taken.jobs.last()?.0))).collect();
    rows.sort_unstable();
    if rows.is_empty() {
        return;
    }
    let params = vec![column(&rows, |(group, _)| text(group)), column(&rows, |(_, last)| *last), param(batch.now.0)];
    let place = writes.train.add(sql::PUT_GROUP, params);
    writes.expect(place, rows.iter().filter(|(group, _)| !held.has_group(group)).count(), "groups");
}

pub(crate) fn slot(row: &Row) -> Read<SlotView> {
    Ok(SlotView {
        job: values::job(row, 0)?,
        created_at: values::time(row, 1)?,
        ended_at: values::maybe_time(row, 2)?,
        cancelling: get(row, 3)?,
    })
}

pub(crate) fn in_line(row: &Row) -> Read<LineView> {
    Ok(LineView { job: values::job(row, 0)?, priority: get(row, 1)?, created_at: values::time(row, 2)? })
}
