//! An operator's word that the database was put back to an earlier state (`bowline db restored`): every job that is open is told, before
//! anything else is decided, and holds what may have run in the time that is lost.
//!
//! The word is a setting in the database with the time at which it was given. Each job remembers the last one that it was told of, so that
//! telling it again changes nothing, whichever server does, and however often one dies meanwhile. Only when all were told it is
//! put on record that they were, together with the loss of commits that it means.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::{Event, JobId, Time};
use store::{Batch, Store, StoreError};
use uuid::Uuid;

use super::amnesia::SAID_SO;
use super::command::EventError;
use super::core::Core;
use super::round::Round;

/// The key of the store's settings with an operator's word: the time at which it was given.
pub(super) const RESTORED_KEY: &str = "restored";

/// The key of the store's settings with the last word after which all jobs were told.
pub(super) const TOLD_KEY: &str = "restored-told";

/// Jobs looked at, and told if they are open, in one transaction.
const JOBS_PER_COMMIT: usize = 200;

/// After so long it is tried again to tell those that could not be told.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Behind all jobs.
const LAST: JobId = JobId(Uuid::max());

/// An operator's word, as it was left for all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    pub at: Time,
    /// Jobs that are not over.
    pub open_jobs: usize,
}

/// Leaves it in a database, at this time by the clock of whoever does. None where no server has ever run on that.
pub fn say_restored(store: &mut dyn Store, clock: Time) -> Result<Option<Restored>, StoreError> {
    let reader = store.reader();
    let Some(mark) = reader.hearing()? else { return Ok(None) };
    // The installation's time never goes back, and each word has a time of its own.
    let now = clock.max(mark.mark_at);
    let before = at(reader.meta(RESTORED_KEY)?.as_deref()).unwrap_or_default();
    let at = now.max(Time(before.0 + 1));
    let (mut after, mut open_jobs) = (None, 0);
    loop {
        let page = reader.old_jobs(after, LAST, JOBS_PER_COMMIT)?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        open_jobs += page.iter().filter(|job| job.open).count();
    }
    store.set_meta(RESTORED_KEY, &at.0.to_string())?;
    Ok(Some(Restored { at, open_jobs }))
}

#[derive(Debug, Default)]
pub(super) struct Restore {
    /// When an operator last said so.
    said_at: Option<Time>,
    /// The last word after which all jobs were told, as far as the rows say.
    told: Option<Time>,
    /// All were told, and the rows do not say so yet.
    unsaid: bool,
    /// Jobs that could not be told, since they could not be written. Nothing of them starts.
    untold: BTreeSet<JobId>,
    /// When those are told again, by this process's own clock.
    again_at: Duration,
}

impl Restore {
    /// All jobs are to be told of it.
    fn pending(&self) -> Option<Time> {
        self.said_at.filter(|at| self.told < Some(*at) && !self.unsaid && self.untold.is_empty())
    }

    pub(super) fn is_untold(&self, job: JobId) -> bool {
        self.untold.contains(&job)
    }

    /// Whether what was planned for then may have been done in a time that is lost, and when somebody said so.
    pub(super) fn casts_doubt_on(&self, planned: Time) -> Option<Time> {
        self.said_at.filter(|at| planned <= *at)
    }
}

impl<S: Store> Core<S> {
    pub(super) fn look_for_restore(&mut self) -> Result<(), StoreError> {
        let reader = self.store.reader();
        let (said, told) = (reader.meta(RESTORED_KEY)?, reader.meta(TOLD_KEY)?);
        self.restore_was_said(said.as_deref(), told.as_deref());
        Ok(())
    }

    /// What the settings say now.
    pub(super) fn restore_was_said(&mut self, said: Option<&str>, told: Option<&str>) {
        let (said_at, told) = (at(said), at(told));
        // The word may stand while it is lost that all were told.
        if said_at == self.restore.said_at && told >= self.restore.told {
            return;
        }
        self.restore = Restore { said_at, told, ..Restore::default() };
        if self.restore.pending().is_some() {
            self.forgotten.get_or_insert(SAID_SO);
        }
    }

    /// Before anything is decided on what the rows say.
    pub(super) fn tell_of_restore(&mut self) -> Result<(), StoreError> {
        let Some(at) = self.restore.pending() else { return self.tell_the_untold() };
        tracing::error!(
            "an operator says that the database was restored: steps that may have run in the time that is lost are held, until \
             somebody says what is to become of them"
        );
        let mut after = None;
        loop {
            let page = self.store.reader().old_jobs(after, LAST, JOBS_PER_COMMIT)?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            let open: Vec<JobId> = page.iter().filter(|job| job.open).map(|job| job.id).collect();
            self.tell(&open, at)?;
        }
        self.restore.unsaid = self.restore.untold.is_empty();
        self.forgotten.get_or_insert(SAID_SO);
        Ok(())
    }

    /// What the database does not take now it may take later; until then nothing of such a job can start.
    fn tell_the_untold(&mut self) -> Result<(), StoreError> {
        let Some(at) = self.restore.said_at else { return Ok(()) };
        if self.restore.untold.is_empty() || self.tick.mono < self.restore.again_at {
            return Ok(());
        }
        let untold = self.restore.untold.clone();
        for job in &untold {
            self.tell(&[*job], at)?;
        }
        if self.restore.untold.len() < untold.len() {
            // Whoever runs something of those that were told now is to say so again.
            self.forgotten.get_or_insert(SAID_SO);
        }
        self.restore.unsaid = self.restore.untold.is_empty();
        Ok(())
    }

    /// One that cannot be written must not keep the others from being told.
    fn tell(&mut self, jobs: &[JobId], at: Time) -> Result<(), StoreError> {
        match (self.tell_together(jobs, at), jobs) {
            (Err(error @ (StoreError::Unavailable { .. } | StoreError::Moved { .. })), _) => Err(error),
            (Err(error), [job]) => {
                tracing::error!(%job, %error, "a job cannot be told that the database was restored; nothing of it starts");
                self.restore.untold.insert(*job);
                self.restore.again_at = self.tick.mono + TELL_AGAIN;
                self.cache.clear();
                self.rebuild_index()
            }
            (Err(_), jobs) => {
                self.cache.clear();
                self.rebuild_index()?;
                jobs.chunks(1).try_for_each(|job| self.tell(job, at))
            }
            (Ok(()), jobs) => {
                jobs.iter().for_each(|job| _ = self.restore.untold.remove(job));
                Ok(())
            }
        }
    }

    /// Again and again, until all of them say that they were told: others may have moved them meanwhile.
    fn tell_together(&mut self, jobs: &[JobId], at: Time) -> Result<(), StoreError> {
        loop {
            let mut round = self.listen()?;
            let mut told = false;
            for job in jobs {
                match self.apply(*job, &Event::Restored { at }, &mut round) {
                    Ok(()) => told = true,
                    // It is over, or was told.
                    Err(EventError::Rejected(_) | EventError::NoSuchJob) => {}
                    Err(EventError::Away(message)) => return Err(StoreError::Unavailable { message }),
                    Err(EventError::Internal(message)) => return Err(StoreError::Refused { message }),
                }
            }
            if !told {
                return Ok(());
            }
            self.commit_alone(&mut round)?;
        }
    }

    pub(super) fn say_restored(&self, round: &mut Round) {
        if let Some(at) = self.restore.said_at.filter(|_| self.restore.unsaid) {
            round.meta(TOLD_KEY, &at.0);
        }
    }

    pub(super) fn has_said_restored(&mut self, batch: &Batch) {
        if batch.meta.iter().any(|(key, _)| *key == TOLD_KEY) {
            self.restore.told = self.restore.said_at;
            self.restore.unsaid = false;
        }
    }
}

fn at(text: Option<&str>) -> Option<Time> {
    text.and_then(|text| text.parse().ok()).map(Time)
}
