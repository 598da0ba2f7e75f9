//! Promise: a doubt ends with what it is about. An attempt that was given up without proof may still run, and counts as that until its
//! end is certain. The worker that has it finds out, and says so before it lets go of it: else the doubt would stay on
//! record, and with it a concurrency slot, though everybody is well.

use std::collections::BTreeSet;

use engine::{AttemptId, JobId};

use super::Findings;
use super::accepted::Accepted;
use super::lives::Lives;
use super::rows::Rows;

const CHECKER: &str = "doubt";

#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// Attempts of which it is on record that they are over, whatever was decided about them before.
    certain: BTreeSet<AttemptId>,
}

impl Doubts {
    pub(super) fn committed(&mut self, accepted: &Accepted<'_>) {
        let batch = accepted.batch;
        // What was said of an end that is left out with its job is left out as well.
        let left_out: BTreeSet<AttemptId> =
            batch.attempts.iter().filter(|row| !accepted.job(row.job)).map(|row| row.id).collect();
        let confirmed = batch.confirmed.iter().map(|(attempt, _)| *attempt);
        let certain = confirmed.chain(batch.late_outcomes.iter().map(|late| late.attempt));
        self.certain.extend(certain.filter(|attempt| !left_out.contains(attempt)));
    }

    pub(super) fn is_certain(&self, attempt: AttemptId) -> bool {
        self.certain.contains(&attempt)
    }

    /// All is quiet, and no commit was ever lost.
    pub(super) fn at_the_end(&self, rows: &Rows, lives: &Lives, deleted: &dyn Fn(JobId) -> bool, found: &mut Findings) {
        for (id, attempt) in rows.attempts.iter().filter(|(_, attempt)| attempt.in_doubt) {
            let place = attempt.place;
            if !self.is_certain(*id) && lives.is_put_away(*id) && !deleted(place.job) {
                let name = format!("attempt {} of step {} of {} ({id})", attempt.number, place.step.0, place.job);
                found.add(CHECKER, format!("{name} may still run by the record, and its worker has let go of it"));
            }
        }
    }
}
