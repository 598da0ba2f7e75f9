//! Promise: a step that ended well has left its files: its row names a set, and that set is stored by then. One that leaves them in any
//! case has left them however its program ended, or its error says why not. A step that wants files of another starts with exactly
//! those that the other has left in its row; and what an earlier attempt left is not there any more when the next one runs.

use std::collections::{BTreeMap, BTreeSet};

use engine::AttemptId;
use protocol::attempt::AttemptSpec;
use store::Batch;
use store::rows::AttemptRow;

use super::plans::Plans;
use super::rows::{Place, Rows};
use super::{Accepted, Findings};
use crate::workload::APART;

const CHECKER: &str = "files";

/// How an error says that files were not stored.
const NOT_STORED: &str = "its artifacts were not stored";

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
                Some(set) if row.state == "running" => {
                    found.add(CHECKER, format!("{} of {} runs, and has left {set} already", row.name, row.job));
                }
                Some(_) | None => {}
            }
        }
        for row in accepted.attempts().filter(|row| row.ended_at.is_some()) {
            let place = Place { job: row.job, step: row.ix };
            if plans.step(rows, place).is_some_and(|plan| plan.always) {
                self.left_in_any_case(row, place, found);
            }
        }
    }

    /// Whoever has no code and no signal never ran, or was not heard of.
    fn left_in_any_case(&self, row: &AttemptRow, place: Place, found: &mut Findings) {
        let ran = row.state == "ended" && (row.exit_code.is_some() || row.signal.is_some());
        let is_named = self.named.get(&place).is_some_and(Option::is_some);
        let says_so = row.error_message.as_ref().is_some_and(|message| message.contains(NOT_STORED));
        if ran && !is_named && !says_so {
            let (id, job, why) = (row.id, row.job, row.error_message.as_deref().unwrap_or("it ended well"));
            found.add(CHECKER, format!("attempt {id} of {job} has left no files, and nobody says so: {why}"));
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
        let Some(plan) = plans.step(rows, place) else { return };
        let Some(from) = plan.fetches else { return };
        let folder = plan.apart.then_some(APART);
        if let Some(fetch) = spec.fetch.iter().find(|fetch| fetch.to.as_deref() != folder) {
            let (step, job) = (&spec.step, spec.job);
            found.add(CHECKER, format!("{step} of {job} has its files in {:?}, and not in {folder:?}", fetch.to));
        }
        let from = Place { job: place.job, step: engine::StepIx::of(from) };
        let named = self.named.get(&from).cloned().flatten();
        if named.as_ref() != wanted.first().copied() {
            found.add(CHECKER, format!("{} of {} is given {wanted:?}, and {named:?} was left", spec.step, spec.job));
        }
    }
}

/// Who says by hand that a step succeeded brings no files.
pub(super) fn is_a_persons_word(batch: &Batch, place: Place) -> bool {
    let about = batch.events.iter().filter(|event| event.job == place.job && event.ix == Some(place.step));
    about.into_iter().any(|event| event.reason.contains("resolved as") || event.reason.contains("taken over"))
}
