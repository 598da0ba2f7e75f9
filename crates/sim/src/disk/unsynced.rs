//! What a power cut takes: what was written and not synced may be there, or not, or in part.
//!
//! The order of writes is the product's. A claim that must last takes spec and names to disk with it, an exit record and the
//! note of a loss are synced before anybody hears of them, and so is `worker.json`. Logs, what serves only this boot (tally,
//! ownership), claims of steps without effects and folders that were put away are not.

use std::time::Duration;

use protocol::attempt::Ticket;

use super::{Disk, Folder};
use crate::dice::Dice;

/// A kernel writes by itself what has waited for so long.
const WRITEBACK: Duration = Duration::from_secs(30);

/// An attempt whose log is not what it was, and its last line.
pub(crate) struct Shortened {
    pub ticket: Ticket,
    pub last_seq: u64,
}

impl Disk {
    /// The folder, for whoever keeps it elsewhere.
    pub(crate) fn put_away(&mut self, ticket: Ticket, now: Duration) -> Option<Folder> {
        self.put_away.retain(|(at, ..)| *at + WRITEBACK > now);
        let folder = self.attempts.remove(&ticket)?;
        self.put_away.push((now, ticket, folder.clone()));
        Some(folder)
    }

    /// The power is gone, and with it what was only in memory.
    pub(crate) fn lose_unsynced(&mut self, now: Duration, dice: &mut Dice) -> Vec<Shortened> {
        for (at, ticket, folder) in std::mem::take(&mut self.put_away) {
            if at + WRITEBACK > now && dice.chance(0.5) {
                self.kept.remove(&ticket);
                self.attempts.insert(ticket, Folder { runner: None, ..folder });
            }
        }
        let mut shortened = Vec::new();
        self.attempts.retain(|ticket, folder| {
            let stays = folder.synced || folder.outlives_power(dice);
            let last_line = if stays { folder.lose_lines(dice) } else { 0 };
            // What is left now was on disk, and stays there.
            folder.synced = true;
            folder.log.on_disk = last_line;
            // Nobody can say whose the lines are of a folder without its spec.
            let last_seq = if folder.hollow { 0 } else { last_line };
            shortened.push(Shortened { ticket: *ticket, last_seq });
            stays
        });
        shortened
    }
}

impl Folder {
    /// Nothing of it was synced: how much of it was written all the same?
    fn outlives_power(&mut self, dice: &mut Dice) -> bool {
        let (named, filled, claimed) = (dice.chance(0.7), dice.chance(0.6), dice.chance(0.5));
        self.hollow |= !filled;
        self.claim = self.claim.filter(|_| claimed);
        named
    }

    /// The number of the last line that is left.
    fn lose_lines(&mut self, dice: &mut Dice) -> u64 {
        if dice.chance(0.5) {
            (self.tally, self.ownership) = (None, None);
        }
        let written = self.log.lines.len();
        let kept = if dice.chance(0.3) { written } else { dice.below(written + 1) };
        let on_disk = self.log.lines.partition_point(|(seq, _)| *seq <= self.log.on_disk);
        self.log.lines.truncate(kept.max(on_disk));
        self.log.last()
    }
}

#[cfg(test)]
mod tests {
    use protocol::folder::{Claim, FolderSpec};
    use serde_json::json;
    use uuid::Uuid;
    use worker::state::Mark;

    use super::*;

    fn ticket(number: u128) -> Ticket {
        Ticket { attempt: Uuid::from_u128(number), fence: 1 }
    }

    fn disk_with(numbers: &[u128]) -> Disk {
        let mark = Mark { inode: 1, created_us: None };
        let mut disk = Disk::new(Uuid::nil(), "machine".to_owned(), mark);
        for number in numbers {
            let spec = json!({
                "format": 1,
                "attempt": {
                    "format": 1, "ticket": ticket(*number), "job": Uuid::nil(), "task": "t", "step": "s", "number": 1,
                    "program": { "kind": "command", "argv": ["true"] }, "effects": "writes"
                },
                "local": { "log_lines_max": 1, "log_bytes_max": 1 }
            });
            let spec: FolderSpec = serde_json::from_value(spec).expect("a spec");
            disk.attempts.insert(ticket(*number), Folder::new(spec));
        }
        disk
    }

    fn claim(disk: &mut Disk, number: u128, durable: bool) {
        disk.attempts.get_mut(&ticket(number)).expect("it was made").claim(Claim::Intent, durable);
    }

    #[test]
    fn what_was_synced_stays_and_what_was_not_may_go() {
        let (mut lost, mut hollow, mut unclaimed, mut whole) = (0, 0, 0, 0);
        for seed in 0..50 {
            let mut disk = disk_with(&[1, 2]);
            claim(&mut disk, 1, false);
            claim(&mut disk, 2, true);
            disk.lose_unsynced(Duration::ZERO, &mut Dice::new(seed, "test"));
            let safe = &disk.attempts[&ticket(2)];
            assert!(safe.claim == Some(Claim::Intent) && !safe.hollow, "seed {seed}");
            match disk.attempts.get(&ticket(1)) {
                None => lost += 1,
                Some(folder) if folder.hollow => hollow += 1,
                Some(folder) if folder.claim.is_none() => unclaimed += 1,
                Some(_) => whole += 1,
            }
        }
        assert!([lost, hollow, unclaimed, whole].iter().all(|count| *count > 0), "{lost} {hollow} {unclaimed} {whole}");
    }

    #[test]
    fn what_a_power_cut_left_the_next_one_leaves_too() {
        for seed in 0..50 {
            let mut disk = disk_with(&[1]);
            let mut dice = Dice::new(seed, "test");
            for line in 0..9 {
                disk.attempts.get_mut(&ticket(1)).expect("it was made").log.print(line.to_string(), true, 100);
            }
            disk.lose_unsynced(Duration::ZERO, &mut dice);
            let left =
                |disk: &Disk| disk.attempts.get(&ticket(1)).map(|folder| (folder.hollow, folder.log.lines.clone()));
            let once = left(&disk);
            disk.lose_unsynced(Duration::ZERO, &mut dice);
            assert_eq!(left(&disk), once, "seed {seed}");
        }
    }

    #[test]
    fn what_was_just_put_away_may_be_back() {
        let back = |late: Duration| {
            (0..20).any(|seed| {
                let mut disk = disk_with(&[1]);
                claim(&mut disk, 1, true);
                disk.put_away(ticket(1), Duration::ZERO);
                disk.lose_unsynced(late, &mut Dice::new(seed, "test"));
                !disk.attempts.is_empty()
            })
        };
        assert!(back(Duration::from_secs(1)));
        assert!(!back(WRITEBACK));
    }
}
