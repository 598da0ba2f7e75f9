//! What was just made, for whoever answers for it: they would read what is in memory.

use engine::Clocks;
use store::{Committed, Store};

use super::command::{Made, Submitted};
use super::core::Core;

/// A larger job is copied for longer than its rows take to read, and the ledger has other things to do.
const SMALL_JOB_STEPS: usize = 50;

impl<S: Store> Core<S> {
    /// The same answer with the new job, as it is in the database now.
    pub(super) fn with_job(&self, submitted: &Submitted, clocks: Clocks, committed: &Committed) -> Submitted {
        // Numbers only grow.
        let last_event = committed.event_ids.iter().rev().find_map(|number| *number);
        let cached = self.cache.get(submitted.job).filter(|cached| cached.job.steps.len() <= SMALL_JOB_STEPS);
        let made = match (submitted.repeated, cached, last_event) {
            (false, Some(cached), Some(last_event)) => {
                Some(Box::new(Made { job: cached.job.clone(), clocks, last_event }))
            }
            _ => None,
        };
        Submitted { job: submitted.job, repeated: submitted.repeated, made }
    }
}
