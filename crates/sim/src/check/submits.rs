//! Promise: what was asked for once is done once. A submit that is repeated because its answer was lost leads to the job that
//! it made the first time, for as long as there is such a job: its key goes with it, and whoever repeats a submit after that asks
//! for a new one. Jobs are kept for a month unless somebody says otherwise; in some of these worlds it is seconds.

use std::collections::BTreeSet;

use engine::JobId;
use store::Batch;
use store::rows::JobRow;

use super::rows::{JobSeen, Rows};
use super::{Accepted, Findings};

const CHECKER: &str = "submit";

/// `rows` are those before the batch.
pub(crate) fn committed(
    rows: &Rows,
    (batch, accepted): (&Batch, &Accepted<'_>),
    is_deleted: impl Fn(JobId) -> bool,
    found: &mut Findings,
) {
    let mut tasks: BTreeSet<&str> = BTreeSet::new();
    let goes_on = |job| batch.lineage.iter().any(|line| line.job == job);
    let submitted = |row: &&JobRow| {
        let by_itself = row.submitted_by.starts_with("trigger:");
        rows.job(row.id).is_none() && !goes_on(row.id) && row.parent.is_none() && row.hook_of.is_none() && !by_itself
    };
    for row in accepted.jobs().filter(submitted) {
        let is_its = |id: JobId, job: &JobSeen| job.task == row.task && !job.continues && !is_deleted(id);
        let earlier = rows.jobs.iter().find(|(id, job)| is_its(**id, job));
        if let Some((earlier, _)) = earlier {
            found.add(CHECKER, format!("{} became two jobs, {earlier} and {}", row.task, row.id));
        } else if !tasks.insert(&row.task) {
            found.add(CHECKER, format!("{} became two jobs at once", row.task));
        }
    }
}
