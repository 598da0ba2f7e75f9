//! A commit whose answer was lost: did it happen?
//!
//! The database went away in the middle. Tried again, a batch that is in the database already would conflict with itself,
//! and what it decided would be decided once more. So first the rows are asked whether they are the batch's own.

use store::{Admission, Batch, Committed, Store, StoreError, TriggerWrite};

use super::core::Core;

impl<S: Store> Core<S> {
    /// What became of the batch, if any of it is in the database: a batch is there as a whole, or not at all.
    pub(super) fn was_committed(&mut self, batch: &Batch) -> Result<Option<Committed>, StoreError> {
        let mut committed = Committed { mark_moved: true, ..Committed::default() };
        committed.event_ids = vec![None; batch.events.len()];
        let mut found = false;
        for write in &batch.jobs {
            let stored = self.store.load_job(write.row.id)?;
            let ours = stored.is_some_and(|stored| {
                // Whatever became of it since. A child, or a trigger's job, is made under the same id by whoever makes it.
                (write.expected.is_none() && stored.job.created_at == write.row.created_at)
                    || (stored.job.version == write.row.version && stored.job.data == write.row.data)
            });
            if ours {
                found = true;
            } else {
                committed.conflicts.insert(write.row.id);
            }
        }
        for hello in &batch.hellos {
            let row = self.store.worker(hello.id)?;
            found |= row.is_some_and(|row| row.epoch == hello.epoch && row.server == Some(hello.server));
        }
        let lost = |write: &&TriggerWrite| write.jobs.iter().any(|job| committed.conflicts.contains(job));
        committed.triggers_moved = batch.triggers.iter().filter(lost).map(|write| write.row.id.clone()).collect();
        let moved = |admission: &&Admission| admission.jobs.iter().any(|job| committed.conflicts.contains(job));
        committed.groups_moved = batch.admissions.iter().filter(moved).map(|moved| moved.group.clone()).collect();
        Ok(found.then_some(committed))
    }
}
