//! The steps that wait for a worker, in the order in which they are served: priority, then fair shares, then age.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use planted::Bug;

use super::share::{Loads, Share, Turn, Whose};
use super::tags::TagSet;

/// Where a step is found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub job: JobId,
    pub step: StepIx,
}

/// The order of service of those who have the same share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    pub priority: Reverse<i32>,
    pub since: Time,
    pub place: Place,
}

/// Those that need the same tags and have the same priority.
type Tier = (TagSet, Reverse<i32>);

/// Queued steps that may be offered now, by what they need; and who has how much at workers already.
#[derive(Debug, Default)]
pub struct Queue {
    lanes: BTreeMap<TagSet, BTreeMap<Reverse<i32>, Share>>,
    entries: BTreeMap<Place, Entry>,
    /// Where each submitter has something waiting.
    tiers: HashMap<u64, BTreeSet<Tier>>,
    loads: Loads,
    held: HashMap<AttemptId, Whose>,
}

#[derive(Debug)]
struct Entry {
    key: QueueKey,
    tags: TagSet,
    avoid: Option<WorkerId>,
    whose: Whose,
}

impl Queue {
    pub fn insert(&mut self, key: QueueKey, tags: TagSet, avoid: Option<WorkerId>, whose: Whose) {
        self.remove(key.place);
        let lane = self.lanes.entry(tags.clone()).or_default();
        lane.entry(key.priority).or_default().insert(whose, key, &self.loads);
        self.tiers.entry(whose.outermost()).or_default().insert((tags.clone(), key.priority));
        self.entries.insert(key.place, Entry { key, tags, avoid, whose });
    }

    pub fn remove(&mut self, place: Place) {
        let Some(Entry { key, tags, whose, .. }) = self.entries.remove(&place) else { return };
        let Some(lane) = self.lanes.get_mut(&tags) else { return };
        let Some(share) = lane.get_mut(&key.priority) else { return };
        share.remove(whose, key, &self.loads);
        let (of_submitter, empty) = (share.has(whose.outermost()), share.is_empty());
        if empty {
            lane.remove(&key.priority);
        }
        if lane.is_empty() {
            self.lanes.remove(&tags);
        }
        if !of_submitter && let Some(tiers) = self.tiers.get_mut(&whose.outermost()) {
            tiers.remove(&(tags, key.priority));
            if tiers.is_empty() {
                self.tiers.remove(&whose.outermost());
            }
        }
    }

    /// Whatever of this job waits.
    pub fn remove_job(&mut self, job: JobId) {
        let of_job = Place { job, step: StepIx(0) }..=Place { job, step: StepIx(u32::MAX) };
        let places: Vec<Place> = self.entries.range(of_job).map(|(place, _)| *place).collect();
        places.into_iter().for_each(|place| self.remove(place));
    }

    /// A worker has this attempt now, by offer or by leave: whose it is has one more.
    pub fn hold(&mut self, attempt: AttemptId, whose: Whose) {
        self.release(attempt);
        self.held.insert(attempt, whose);
        self.loads.add(whose);
        self.reorder(whose);
    }

    pub fn release(&mut self, attempt: AttemptId) {
        if let Some(whose) = self.held.remove(&attempt) {
            self.loads.remove(whose);
            self.reorder(whose);
        }
    }

    /// Forgets what workers hold, before it is read again from the store.
    pub fn clear_held(&mut self) {
        self.held.clear();
        self.loads.clear();
        let whose: Vec<Whose> = self.entries.values().map(|entry| entry.whose).collect();
        whose.into_iter().for_each(|whose| self.reorder(whose));
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What waits; who has what in hand stays.
    pub fn clear(&mut self) {
        self.lanes.clear();
        self.entries.clear();
        self.tiers.clear();
    }

    /// The tags of each lane, with whose turn it is in it.
    pub(super) fn turns(&self) -> impl Iterator<Item = (&TagSet, Reverse<i32>, Turn)> {
        self.lanes.iter().filter_map(|(tags, lane)| {
            let first = if planted::is(Bug::PriorityIgnored) { lane.last_key_value() } else { lane.first_key_value() };
            let (priority, share) = first?;
            Some((tags, *priority, share.turn()?))
        })
    }

    pub(super) fn avoid(&self, place: Place) -> Option<WorkerId> {
        self.entries.get(&place).and_then(|e| e.avoid)
    }

    fn reorder(&mut self, whose: Whose) {
        for (tags, priority) in self.tiers.get(&whose.outermost()).into_iter().flatten() {
            if let Some(share) = self.lanes.get_mut(tags).and_then(|lane| lane.get_mut(priority)) {
                share.reorder(whose, &self.loads);
            }
        }
    }
}
