//! A runner without a worker: when it wakes a caretaker, and when it does not.

use std::time::Duration;

use protocol::state::NoCaretaker;

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// And the shortest, whatever the server says.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How long a runner has been without a worker, and when it does something about it.
#[derive(Debug, Default)]
pub(super) struct Solitude {
    next_at: Option<Duration>,
    pause: Duration,
}

impl Solitude {
    /// Whether it is time for a try. `after`: how long a worker may stay away; `None`: as long as it likes.
    pub(super) fn turn(&mut self, alone: bool, after: Option<Duration>, now: Duration) -> bool {
        let Some(after) = after.filter(|_| alone) else {
            *self = Solitude::default();
            return false;
        };
        let next_at = *self.next_at.get_or_insert_with(|| now.saturating_add(after));
        if now < next_at {
            return false;
        }
        self.pause = if self.pause.is_zero() { after.max(PAUSE_MIN) } else { (self.pause * 2).min(PAUSE_MAX) };
        self.next_at = Some(now.saturating_add(self.pause));
        true
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.next_at
    }
}

/// What a worker has left in the state folder for those who would wake a caretaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordLeft {
    Nothing,
    Word(NoCaretaker),
    /// A word that cannot be read is still one.
    Unreadable,
}

/// Whether a caretaker may be started now. `taken`: somebody, worker or caretaker, has the state folder.
pub fn may_wake(word: &WordLeft, taken: bool, boot_id: &str, now_ms: u64) -> bool {
    let unwanted = match word {
        WordLeft::Nothing => false,
        WordLeft::Word(word) => word.is_in_force(boot_id, now_ms),
        WordLeft::Unreadable => true,
    };
    !unwanted && !taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Option<Duration> = Some(Duration::from_secs(10));

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn tries_begin_after_a_while_and_become_rare() {
        let mut solitude = Solitude::default();
        let tries: Vec<u64> = (0..4000).filter(|now| solitude.turn(true, AFTER, seconds(*now))).collect();
        assert_eq!(tries, [10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440, 3040, 3640]);
    }

    #[test]
    fn a_worker_in_between_starts_the_wait_anew() {
        let mut solitude = Solitude::default();
        assert!(!solitude.turn(true, AFTER, seconds(0)));
        assert!(!solitude.turn(false, AFTER, seconds(9)));
        assert_eq!(solitude.deadline(), None);
        assert!(!solitude.turn(true, AFTER, seconds(10)));
        assert_eq!(solitude.deadline(), Some(seconds(20)));
    }

    #[test]
    fn without_a_rule_nobody_is_woken() {
        let mut solitude = Solitude::default();
        assert!((0..1000).all(|now| !solitude.turn(true, None, seconds(now))));
    }

    #[test]
    fn a_word_in_force_or_a_taken_folder_keeps_a_caretaker_away() {
        let word = |boot_id: &str, until_ms| WordLeft::Word(NoCaretaker { boot_id: boot_id.to_owned(), until_ms });
        for (left, taken, expected) in [
            (WordLeft::Nothing, false, true),
            (WordLeft::Nothing, true, false),
            (WordLeft::Unreadable, false, false),
            (word("this", None), false, false),
            (word("this", Some(1001)), false, false),
            (word("this", Some(1000)), false, true),
            (word("earlier", None), false, true),
            (word("earlier", None), true, false),
        ] {
            assert_eq!(may_wake(&left, taken, "this", 1000), expected, "{left:?}, taken: {taken}");
        }
    }
}
