//! The last one standing wakes the agent: a runner whose worker stays away starts one for what lives in the folder.
//!
//! The caretaker is a worker like any other, in a session of its own and with a clean environment. It takes the state
//! folder's lock itself, so of several that are started at once one stays.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use protocol::state::{CARETAKER_LOG, Caretaker, LOCK_FILE, NO_CARETAKER_FILE, NoCaretaker};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::clock;

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// And the shortest, whatever the server says.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How long a runner has been without a worker, and when it does something about it.
#[derive(Debug, Default)]
pub(crate) struct Solitude {
    next_at: Option<Duration>,
    pause: Duration,
}

impl Solitude {
    /// Whether it is time for a try. `after`: how long a worker may stay away; `None`: as long as it likes.
    pub(crate) fn turn(&mut self, alone: bool, after: Option<Duration>, now: Duration) -> bool {
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

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.next_at
    }
}

/// Starts a caretaker, unless one is not wanted or not needed. Returns its process's number.
pub(crate) fn wake(seat: &Caretaker, environment: &BTreeMap<String, String>) -> io::Result<Option<i32>> {
    if is_unwanted(&seat.state)? || is_taken(&seat.state)? {
        return Ok(None);
    }
    let spawned = match start(&seat.program, seat, environment) {
        // The program was moved or removed since; this process still is it.
        Err(error) if error.kind() == ErrorKind::NotFound => start(Path::new("/proc/self/exe"), seat, environment),
        result => result,
    };
    spawned.map(Some)
}

fn start(program: &Path, seat: &Caretaker, environment: &BTreeMap<String, String>) -> io::Result<i32> {
    let log = File::create(seat.state.join(CARETAKER_LOG)).map_or_else(|_| Stdio::null(), Stdio::from);
    let child = Command::new(program)
        .args(&seat.arguments)
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    Ok(child.id().cast_signed())
}

fn is_unwanted(state: &Path) -> io::Result<bool> {
    match fs::read(state.join(NO_CARETAKER_FILE)) {
        Ok(json) => {
            let word: Result<NoCaretaker, _> = serde_json::from_slice(&json);
            // A word that cannot be read is still one.
            Ok(word.map_or(true, |word| word.is_in_force(&clock::boot_id(), clock::to_ms(clock::boot_now()))))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tried as a shared lock, for a moment: a worker that comes to it just then tries again.
fn is_taken(state: &Path) -> io::Result<bool> {
    match flock(File::open(state.join(LOCK_FILE))?, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
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
    fn a_word_or_a_worker_keeps_it_from_starting() {
        let state = tempfile::tempdir().expect("a temporary folder");
        let program = std::path::PathBuf::from("/bin/true");
        let seat = Caretaker { state: state.path().to_owned(), program, arguments: Vec::new() };
        let wakes = || wake(&seat, &BTreeMap::new()).expect("readable").is_some();
        let lock = File::create(state.path().join(LOCK_FILE)).expect("writable");
        assert!(wakes());
        flock(&lock, FlockOperation::LockExclusive).expect("free");
        assert!(!wakes(), "a worker has the folder");
        flock(&lock, FlockOperation::Unlock).expect("ours");
        let word = |boot_id: &str, until_ms| {
            let word = NoCaretaker { boot_id: boot_id.to_owned(), until_ms };
            fs::write(state.path().join(NO_CARETAKER_FILE), serde_json::to_vec(&word).expect("json"))
                .expect("writable");
        };
        word(&clock::boot_id(), None);
        assert!(!wakes());
        word(&clock::boot_id(), Some(clock::to_ms(clock::boot_now()) + 60_000));
        assert!(!wakes());
        word(&clock::boot_id(), Some(1));
        assert!(wakes(), "it is over");
        word("another", None);
        assert!(wakes(), "of an earlier boot");
    }
}
