//! Fair shares: whose turn it is among those that wait with the same priority.
//!
//! First the submitter with the fewest steps at workers, then of theirs the task with the fewest, then the family of jobs with the
//! fewest, and where all of that is equal the step that has waited longest. So a fan-out of ten thousand items gets what nobody
//! else wants, and whoever comes later gets the next slot. Each change moves one place in a few ordered sets, and so does each
//! turn.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash as _, Hasher as _};

use engine::Job;

use super::queue::QueueKey;

/// Submitter, task, family.
const LEVELS: usize = 3;

/// Whose a step is, from the outside in. Two that share a number share their turns, which is no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Whose([u64; LEVELS]);

impl Whose {
    /// A job that another one began has its submitter and its family.
    pub fn of(job: &Job) -> Whose {
        Whose([number(&job.submitted_by), number(&job.definition.name), job.id.0.as_u64_pair().0])
    }

    #[cfg(test)]
    pub(super) fn named(submitter: &str, task: &str, family: u64) -> Whose {
        Whose([number(submitter), number(task), family])
    }

    /// The submitter.
    pub(super) fn outermost(self) -> u64 {
        self.0[0]
    }

    /// All that share the first so many of its names, and one more.
    fn up_to(self, level: usize) -> (usize, [u64; LEVELS]) {
        let mut names = self.0;
        names[level + 1..].fill(0);
        (level, names)
    }
}

/// The same on every server and in every run.
fn number(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// How many steps of each are with workers now.
#[derive(Debug, Default)]
pub(super) struct Loads(HashMap<(usize, [u64; LEVELS]), u32>);

impl Loads {
    pub(super) fn add(&mut self, whose: Whose) {
        for level in 0..LEVELS {
            *self.0.entry(whose.up_to(level)).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, whose: Whose) {
        for level in 0..LEVELS {
            let key = whose.up_to(level);
            match self.0.get_mut(&key) {
                Some(load) if *load > 1 => *load -= 1,
                _ => drop(self.0.remove(&key)),
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn of(&self, whose: Whose, level: usize) -> u32 {
        self.0.get(&whose.up_to(level)).copied().unwrap_or(0)
    }
}

/// The order of turns at one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    loads: [u32; LEVELS],
    pub(super) key: QueueKey,
}

/// What waits of all, of one submitter, of one task of theirs, or of one family.
#[derive(Debug, Default)]
pub(super) struct Share {
    parts: BTreeMap<u64, Share>,
    /// The parts, the one whose turn it is first: by load, then by who has waited longest.
    order: BTreeSet<(u32, QueueKey, u64)>,
    /// Where it stands in the order of what it is a part of.
    place: Option<(u32, QueueKey)>,
    /// Only in the innermost.
    steps: BTreeSet<QueueKey>,
}

impl Share {
    pub(super) fn insert(&mut self, whose: Whose, key: QueueKey, loads: &Loads) {
        self.change(whose, 0, loads, |steps| {
            steps.insert(key);
        });
    }

    pub(super) fn remove(&mut self, whose: Whose, key: QueueKey, loads: &Loads) {
        self.change(whose, 0, loads, |steps| {
            steps.remove(&key);
        });
    }

    /// The load has changed.
    pub(super) fn reorder(&mut self, whose: Whose, loads: &Loads) {
        self.change(whose, 0, loads, |_| {});
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn has(&self, submitter: u64) -> bool {
        self.parts.contains_key(&submitter)
    }

    /// Whose turn it is.
    pub(super) fn turn(&self) -> Option<Turn> {
        let (mut share, mut turn) = (self, [0; LEVELS]);
        for load in &mut turn {
            #[cfg(test)]
            work::count();
            let (least, _, part) = share.order.first()?;
            *load = *least;
            share = share.parts.get(part)?;
        }
        Some(Turn { loads: turn, key: *share.steps.first()? })
    }

    fn change(&mut self, whose: Whose, level: usize, loads: &Loads, act: impl FnOnce(&mut BTreeSet<QueueKey>)) {
        #[cfg(test)]
        work::count();
        let Some(name) = whose.0.get(level).copied() else { return act(&mut self.steps) };
        let part = self.parts.entry(name).or_default();
        if let Some((load, head)) = part.place.take() {
            self.order.remove(&(load, head, name));
        }
        part.change(whose, level + 1, loads, act);
        match part.head() {
            Some(head) => {
                let load = loads.of(whose, level);
                part.place = Some((load, head));
                self.order.insert((load, head, name));
            }
            None => drop(self.parts.remove(&name)),
        }
    }

    /// The step that is served first of all that wait in it.
    fn head(&self) -> Option<QueueKey> {
        self.steps.first().copied().or_else(|| self.order.first().map(|(_, head, _)| *head))
    }
}

/// How many places in ordered sets were looked at or moved in this thread: what a test counts instead of time.
#[cfg(test)]
pub(super) mod work {
    use std::cell::Cell;

    thread_local! {
        static DONE: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        DONE.set(DONE.get() + 1);
    }

    /// Since the last time that somebody asked.
    pub(in crate::dispatch) fn take() -> u64 {
        DONE.replace(0)
    }
}
