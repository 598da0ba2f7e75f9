//! The jobs that go on for one another. While one of them goes on no other does: both would run the same steps.
//!
//! A job's place in its family is in its row, and two servers cannot take the same one: whoever is second decides again.

use engine::JobId;
use store::Store;
use store::read::Kin;

use super::again::AgainError;
use super::command::EventError;
use super::core::Core;
use super::round::Round;

/// The newest jobs of one family that are looked at, for one that goes on and for attempts that may still run.
const MEMBERS_MAX: usize = 100;

pub(super) struct Family {
    /// The one that continues none.
    pub root: JobId,
    /// The newest first, with those of this round.
    members: Vec<Kin>,
}

impl Family {
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.members.iter().map(|kin| kin.job).chain([self.root])
    }

    pub(super) fn next_number(&self) -> u32 {
        self.members.first().map_or(1, |newest| newest.number + 1)
    }
}

impl<S: Store> Core<S> {
    pub(super) fn family(&self, job: JobId, round: &Round) -> Result<Family, AgainError> {
        let made_now = round.lineage.iter().find(|row| row.job == job);
        let stored = self.store.reader().family(made_now.map_or(job, |row| row.root), MEMBERS_MAX)?;
        let of_this_round = round.lineage.iter().rev().filter(|row| row.root == stored.root);
        let as_kin = of_this_round.map(|row| Kin {
            job: row.job,
            continues: row.continues,
            number: row.number,
            how: row.how.to_owned(),
        });
        Ok(Family { root: stored.root, members: as_kin.chain(stored.members).collect() })
    }

    /// A job of the family that is not over, other than this one.
    pub(super) fn open_kin(&mut self, job: JobId, family: &Family) -> Result<Option<Kin>, AgainError> {
        for kin in family.members.iter().filter(|kin| kin.job != job) {
            match self.loaded(kin.job) {
                Ok(other) if other.is_final() => {}
                Ok(_) => return Ok(Some(kin.clone())),
                Err(AgainError::Event(EventError::NoSuchJob)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
