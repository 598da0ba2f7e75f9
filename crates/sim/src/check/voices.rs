//! Promise: no stale voice is heard. A step's current attempt is never an older one than before, an attempt that is over
//! stays over as it is, only the newest attempt of a step can change, and every turn of a step is told in its history.

use std::collections::{BTreeMap, BTreeSet};

use engine::{AttemptId, Fence};
use store::Batch;
use store::rows::AttemptRow;

use super::rows::{AttemptSeen, Place, Rows, put_back};
use super::{Accepted, Findings};

const CHECKER: &str = "stale-voice";

#[derive(Debug, Default)]
pub(crate) struct Voices {
    /// The highest fence of each step, offered or granted.
    highest: BTreeMap<Place, Fence>,
    granted: BTreeSet<Fence>,
    /// Attempts of which their workers cannot say whether they were more than offers, by their hellos.
    unsure: BTreeSet<AttemptId>,
}

impl Voices {
    pub(super) fn highest(&self, place: Place) -> Option<Fence> {
        self.highest.get(&place).copied()
    }

    /// Numbers that were given out by commits that are gone may be given out again.
    pub(super) fn put_back(&mut self, highest: Vec<(Place, Option<Fence>)>, granted: &[Fence]) {
        put_back(&mut self.highest, highest);
        self.granted.retain(|fence| !granted.contains(fence));
    }

    pub(super) fn cannot_know(&mut self, attempt: AttemptId) {
        self.unsure.insert(attempt);
    }

    pub(super) fn is_unsure(&self, attempt: AttemptId) -> bool {
        self.unsure.contains(&attempt)
    }

    /// `brought_back`: attempts whose start was not on record any more, and that were adopted. A later offer of the same
    /// step gives way to them. `amnesia`: commits were lost, so that one of which its worker cannot say whether it started
    /// is taken for such a one, to be on the safe side.
    pub(crate) fn committed(
        &mut self,
        rows: &Rows,
        batch: &Batch,
        accepted: &Accepted<'_>,
        (brought_back, amnesia): (impl Fn(AttemptId) -> bool, bool),
        found: &mut Findings,
    ) {
        let may_go_back = |attempt| brought_back(attempt) || amnesia && self.unsure.contains(&attempt);
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            let Some(fence) = row.fence else { continue };
            let highest = self.highest.entry(place).or_insert(fence);
            if fence < *highest && !row.attempt.is_some_and(may_go_back) {
                let fences = format!("fence {} after {}", fence.0, highest.0);
                found.add(CHECKER, format!("step {} of {} went back to {fences}", row.name, row.job));
            }
            *highest = fence.max(*highest);
        }
        for row in accepted.attempts() {
            let place = Place { job: row.job, step: row.ix };
            let name = || format!("attempt {} of step {} of {} ({})", row.number, row.ix.0, row.job, row.id);
            match rows.attempts.get(&row.id) {
                None => {
                    if !self.granted.insert(row.fence) {
                        found.add(CHECKER, format!("{} has a fence that another one has", name()));
                    }
                    let before =
                        rows.step(place).map_or(0, |step| step.attempts.len()) + brought_before(rows, accepted, row);
                    if usize::try_from(row.number).is_ok_and(|number| number != before + 1) {
                        found.add(CHECKER, format!("{} follows {before} others", name()));
                    }
                }
                Some(before) => {
                    let newest = rows.step(place).and_then(|step| step.attempts.last()) == Some(&row.id);
                    if let Some(wrong) = change(before, row.state, newest) {
                        found.add(CHECKER, format!("{} {wrong}", name()));
                    }
                }
            }
        }
        turns(rows, batch, accepted, found);
    }
}

/// How many attempts of the same step the same batch brings that are older than this one. In a batch they stand in no order.
fn brought_before(rows: &Rows, accepted: &Accepted<'_>, row: &AttemptRow) -> usize {
    let is_new = |other: &&AttemptRow| !rows.attempts.contains_key(&other.id);
    let is_older = |other: &&AttemptRow| (other.job, other.ix) == (row.job, row.ix) && other.fence < row.fence;
    accepted.attempts().filter(is_new).filter(is_older).count()
}

/// What is wrong with an attempt's turning into this state.
fn change(before: &AttemptSeen, to: &str, newest: bool) -> Option<String> {
    match before.state {
        over @ ("ended" | "lost" | "superseded") => Some(format!("was {over} and is now {to}")),
        from if !newest => Some(format!("turned from {from} to {to}, and its step has a newer one")),
        _ => None,
    }
}

/// The history of a batch leads from each step's state before to its state after.
fn turns(rows: &Rows, batch: &Batch, accepted: &Accepted<'_>, found: &mut Findings) {
    let mut told: BTreeMap<Place, &str> = BTreeMap::new();
    for event in batch.events.iter().filter(|event| event.kind == "step" && accepted.job(event.job)) {
        let (Some(step), Some(from), Some(to)) = (event.ix, event.from, event.to) else { continue };
        let place = Place { job: event.job, step };
        let before = told.insert(place, to).or_else(|| rows.step(place).map(|step| step.state)).unwrap_or("pending");
        if before != from {
            let turn = format!("turned from {from} to {to}, and was {before}");
            found.add(CHECKER, format!("history says that step {} of {} {turn}", step.0, event.job));
        }
    }
    for row in accepted.steps() {
        let place = Place { job: row.job, step: row.ix };
        let known = told.get(&place).copied().or_else(|| rows.step(place).map(|step| step.state)).unwrap_or("pending");
        if known != row.state {
            let turn = format!("is {}, and its history leads to {known}", row.state);
            found.add(CHECKER, format!("step {} of {} {turn}", row.name, row.job));
        }
    }
}
