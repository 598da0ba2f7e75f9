//! Promise: a step that ended well has left its files: its row names a set, and that set is stored by then. A step that wants
//! files of another starts with exactly those that the other has left in its row.

use std::collections::{BTreeMap, BTreeSet};

use engine::AttemptId;
use protocol::attempt::AttemptSpec;
use store::Batch;

use super::plans::Plans;
use super::rows::{Place, Rows};
use super::{Accepted, Findings};

const CHECKER: &str = "files";

#[derive(Debug, Default)]
pub(crate) struct Files {
    stored: BTreeSet<String>,
    /// What each step's row names.
    named: BTreeMap<Place, Option<String>>,
}

impl Files {
    pub(super) fn stored(&mut self, set: &str) {
        self.stored.insert(set.to_owned());
    }

    pub(super) fn committed(
        &mut self,
        rows: &Rows,
        plans: &Plans,
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            self.named.insert(place, row.artifacts.clone());
            let leaves = plans.step(rows, place).is_some_and(|plan| plan.files);
            match &row.artifacts {
                Some(set) if !self.stored.contains(set) => {
                    found.add(CHECKER, format!("{} of {} names a set that is not stored: {set}", row.name, row.job));
                }
                None if leaves && row.state == "success" && !is_a_persons_word(batch, place) => {
                    found.add(CHECKER, format!("{} of {} ended well, and its files are nowhere", row.name, row.job));
                }
                Some(_) | None => {}
            }
        }
    }

    /// The step's process executes, with these sets in its folder.
    pub(super) fn started(
        &self,
        rows: &Rows,
        plans: &Plans,
        spec: &AttemptSpec,
        there: &[String],
        found: &mut Findings,
    ) {
        let wanted: Vec<&String> = spec.fetch.iter().map(|fetch| &fetch.set.id).collect();
        if !wanted.iter().all(|set| there.contains(set)) {
            let (step, job) = (&spec.step, spec.job);
            found.add(CHECKER, format!("{step} of {job} starts without the files that it wants: {wanted:?}"));
        }
        let Some(attempt) = rows.attempts.get(&AttemptId(spec.ticket.attempt)) else { return };
        let place = attempt.place;
        let Some(from) = plans.step(rows, place).and_then(|plan| plan.fetches) else { return };
        let from = Place { job: place.job, step: engine::StepIx::of(from) };
        let named = self.named.get(&from).cloned().flatten();
        if named.as_ref() != wanted.first().copied() {
            found.add(CHECKER, format!("{} of {} is given {wanted:?}, and {named:?} was left", spec.step, spec.job));
        }
    }
}

/// Who says by hand that a step succeeded brings no files.
fn is_a_persons_word(batch: &Batch, place: Place) -> bool {
    let about = batch.events.iter().filter(|event| event.job == place.job && event.ix == Some(place.step));
    about.into_iter().any(|event| event.reason.contains("resolved as") || event.reason.contains("taken over"))
}
