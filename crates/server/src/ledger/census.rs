//! How much the ledger keeps in memory, count by count: what should be nothing when nothing happens, and what must stay
//! bounded while much does. The simulator looks at it when all is quiet.

use store::Store;

use super::core::Core;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    pub links: usize,
    /// Hellos that wait for word from another process of the same worker.
    pub knocks: usize,
    pub queued: usize,
    /// Attempts that some worker holds, by offer or by grant.
    pub held: usize,
    /// What runs on workers and is no step's current attempt.
    pub strays: usize,
    pub cached_jobs: usize,
    /// Jobs that are left alone for a while because they could not be handled.
    pub aside: usize,
    /// Signs of life that are not written yet, and runners whose silence is watched.
    pub beats: usize,
    /// Attempts of which was said that they began.
    pub begun: usize,
    /// Where the roster has what is held: by attempt, and by job.
    pub places: usize,
    /// Concurrency groups that are to be looked at, now or later.
    pub groups: usize,
    /// Of triggers: those that went, those whose task is not there, and those left alone for a while.
    pub schedules: usize,
    /// What was said once, and is not said again: attempts that nobody knows, and identities in use twice.
    pub said: usize,
    /// Jobs of which it was said that they hold a slot by what may still run.
    pub alarmed: usize,
    /// Other servers that are there.
    pub siblings: usize,
    /// Workers that are known.
    pub workers: usize,
    /// Over all links: attempts that a worker should report, ends without a whole log, positions in logs, and attempts of
    /// which something was said.
    pub expected: usize,
    pub ended: usize,
    pub log_positions: usize,
    pub words: usize,
    /// Words to the outside that are on their way.
    pub parcels: usize,
}

impl<S: Store> Core<S> {
    pub fn census(&self) -> Census {
        let links = || self.links.values();
        Census {
            links: self.links.len(),
            knocks: self.knocks.len(),
            queued: self.queue.len(),
            held: self.roster.iter().map(|(_, worker)| worker.held.len()).sum(),
            strays: self.roster.iter().map(|(_, worker)| worker.strays.len()).sum(),
            cached_jobs: self.cache.len(),
            aside: self.aside.len(),
            beats: self.beats.len(),
            begun: self.begun.len(),
            places: self.roster.places(),
            groups: self.groups.waiting(),
            schedules: self.schedules.kept(),
            said: self.strangers.len() + self.duplicates.len(),
            alarmed: self.groups.alarmed.len(),
            siblings: self.siblings.count(),
            workers: self.roster.iter().count(),
            expected: links().map(|link| link.sent.len()).sum(),
            ended: links().map(|link| link.ended.len()).sum(),
            log_positions: links().map(|link| link.logs.len()).sum(),
            words: links().map(|link| link.words.len()).sum(),
            parcels: self.outbox.under_way(),
        }
    }
}
