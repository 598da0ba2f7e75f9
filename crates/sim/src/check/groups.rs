//! Promise: of the jobs of a concurrency group never more have a process alive than its limit says, as they really live: also
//! not beside what was given up and runs on, for as long as that may hold its slot. And nobody waits for a group that has room.
//! Where a group is full, a job that is not to wait is refused, and there is none; and one that is to take the oldest one's
//! place has that cancelled, and nobody newer, with the commit that makes it. A job that a step began is there in any case: it fails
//! with the commit that makes it, or later where the jobs that it waits for wait for it, and without any of its steps.
//!
//! Left out is what the successor rule leaves out: a copy of a step that may be repeated beside it, and one that asked to end
//! with its lease, which other checkers hold to that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::JobId;
use store::Batch;

use super::plans::Plans;
use super::rows::{JobSeen, Place, Rows, is_turned_away};
use super::{Accepted, Findings};
use crate::faults::Fault;
use crate::setup::Setup;
use crate::workload::{GroupPlan, JobPlan, WhenFull};

const CHECKER: &str = "group";

/// A sweep finds whoever was overlooked.
const WAITS_MAX: Duration = Duration::from_secs(90);

/// Who cancels the oldest job of its group says so in these words, after its own id.
const FOR_A_NEWER_ONE: &str = "of the same concurrency group";

/// A refusal is heard so long after it was decided at most, and what another server made is known by then.
const HEARD_WITHIN: Duration = Duration::from_secs(90);

pub(crate) struct Groups {
    doubt_max: Duration,
    /// Whether nobody but its one server can make a group what that has not read: then it decides by all there is.
    knows_all: bool,
    /// When a group was last seen to be full.
    full_at: BTreeMap<String, Duration>,
    /// Since when there is room in a group that somebody waits for.
    room_since: BTreeMap<String, Duration>,
}

/// What a commit brings.
#[derive(Debug, Default)]
pub(super) struct Joined {
    /// Jobs with a group that were not there.
    new: Vec<JobId>,
    turned_away: Vec<JobId>,
}

impl Groups {
    pub(crate) fn new(setup: &Setup) -> Groups {
        Groups {
            doubt_max: setup.core.doubt_max,
            knows_all: setup.servers == 1,
            full_at: BTreeMap::new(),
            room_since: BTreeMap::new(),
        }
    }

    /// A group that could not be read is decided on like an empty one.
    pub(super) fn expect(&mut self, faults: &[Fault]) {
        self.knows_all &= faults.iter().all(|fault| !fault.kind.is_about_the_database());
    }

    /// The jobs that this commit makes in groups, and those that are turned away. `rows` are those before it.
    pub(super) fn before(&mut self, now: Duration, rows: &Rows, plans: &Plans, accepted: &Accepted<'_>) -> Joined {
        let mut joined = Joined::default();
        for row in accepted.jobs().filter(|row| row.group.is_some()) {
            if rows.job(row.id).is_none() {
                joined.new.push(row.id);
            }
            let was_open = rows.job(row.id).is_none_or(|job| !job.is_final);
            if was_open && row.check_at.is_none() && is_turned_away(row.error_code, row.error_step.as_deref()) {
                joined.turned_away.push(row.id);
            }
            let group = plans.named(&row.task).and_then(|plan| plan.group.as_ref());
            if let Some(group) = group.filter(|group| self.is_full(now, group, rows, plans)) {
                self.full_at.insert(group.name.clone(), now);
            }
        }
        joined
    }

    /// `rows` are those after the commit that made these jobs.
    pub(super) fn committed(
        &self,
        now: Duration,
        Joined { new: joined, turned_away }: &Joined,
        (rows, plans): (&Rows, &Plans),
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        for id in turned_away {
            if let Some(wrong) = self.wrongly_turned_away(now, *id, joined, rows, plans) {
                found.add(CHECKER, format!("job {id} is turned away by its group, {wrong}"));
            }
        }
        let cancels = batch.events.iter().filter(|event| event.kind == "cancel_asked" && accepted.job(event.job));
        for event in cancels.filter(|event| event.reason.contains(FOR_A_NEWER_ONE)) {
            self.made_room(event.job, joined, rows, plans, found);
        }
        for id in joined.iter().filter(|_| self.knows_all) {
            let Some(job) = rows.job(*id).filter(|job| !job.is_final) else { continue };
            let Some(group) = plans.job(rows, *id).and_then(|plan| plan.group.as_ref()) else { continue };
            // Of those that are made by the same commit nobody knows the order.
            let before = |other: &(JobId, &JobSeen)| other.0 != *id && other.1.created_at < job.created_at;
            let others = members(group, rows, plans).filter(before).filter(|(_, other)| !other.is_final);
            let (told, left): (Vec<_>, Vec<_>) = others.partition(|(_, other)| other.cancelled_at.is_some());
            // Those that wait for its own end have none for it.
            let family = rows.ancestors(*id);
            let somebody_could_go = left.iter().any(|(other, _)| !family.contains(other));
            let full = |count: usize| count >= group.limit as usize;
            let wrong = match group.when_full {
                WhenFull::Queue => None,
                WhenFull::Reject => full(told.len() + left.len()).then_some("is taken"),
                WhenFull::CancelOldest => {
                    (full(left.len()) && somebody_could_go).then_some("is to have room, and nobody is cancelled for it")
                }
            };
            if let Some(wrong) = wrong {
                found.add(CHECKER, format!("group {} is full, and job {id} {wrong}", group.name));
            }
        }
    }

    /// One was cancelled for a newer one: it was the oldest.
    fn made_room(&self, cancelled: JobId, joined: &[JobId], rows: &Rows, plans: &Plans, found: &mut Findings) {
        let (Some(job), Some(plan)) = (rows.job(cancelled), plans.job(rows, cancelled)) else { return };
        let Some(group) = plan.group.as_ref() else {
            return found
                .add(CHECKER, format!("job {cancelled} is of no group, and is cancelled for one of its group"));
        };
        let takes_over = |(id, _): &(JobId, &JobSeen)| {
            let theirs = plans.job(rows, *id).and_then(|plan| plan.group.as_ref());
            joined.contains(id) && theirs.is_some_and(|group| group.when_full == WhenFull::CancelOldest)
        };
        let newer: Vec<JobId> = members(group, rows, plans).filter(takes_over).map(|(id, _)| id).collect();
        if newer.is_empty() {
            found.add(CHECKER, format!("job {cancelled} is cancelled for a newer one, and there is none"));
        }
        let stays = |(id, other): &(JobId, &JobSeen)| {
            let is_older = !joined.contains(id) && other.created_at < job.created_at;
            // Nobody is cancelled for a job whose end it waits for.
            let is_family = newer.iter().any(|newer| rows.ancestors(*newer).contains(id));
            !other.is_final && other.cancelled_at.is_none() && is_older && !is_family
        };
        if let Some((older, _)) = members(group, rows, plans).find(stays) {
            found.add(CHECKER, format!("job {cancelled} is cancelled as the oldest, and job {older} is older"));
        }
    }

    /// Somebody heard that the group is full, and so it was.
    pub(super) fn turned_away(&self, now: Duration, plan: &JobPlan, rows: &Rows, plans: &Plans, found: &mut Findings) {
        let Some(group) = plan.group.as_ref().filter(|group| group.when_full == WhenFull::Reject) else {
            return found.add(CHECKER, format!("{} was refused by a group that it would wait for", plan.name));
        };
        if !self.was_full(now, group, rows, plans) {
            found.add(CHECKER, format!("{} was refused, and group {} has room", plan.name, group.name));
        }
    }

    /// What is wrong with a job's end by its group, if anything is.
    fn wrongly_turned_away(
        &self,
        now: Duration,
        id: JobId,
        joined: &[JobId],
        rows: &Rows,
        plans: &Plans,
    ) -> Option<&'static str> {
        let (job, group) = (rows.job(id)?, plans.job(rows, id)?.group.as_ref()?);
        if job.parent.is_none() {
            return Some("and nobody waits for it");
        }
        if !job.steps.values().all(|step| step.attempts.is_empty()) {
            return Some("and has begun");
        }
        if job.error_code == Some("group_full") {
            let made_with_it = || members(group, rows, plans).any(|(other, _)| other != id && joined.contains(&other));
            return match group.when_full {
                WhenFull::Queue | WhenFull::CancelOldest => Some("that it would wait for"),
                WhenFull::Reject if self.was_full(now, group, rows, plans) || made_with_it() => None,
                WhenFull::Reject => Some("which has room"),
            };
        }
        // It may be over by the same commit.
        let has_slot = |id: &JobId| rows.job(*id).is_some_and(|job| job.admitted);
        (!rows.ancestors(id).iter().any(has_slot)).then_some("for jobs that wait for it, and there are none")
    }

    /// Whether it is full, or was not long ago.
    pub(super) fn was_full(&self, now: Duration, group: &GroupPlan, rows: &Rows, plans: &Plans) -> bool {
        let not_long_ago = self.full_at.get(&group.name).is_some_and(|at| now < *at + HEARD_WITHIN);
        not_long_ago || self.is_full(now, group, rows, plans)
    }

    /// Whether those that wait for it, have a slot, or left something that may still have one, are as many as it takes.
    fn is_full(&self, now: Duration, group: &GroupPlan, rows: &Rows, plans: &Plans) -> bool {
        let in_it = |(_, job): &(JobId, &JobSeen)| !job.is_final || self.is_in_doubt(now, job);
        members(group, rows, plans).filter(in_it).count() >= group.limit as usize
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
        let groups: Vec<(JobId, &GroupPlan)> = slots_for(place.job, rows, plans).collect();
        if groups.is_empty() {
            return;
        }
        let alive: Vec<Place> = alive.collect();
        for (own, group) in groups {
            let of_group = |other: &Place| {
                let slots = slots_for(other.job, rows, plans).filter(|(_, of)| of.name == group.name);
                let counted = slots.filter(|(holder, _)| self.counts(now, *other, *holder, rows, plans));
                counted.map(|(holder, _)| holder).collect::<Vec<JobId>>()
            };
            let living: BTreeSet<JobId> = alive.iter().flat_map(of_group).chain([own]).collect();
            if living.len() > group.limit as usize {
                let jobs: Vec<String> = living.iter().map(ToString::to_string).collect();
                let what = format!("{} jobs of group {} live at once: {}", living.len(), group.name, jobs.join(", "));
                found.add(CHECKER, what);
            }
        }
    }

    /// Whether a process of this step must be alone. One of a job that is open is; and so is one that was given up, for a while.
    fn counts(&self, now: Duration, place: Place, holder: JobId, rows: &Rows, plans: &Plans) -> bool {
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
        let holds = |(_, job): &(JobId, &JobSeen)| job.admitted && (!job.is_final || self.is_in_doubt(now, job));
        members(group, rows, plans).filter(holds).count() < group.limit as usize
    }

    fn is_in_doubt(&self, now: Duration, job: &JobSeen) -> bool {
        let ended = job.steps.values().map(|step| step.since).max().unwrap_or_default();
        job.strays && now < ended + self.doubt_max + WAITS_MAX
    }
}

/// The jobs that were submitted for this group, or go on for one that was.
fn members<'a>(group: &'a GroupPlan, rows: &'a Rows, plans: &'a Plans) -> impl Iterator<Item = (JobId, &'a JobSeen)> {
    let is_of = move |id: JobId| plans.job(rows, id).and_then(|plan| plan.group.as_ref());
    let all = rows.jobs.iter().map(|(id, job)| (*id, job));
    all.filter(move |(id, _)| is_of(*id).is_some_and(|theirs| theirs.name == group.name))
}

/// The jobs that hold slots while this one runs, and of which groups: itself, and those that began it.
fn slots_for<'a>(job: JobId, rows: &Rows, plans: &'a Plans) -> impl Iterator<Item = (JobId, &'a GroupPlan)> {
    let all = [job].into_iter().chain(rows.ancestors(job));
    all.filter_map(|id| Some((id, plans.job(rows, id)?.group.as_ref()?)))
}
