//! The steps that wait for a worker, in the order in which they are served: priority, then age.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use engine::{JobId, StepIx, Time, WorkerId};

use super::tags::TagSet;

/// Where a step is found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub job: JobId,
    pub step: StepIx,
}

/// The order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    pub priority: Reverse<i32>,
    pub since: Time,
    pub place: Place,
}

/// Queued steps that may be offered now, grouped by what they need.
#[derive(Debug, Default)]
pub struct Queue {
    groups: BTreeMap<TagSet, BTreeSet<QueueKey>>,
    entries: BTreeMap<Place, Entry>,
}

#[derive(Debug)]
struct Entry {
    key: QueueKey,
    tags: TagSet,
    avoid: Option<WorkerId>,
}

impl Queue {
    pub fn insert(&mut self, key: QueueKey, tags: TagSet, avoid: Option<WorkerId>) {
        self.remove(key.place);
        self.groups.entry(tags.clone()).or_default().insert(key);
        self.entries.insert(key.place, Entry { key, tags, avoid });
    }

    pub fn remove(&mut self, place: Place) {
        if let Some(entry) = self.entries.remove(&place)
            && let Some(group) = self.groups.get_mut(&entry.tags)
        {
            group.remove(&entry.key);
            if group.is_empty() {
                self.groups.remove(&entry.tags);
            }
        }
    }

    /// Whatever of this job waits.
    pub fn remove_job(&mut self, job: JobId) {
        let of_job = Place { job, step: StepIx(0) }..=Place { job, step: StepIx(u32::MAX) };
        let places: Vec<Place> = self.entries.range(of_job).map(|(place, _)| *place).collect();
        places.into_iter().for_each(|place| self.remove(place));
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn clear(&mut self) {
        self.groups.clear();
        self.entries.clear();
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = (&TagSet, &BTreeSet<QueueKey>)> {
        self.groups.iter()
    }

    pub(super) fn avoid(&self, place: Place) -> Option<WorkerId> {
        self.entries.get(&place).and_then(|e| e.avoid)
    }
}
