//! Jobs that wait for each other through concurrency groups. A job that began others holds its slot until they are over; if
//! one of those waits for a group whose slots are all held by jobs that wait in the same way, nobody would ever move. The
//! youngest of them is turned away, and fails with a code of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::definition::Work;
use engine::{Failure, FailureKind, JobId, Time};
use planted::Bug;
use store::{Store, StoreError};

use super::core::Core;
use super::groups::Holder;
use super::round::Round;

/// With so many that wait for each other no further groups are looked at: what is not known may move.
const WAITERS_MAX: usize = 1_000;

/// A line, as far as it matters who can move: each holder with those of its descendants that wait somewhere.
struct Queue {
    /// So many holders must end before the first in line is admitted.
    needed: usize,
    holders: Vec<BTreeSet<JobId>>,
}

impl<S: Store> Core<S> {
    /// Turns one away if those who wait for this group wait for each other.
    pub(super) fn break_deadlock(&mut self, group: &Arc<str>, round: &mut Round) {
        if planted::is(Bug::DeadlockStands) {
            return;
        }
        match self.find_deadlock(group, round) {
            Ok(None) => {}
            Ok(Some(job)) => {
                let message = "Job failed: it would wait for its concurrency group for ever, since the jobs that hold it wait, \
                               through other jobs, for this one";
                tracing::error!(job_id = %job, group = &**group, "jobs wait for each other through concurrency groups");
                self.refuse_job(job, Failure::new(FailureKind::GroupDeadlock, message), round);
            }
            Err(error) => {
                tracing::warn!(group = &**group, %error, "who waits for whom could not be read; it is looked at again");
            }
        }
    }

    /// The youngest of those who cannot move, if there are any and somebody began it.
    fn find_deadlock(&mut self, group: &Arc<str>, round: &Round) -> Result<Option<JobId>, StoreError> {
        let mut queues: BTreeMap<Arc<str>, Queue> = BTreeMap::new();
        // Where each that waits because of another one stands.
        let mut waiters: BTreeMap<JobId, Arc<str>> = BTreeMap::new();
        let mut open = vec![group.clone()];
        while let Some(group) = open.pop() {
            if queues.contains_key(&group) {
                continue;
            }
            let queue = self.queue_of(&group, round)?;
            let held_up = queue.holders.iter().filter(|waiting| !waiting.is_empty()).count();
            if queue.holders.len() - held_up >= queue.needed {
                // Enough of them end by themselves.
                queues.insert(group, Queue { needed: 0, holders: Vec::new() });
                continue;
            }
            for waiting in queue.holders.iter().flatten() {
                if let Some(theirs) = self.cache.get(*waiting).and_then(|cached| cached.job.group.clone()) {
                    open.push(theirs.clone());
                    waiters.insert(*waiting, theirs);
                }
            }
            queues.insert(group, queue);
            if waiters.len() > WAITERS_MAX {
                break;
            }
        }
        let stuck = stuck(&queues, &waiters);
        let age = |id: &JobId| self.cache.get(*id).map(|cached| (cached.job.created_at, *id));
        let mut by_age: Vec<(Time, JobId)> = stuck.iter().filter_map(age).collect();
        by_age.sort_unstable();
        // Others only stand behind those who wait for each other.
        let youngest = by_age.into_iter().rev().map(|(_, id)| id);
        Ok(youngest.into_iter().find(|id| waits_for_itself(*id, &queues, &waiters, &stuck)))
    }

    fn queue_of(&mut self, group: &Arc<str>, round: &Round) -> Result<Queue, StoreError> {
        let Some(first) = self.line(group, 1, round)?.first().map(|first| first.job) else {
            return Ok(Queue { needed: 0, holders: Vec::new() });
        };
        let limit = self.limit_of(first)?.unwrap_or(usize::MAX);
        let all = self.standing(group, round)?.holders;
        let needed = (all.len() + 1).saturating_sub(limit);
        let mut holders = Vec::with_capacity(all.len());
        for Holder { job, until, .. } in all {
            let mut waiting = BTreeSet::new();
            // What may still run of a job that is over waits for nobody.
            if until.is_none() {
                self.waiting_descendants(job, &mut waiting);
            }
            holders.push(waiting);
        }
        Ok(Queue { needed, holders })
    }

    /// The jobs that this one waits for, near and far, that wait for their groups.
    fn waiting_descendants(&mut self, job: JobId, found: &mut BTreeSet<JobId>) {
        let Ok(cached) = self.cache.load(job, &mut self.store, &self.definitions) else { return };
        if cached.job.awaits_slot() {
            found.insert(job);
            return;
        }
        let begins = |step: &engine::definition::StepDef| matches!(step.work, Work::Child(_));
        if cached.job.is_final() || !cached.job.definition.steps().iter().any(begins) {
            return;
        }
        let children: Vec<JobId> = cached.job.steps.iter().filter_map(|step| step.state.child()).collect();
        children.into_iter().for_each(|child| self.waiting_descendants(child, found));
    }
}

/// Those who stay where they are even if everybody else who can move does.
fn stuck(queues: &BTreeMap<Arc<str>, Queue>, waiters: &BTreeMap<JobId, Arc<str>>) -> BTreeSet<JobId> {
    let mut stuck: BTreeSet<JobId> = waiters.keys().copied().collect();
    loop {
        let moves = |queue: &Queue| {
            let free = queue.holders.iter().filter(|waiting| waiting.is_disjoint(&stuck)).count();
            free >= queue.needed
        };
        let still: BTreeSet<&Arc<str>> =
            queues.iter().filter(|(_, queue)| !moves(queue)).map(|(name, _)| name).collect();
        let before = stuck.len();
        stuck.retain(|job| waiters.get(job).is_some_and(|group| still.contains(group)));
        if stuck.len() == before {
            return stuck;
        }
    }
}

/// Whether those for whom this one waits, near and far, wait for it in turn.
fn waits_for_itself(
    job: JobId,
    queues: &BTreeMap<Arc<str>, Queue>,
    waiters: &BTreeMap<JobId, Arc<str>>,
    stuck: &BTreeSet<JobId>,
) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Arc<str>> = waiters.get(&job).into_iter().collect();
    while let Some(group) = open.pop() {
        if !seen.insert(group) {
            continue;
        }
        let waiting = || queues.get(group).into_iter().flat_map(|queue| queue.holders.iter().flatten());
        if waiting().any(|waiting| *waiting == job) {
            return true;
        }
        open.extend(waiting().filter(|waiting| stuck.contains(waiting)).filter_map(|waiting| waiters.get(waiting)));
    }
    false
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn job(n: u128) -> JobId {
        JobId(Uuid::from_u128(n))
    }

    /// Groups as `name: needed [waiting, …] […]`, and who waits where.
    fn found(groups: &[(&str, usize, &[&[u128]])], waiters: &[(u128, &str)]) -> Vec<u128> {
        let queue = |needed: usize, holders: &[&[u128]]| Queue {
            needed,
            holders: holders.iter().map(|waiting| waiting.iter().map(|n| job(*n)).collect()).collect(),
        };
        let queues = groups.iter().map(|(name, needed, holders)| (Arc::from(*name), queue(*needed, holders))).collect();
        let waiters = waiters.iter().map(|(n, group)| (job(*n), Arc::from(*group))).collect();
        stuck(&queues, &waiters).into_iter().map(|job| job.0.as_u128()).collect()
    }

    /// Job 3 waits behind the other two, who wait for each other.
    #[test]
    fn a_bystander_is_not_in_the_circle() {
        let queue = |waiting: u128| Queue { needed: 1, holders: vec![[job(waiting)].into()] };
        let queues = [("a", 1), ("b", 2), ("c", 3)].map(|(name, waiting)| (Arc::from(name), queue(waiting))).into();
        let waiters = [(1, "b"), (2, "a"), (3, "a")].map(|(n, group)| (job(n), Arc::from(group))).into();
        let stuck = stuck(&queues, &waiters);
        assert_eq!(stuck.len(), 3);
        let in_circle = |n: u128| waits_for_itself(job(n), &queues, &waiters, &stuck);
        assert_eq!([1, 2, 3].map(in_circle), [true, true, false]);
    }

    #[test]
    fn who_waits_for_whom() {
        assert_eq!(found(&[("a", 1, &[&[1]])], &[(1, "a")]), [1], "a job's own child wants its slot");
        assert_eq!(found(&[("a", 1, &[&[1], &[]])], &[(1, "a")]), [], "another holder ends by itself");
        assert_eq!(found(&[("a", 2, &[&[1], &[]])], &[(1, "a")]), [1], "but two must end for the first in line");
        let crossed = [("a", 1, &[&[1][..]][..]), ("b", 1, &[&[2][..]][..])];
        assert_eq!(found(&crossed, &[(1, "b"), (2, "a")]), [1, 2], "two hold what the other's child wants");
        assert_eq!(found(&crossed, &[(1, "c"), (2, "a")]), [], "the third group has room");
        let chain = [("a", 1, &[&[1][..]][..]), ("b", 1, &[&[][..]][..])];
        assert_eq!(found(&chain, &[(1, "b")]), [], "whom it waits for waits for nobody");
    }
}
