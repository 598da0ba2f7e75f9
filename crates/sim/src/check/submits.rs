//! Promise: what was asked for once is done once. A submit that is repeated because its answer was lost leads to the job that
//! it made the first time.

use std::collections::BTreeSet;

use store::Batch;
use store::rows::JobRow;

use super::rows::Rows;
use super::{Accepted, Findings};

const CHECKER: &str = "submit";

/// `rows` are those before the batch.
pub(crate) fn committed(rows: &Rows, batch: &Batch, accepted: &Accepted<'_>, found: &mut Findings) {
    let mut tasks: BTreeSet<&str> = BTreeSet::new();
    let goes_on = |job| batch.lineage.iter().any(|line| line.job == job);
    let submitted = |row: &&JobRow| {
        let by_itself = row.submitted_by.starts_with("trigger:");
        rows.job(row.id).is_none() && !goes_on(row.id) && row.parent.is_none() && row.hook_of.is_none() && !by_itself
    };
    for row in accepted.jobs().filter(submitted) {
        let earlier = rows.jobs.iter().find(|(_, job)| job.task == row.task && !job.continues);
        if let Some((earlier, _)) = earlier {
            found.add(CHECKER, format!("{} became two jobs, {earlier} and {}", row.task, row.id));
        } else if !tasks.insert(&row.task) {
            found.add(CHECKER, format!("{} became two jobs at once", row.task));
        }
    }
}
