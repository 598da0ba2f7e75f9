//! `bowline fence check`: whether the step that asks still is its attempt's owner. Answered from the folder's record,
//! without a server: what counts is that a server said so a short while ago.

use std::path::Path;
use std::time::Duration;

use protocol::folder::Ownership;

use crate::clock;
use crate::folder_io::{self, FolderError, Recorded};

/// A record that is being written right now reads well a moment later.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A server confirmed it within the lease.
    Owner { left: Duration },
    /// Nobody did for so long that somebody else may own the step, or somebody else certainly does.
    NotOwner,
    /// There is no record of any answer: treat it as not.
    CannotTell,
}

/// Asks for the attempt in `folder`.
pub fn check(folder: &Path) -> Answer {
    check_record(|| folder_io::read_record(folder))
}

/// Asks for the attempt whose record `read` reads.
pub(crate) fn check_record(read: impl Fn() -> Result<Recorded, FolderError>) -> Answer {
    for _ in 0..TRIES {
        if let Ok(recorded) = read()
            && let Some(answer) = judge(&recorded, clock::boot_now())
        {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
    Answer::CannotTell
}

/// What a record says; `None`: nothing yet.
pub fn judge(recorded: &Recorded, now: Duration) -> Option<Answer> {
    if recorded.end.is_some() {
        return Some(Answer::NotOwner);
    }
    let Ownership { confirmed_ms, until_ms } = recorded.ownership?;
    let until = Duration::from_millis(until_ms);
    let confirmed = Duration::from_millis(confirmed_ms);
    // A confirmation from the future is one of an earlier boot.
    let holds = confirmed <= now && now < until;
    Some(if holds { Answer::Owner { left: until - now } } else { Answer::NotOwner })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_holds_from_its_question_to_the_end_of_the_lease() {
        let recorded =
            Recorded { ownership: Some(Ownership { confirmed_ms: 1000, until_ms: 1500 }), ..Recorded::default() };
        let at = |ms| judge(&recorded, Duration::from_millis(ms));
        assert_eq!(at(1000), Some(Answer::Owner { left: Duration::from_millis(500) }));
        assert_eq!(at(1499), Some(Answer::Owner { left: Duration::from_millis(1) }));
        assert_eq!(at(1500), Some(Answer::NotOwner));
        assert_eq!(at(999), Some(Answer::NotOwner), "of an earlier boot");
    }

    #[test]
    fn without_a_record_nothing_is_known() {
        assert_eq!(judge(&Recorded::default(), Duration::ZERO), None);
        assert_eq!(check(Path::new("/nowhere")), Answer::CannotTell);
    }
}
