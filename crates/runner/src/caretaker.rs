//! The last one standing wakes the agent: a runner whose worker stays away starts one for what lives in the folder.
//!
//! The caretaker is a worker like any other, in a session of its own and with a clean environment. It takes the state
//! folder's lock itself, so of several that are started at once one stays.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};

use protocol::state::{CARETAKER_LOG, Caretaker, LOCK_FILE, NO_CARETAKER_FILE};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::clock;
use crate::life::{WordLeft, may_wake};

/// Starts a caretaker, unless one is not wanted or not needed. Returns its process's number.
pub(crate) fn wake(seat: &Caretaker, environment: &BTreeMap<String, String>) -> io::Result<Option<i32>> {
    let (word, taken) = (read_word(&seat.state)?, is_taken(&seat.state)?);
    if !may_wake(&word, taken, &clock::boot_id(), clock::to_ms(clock::boot_now())) {
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

fn read_word(state: &Path) -> io::Result<WordLeft> {
    match fs::read(state.join(NO_CARETAKER_FILE)) {
        Ok(json) => Ok(serde_json::from_slice(&json).map_or(WordLeft::Unreadable, WordLeft::Word)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(WordLeft::Nothing),
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
    use protocol::state::NoCaretaker;

    use super::*;

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
