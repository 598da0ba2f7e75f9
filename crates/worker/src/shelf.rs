//! What is kept of attempts that the server has whole: for how long, how many, and what goes when room is short. Pure;
//! the broom (`executors::process`) does what it says.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use protocol::link::{RefuseReason, WorkerMessage};
use uuid::Uuid;

use crate::options::Spool;

/// How often kept attempts are looked at for their age.
const AGE_INTERVAL: Duration = Duration::from_secs(60);
/// Kept attempts, however small: each costs some files.
const KEPT_MAX: usize = 1000;
/// Under load more are kept, and the surplus goes when it is quiet: ext4 does not give out an inode again within a
/// minute of its deletion, and searches past all of them whenever a file is made.
const KEPT_UNDER_LOAD_MAX: usize = 20_000;
/// Nothing to do for this long is quiet.
const QUIET: Duration = Duration::from_secs(1);
/// Brought back in one go, the newest first, when a server's database lost commits: a hello with all of them is still a
/// fraction of a frame.
pub const RECALLED_MAX: usize = 1000;
/// Removed in one go, so that orders do not wait long.
const PRUNE_BATCH: usize = 500;

/// The attempts that are kept, oldest first.
#[derive(Debug)]
pub struct Shelf {
    spool: Spool,
    kept: VecDeque<Kept>,
    bytes: u64,
}

/// One attempt: its result and its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub attempt: Uuid,
    pub since: SystemTime,
    /// What its log takes on disk.
    pub bytes: u64,
}

/// How busy the worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    Quiet,
    Busy,
}

impl Shelf {
    /// `kept`: what an earlier worker has left, in any order.
    pub fn new(spool: Spool, mut kept: Vec<Kept>) -> Self {
        kept.sort_by_key(|kept| (kept.since, kept.attempt));
        let bytes = kept.iter().map(|kept| kept.bytes).sum();
        Shelf { spool, kept: kept.into(), bytes }
    }

    /// Whether anything is kept at all; otherwise an attempt is removed as soon as the server has it.
    pub fn is_used(&self) -> bool {
        !self.spool.keep_after_ack.is_zero()
    }

    pub fn put(&mut self, kept: Kept) {
        self.bytes += kept.bytes;
        self.kept.push_back(kept);
    }

    /// Takes the oldest that must go off the shelf, a batch at most: too old, too many, or too large together.
    pub fn prune(&mut self, load: Load, now: SystemTime) -> Vec<Uuid> {
        let kept_max = match load {
            Load::Quiet => KEPT_MAX,
            Load::Busy => KEPT_UNDER_LOAD_MAX,
        };
        let mut gone = Vec::new();
        while let Some(oldest) = self.kept.front().filter(|_| gone.len() < PRUNE_BATCH) {
            let age = now.duration_since(oldest.since).unwrap_or_default();
            let too_old = age >= self.spool.keep_after_ack;
            if !too_old && self.kept.len() <= kept_max && self.bytes <= self.spool.log_bytes {
                break;
            }
            gone.push(oldest.attempt);
            self.bytes -= oldest.bytes;
            self.kept.pop_front();
        }
        gone
    }

    /// Takes all off the shelf if the disk is full: the server has it, and a worker without room can do nothing.
    pub fn make_room(&mut self, has_room: impl FnOnce() -> bool) -> Vec<Uuid> {
        if self.kept.is_empty() || has_room() {
            return Vec::new();
        }
        self.bytes = 0;
        self.kept.drain(..).map(|kept| kept.attempt).collect()
    }

    /// Takes the newest off the shelf: the server may have forgotten them.
    pub fn recall(&mut self) -> Vec<Uuid> {
        let recalled = self.kept.split_off(self.kept.len().saturating_sub(RECALLED_MAX));
        self.bytes -= recalled.iter().map(|kept| kept.bytes).sum::<u64>();
        recalled.into_iter().map(|kept| kept.attempt).collect()
    }

    /// How long nothing need be done if nothing happens. It is quiet then.
    pub fn patience(&self) -> Duration {
        if self.kept.len() > KEPT_MAX { QUIET } else { AGE_INTERVAL }
    }
}

/// Whether what the worker says means that its disk may be full, and the shelf should [make room](Shelf::make_room).
pub fn calls_for_room(message: &WorkerMessage) -> bool {
    matches!(message, WorkerMessage::Refuse { reason: RefuseReason::DiskFull | RefuseReason::Broken, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn kept(number: u64, bytes: u64) -> Kept {
        Kept { attempt: Uuid::from_u128(u128::from(number)), since: at(number), bytes }
    }

    fn shelf(kept: Vec<Kept>) -> Shelf {
        Shelf::new(Spool { log_lines: 10, log_bytes: 100, keep_after_ack: DAY }, kept)
    }

    fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<Uuid> {
        numbers.into_iter().map(|number| Uuid::from_u128(u128::from(number))).collect()
    }

    #[test]
    fn the_oldest_goes_when_it_is_too_old_or_all_are_too_large() {
        let mut shelf = shelf(vec![kept(3, 40), kept(1, 40), kept(2, 40)]);
        assert_eq!(shelf.prune(Load::Quiet, at(10)), ids([1]), "120 bytes are more than 100");
        assert_eq!(shelf.prune(Load::Quiet, at(10)), ids([]));
        assert_eq!(shelf.prune(Load::Quiet, at(2) + DAY), ids([2]), "a day old");
        assert_eq!(shelf.prune(Load::Quiet, at(0)), ids([]), "a clock that was set back makes nothing old");
    }

    #[test]
    fn a_surplus_goes_in_batches_when_it_is_quiet() {
        let mut shelf = shelf((1..=1700).map(|number| kept(number, 0)).collect());
        assert_eq!(shelf.prune(Load::Busy, at(1700)), ids([]));
        assert_eq!(shelf.patience(), QUIET);
        assert_eq!(shelf.prune(Load::Quiet, at(1700)), ids(1..=500));
        assert_eq!(shelf.prune(Load::Quiet, at(1700)), ids(501..=700));
        assert_eq!(shelf.patience(), AGE_INTERVAL);
        assert_eq!(shelf.prune(Load::Quiet, at(1700)), ids([]));
    }

    #[test]
    fn the_newest_are_recalled() {
        let mut shelf = shelf((1..=1003).map(|number| kept(number, 1)).collect());
        assert_eq!(shelf.recall(), ids(4..=1003));
        assert_eq!((shelf.recall(), shelf.recall()), (ids(1..=3), ids([])));
        shelf.put(kept(1004, 100));
        assert_eq!(shelf.prune(Load::Quiet, at(1004)), ids([]), "what is recalled counts no more");
    }

    #[test]
    fn a_full_disk_costs_all_that_is_kept() {
        let mut shelf = shelf(vec![kept(1, 60), kept(2, 30)]);
        assert_eq!(shelf.make_room(|| true), ids([]));
        assert_eq!(shelf.make_room(|| false), ids([1, 2]));
        shelf.put(kept(3, 90));
        assert_eq!(shelf.prune(Load::Quiet, at(3)), ids([]), "what is gone counts no more");
    }
}
