//! Who gets into a state folder that somebody else may have: a worker asks a caretaker for it and waits, a caretaker goes.

use std::time::Duration;

/// Between two tries at the lock.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it is tried before another worker is believed to be there. One that ended a moment ago may leave the lock
/// with a process that it was just starting.
const TRIES: u32 = 40;
/// A caretaker that was asked lets go within two seconds, on a machine that has the time: it may have to see to the end what it looks at.
const TRIES_HANDOVER: u32 = 600;

/// Who opens a state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Worker,
    Caretaker,
}

impl Role {
    /// Whether it takes back the word that no caretaker is wanted: a worker is there again.
    pub fn takes_word_back(self) -> bool {
        self == Role::Worker
    }
}

/// The tries at the lock of a folder.
#[derive(Debug)]
pub struct Entry {
    tries_left: u32,
    /// To hand over; or there is no point in asking.
    asked: bool,
}

impl Entry {
    pub fn new(role: Role) -> Self {
        Entry { tries_left: TRIES, asked: role == Role::Caretaker }
    }

    /// Somebody has the lock. When to try again; `None`: give up. `ask` asks for a hand-over, and says whether anybody
    /// heard, as only a caretaker does.
    pub fn refused(&mut self, ask: impl FnOnce() -> bool) -> Option<Duration> {
        if !self.asked && ask() {
            self.asked = true;
            self.tries_left = TRIES_HANDOVER;
        }
        self.tries_left = self.tries_left.saturating_sub(1);
        (self.tries_left > 0).then_some(PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the lock was tried in vain, and how often somebody was asked, before giving up.
    fn knock(role: Role, hears_from: Option<u32>) -> (u32, u32) {
        let mut entry = Entry::new(role);
        let (mut tries, mut asked) = (0, 0);
        loop {
            tries += 1;
            let again = entry.refused(|| {
                asked += 1;
                hears_from.is_some_and(|first| tries >= first)
            });
            if again.is_none() {
                return (tries, asked);
            }
        }
    }

    #[test]
    fn a_caretaker_is_asked_once_and_then_waited_for() {
        assert_eq!(knock(Role::Worker, None), (40, 40), "another worker does not listen");
        assert_eq!(knock(Role::Worker, Some(1)), (600, 1));
        assert_eq!(knock(Role::Worker, Some(11)), (610, 11), "it had only begun");
        assert_eq!(knock(Role::Caretaker, Some(1)), (40, 0), "a caretaker asks for nothing");
    }
}
