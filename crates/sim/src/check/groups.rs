//! Promise: of the jobs of a concurrency group never more have a process alive than its limit says, as they really live: also
//! not beside what was given up and runs on, for as long as that may hold its slot. And nobody waits for a group that has room.
//!
//! Left out is what the successor rule leaves out: a copy of a step that may be repeated beside it, and one that asked to end
//! with its lease, which other checkers hold to that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::JobId;

use super::Findings;
use super::plans::Plans;
use super::rows::{Place, Rows};
use crate::setup::Setup;
use crate::workload::GroupPlan;

const CHECKER: &str = "group";

/// A sweep finds whoever was overlooked.
const WAITS_MAX: Duration = Duration::from_secs(90);

pub(crate) struct Groups {
    doubt_max: Duration,
    /// Since when there is room in a group that somebody waits for.
    room_since: BTreeMap<String, Duration>,
}

impl Groups {
    pub(crate) fn new(setup: &Setup) -> Groups {
        Groups { doubt_max: setup.core.doubt_max, room_since: BTreeMap::new() }
    }

    /// A process of this step begins to live, beside these.
    pub(super) fn started(
        &self,
        now: Duration,
        place: Place,
        alive: impl Iterator<Item = Place>,
        (rows, plans): (&Rows, &Plans),
        found: &mut Findings,
    ) {
        let Some((_, group)) = member(place.job, rows, plans) else { return };
        let counts = |other: &Place| self.counts(now, *other, rows, plans);
        let others = alive.filter(counts).chain([place]).filter_map(|other| member(other.job, rows, plans));
        let living: BTreeSet<JobId> = others.filter(|(_, of)| of.name == group.name).map(|(job, _)| job).collect();
        if living.len() > group.limit as usize {
            let jobs: Vec<String> = living.iter().map(ToString::to_string).collect();
            let what = format!("{} jobs of group {} live at once: {}", living.len(), group.name, jobs.join(", "));
            found.add(CHECKER, what);
        }
    }

    /// Whether a process of this step must be alone. One of a job that is open is; and so is one that was given up, for a while.
    fn counts(&self, now: Duration, place: Place, rows: &Rows, plans: &Plans) -> bool {
        let Some((holder, _)) = member(place.job, rows, plans) else { return false };
        let is_open = rows.job(holder).is_some_and(|job| !job.is_final);
        let given_up = rows.step(place).map(|step| step.since);
        let unsafe_beside = plans.step(rows, place).is_some_and(|plan| plan.effects == "writes" && !plan.stop);
        is_open || (unsafe_beside && given_up.is_some_and(|at| now < at + self.doubt_max))
    }

    /// While nothing fails: whoever waits, waits for somebody.
    pub(super) fn look(&mut self, now: Duration, rows: &Rows, plans: &Plans, found: &mut Findings) {
        let mut roomy = BTreeMap::new();
        for (id, _) in rows.open_jobs().filter(|(_, job)| job.in_line) {
            let Some(group) = plans.job(rows, id).and_then(|plan| plan.group.as_ref()) else { continue };
            if self.has_room(now, group, rows, plans) {
                let since = self.room_since.get(&group.name).copied().unwrap_or(now);
                if now - since > WAITS_MAX {
                    found.add(CHECKER, format!("{id} waits for group {}, which has room since {since:?}", group.name));
                }
                roomy.insert(group.name.clone(), since);
            }
        }
        self.room_since = roomy;
    }

    fn has_room(&self, now: Duration, group: &GroupPlan, rows: &Rows, plans: &Plans) -> bool {
        let holds = |(id, job): &(&JobId, &super::JobSeen)| {
            let of_group = plans.job(rows, **id).and_then(|plan| plan.group.as_ref()) == Some(group);
            let ended = job.steps.values().map(|step| step.since).max().unwrap_or_default();
            let in_doubt = job.strays && now < ended + self.doubt_max + WAITS_MAX;
            of_group && job.admitted && (!job.is_final || in_doubt)
        };
        rows.jobs.iter().filter(holds).count() < group.limit as usize
    }
}

/// The job that holds a slot for this one: itself, or whoever began it.
fn member<'a>(job: JobId, rows: &Rows, plans: &'a Plans) -> Option<(JobId, &'a GroupPlan)> {
    match plans.job(rows, job).and_then(|plan| plan.group.as_ref()) {
        Some(group) => Some((job, group)),
        None => member(rows.job(job)?.parent?.job, rows, plans),
    }
}
