//! A commit whose answer was lost: did it happen?
//!
//! The database went away in the middle. Tried again, a batch that is in the database already would conflict with itself,
//! and what it decided would be decided once more. So first the rows are asked whether they are the batch's own.
//!
//! The rows cannot tell everything: a server that slept for long asks after another one did all that the batch began, and deleted it
//! for its age. What a batch may have begun and what is old enough to be gone is never begun again; whoever asked for it is told so.

use store::{Admission, Batch, Committed, Store, StoreError, TriggerWrite};

use crate::retention;

use super::again::AgainError;
use super::command::{Command, EventError, SubmitError};
use super::core::{Core, Prepared};

/// What became of a batch.
pub(super) enum Fate {
    /// It is in the database.
    Committed(Committed),
    /// Nothing of it is.
    Absent,
    /// Nothing of it is, and jobs that it began may have been deleted since.
    Untold,
}

const UNTOLD: &str = "the database did not answer in time, and it can no longer be told whether the job was taken: \
                      if it was, it is over and was deleted for its age";

impl<S: Store> Core<S> {
    /// What became of the batch. It is in the database as a whole, or not at all.
    pub(super) fn fate_of(&mut self, batch: &Batch) -> Result<Fate, StoreError> {
        let mut committed = Committed { mark_moved: true, ..Committed::default() };
        committed.event_ids = vec![None; batch.events.len()];
        let (mut found, mut gone) = (false, false);
        for write in &batch.jobs {
            let stored = self.store.load_job(write.row.id)?;
            let is_new = write.expected.is_none() && stored.is_none();
            if is_new && retention::was_deleted(&*self.store.reader(), write.row.id)? {
                // Where anything else of the batch is there, this was there too, and must not be begun again.
                gone = true;
                continue;
            }
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
        Ok(if found {
            Fate::Committed(committed)
        } else if gone {
            Fate::Untold
        } else {
            Fate::Absent
        })
    }

    /// Whoever asked for a job is told that nobody knows what became of it. All else is decided anew, by the rows as they are.
    pub(super) fn leave_untold(&mut self, prepared: Prepared) {
        tracing::error!(jobs = prepared.batch.jobs.len(), "a batch is too old to be tried again: {UNTOLD}");
        let Prepared { commands, mut round, .. } = prepared;
        self.take_back(&mut round);
        self.forget_everything();
        let mut others = Vec::new();
        for command in commands {
            match command {
                Command::Submit(_, reply) => drop(reply.send(Err(SubmitError::Internal(UNTOLD.to_owned())))),
                Command::Again(_, reply) => {
                    drop(reply.send(Err(AgainError::Event(EventError::Internal(UNTOLD.to_owned())))));
                }
                other => others.push(other),
            }
        }
        self.split.push_front(others);
    }
}
