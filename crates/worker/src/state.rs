//! The state folder: who this worker is, and where its attempts lie.
//!
//! ```text
//! lock          held for as long as a worker uses the folder
//! worker.json   identity and what was last known of the server (StateFile)
//! credential    what the server knows this worker by, readable by its owner only
//! attempts/ID/  one folder per attempt that the server has not taken over whole
//! kept/ID/      attempts that it has, for a while
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::attempt::Ticket;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::WorkerError;
use crate::machine;

/// The version of `worker.json` that this build reads and writes.
const STATE_FORMAT: u32 = 1;
const LOCK_FILE: &str = "lock";
const STATE_FILE: &str = "worker.json";
const CREDENTIAL_FILE: &str = "credential";
const ATTEMPTS_FOLDER: &str = "attempts";
const KEPT_FOLDER: &str = "kept";

/// An open state folder. No other worker has it.
#[derive(Debug)]
pub(crate) struct State {
    root: PathBuf,
    file: StateFile,
    _lock: File,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StateFile {
    format: u32,
    /// Random, made with the folder.
    state_id: Uuid,
    /// The machine that the folder was made on.
    machine: String,
    /// The boot in which the attempts of this folder were last looked at.
    #[serde(default)]
    boot_id: String,
    #[serde(default)]
    worker: Option<Uuid>,
    #[serde(default)]
    last_epoch: u64,
}

impl State {
    /// Opens the folder, and makes it if it is not there.
    pub(crate) fn open(root: &Path) -> Result<Self, WorkerError> {
        let failed = |what| move |source| WorkerError::State { path: root.to_owned(), what, source };
        make_folder(root).map_err(failed("create it"))?;
        let root = root.canonicalize().map_err(failed("find it"))?;
        let lock = lock(&root)?;
        for folder in [ATTEMPTS_FOLDER, KEPT_FOLDER] {
            make_folder(&root.join(folder)).map_err(failed("create a folder in it"))?;
        }
        let path = root.join(STATE_FILE);
        match fs::read(&path) {
            Ok(json) => Ok(State { file: parse(&path, &json)?, root, _lock: lock }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let state = State { file: StateFile::new(), root, _lock: lock };
                state.save()?;
                Ok(state)
            }
            Err(error) => Err(failed("read worker.json")(error)),
        }
    }

    pub(crate) fn state_id(&self) -> Uuid {
        self.file.state_id
    }

    pub(crate) fn machine(&self) -> &str {
        &self.file.machine
    }

    pub(crate) fn last_epoch(&self) -> u64 {
        self.file.last_epoch
    }

    /// Whether the machine has been restarted since the attempts were last looked at.
    pub(crate) fn rebooted(&self) -> bool {
        !self.file.boot_id.is_empty() && self.file.boot_id != machine::boot_id()
    }

    /// To be called when every attempt of an earlier boot has its verdict in its folder.
    pub(crate) fn set_boot(&mut self) -> Result<(), WorkerError> {
        let boot_id = machine::boot_id();
        if self.file.boot_id == boot_id {
            return Ok(());
        }
        self.file.boot_id = boot_id;
        self.save()
    }

    pub(crate) fn set_welcome(&mut self, worker: Uuid, epoch: u64) -> Result<(), WorkerError> {
        self.file.worker = Some(worker);
        self.file.last_epoch = epoch;
        self.save()
    }

    pub(crate) fn credential_path(&self) -> PathBuf {
        self.root.join(CREDENTIAL_FILE)
    }

    pub(crate) fn credential(&self) -> Result<Option<String>, WorkerError> {
        match fs::read_to_string(self.credential_path()) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(WorkerError::State { path: self.root.clone(), what: "read the credential", source }),
        }
    }

    pub(crate) fn set_credential(&mut self, worker: Uuid, credential: &str) -> Result<(), WorkerError> {
        write_whole(&self.root, CREDENTIAL_FILE, credential.as_bytes())?;
        self.file.worker = Some(worker);
        self.file.last_epoch = 0;
        self.save()
    }

    pub(crate) fn places(&self) -> Places {
        Places { attempts: self.root.join(ATTEMPTS_FOLDER), kept: self.root.join(KEPT_FOLDER) }
    }

    fn save(&self) -> Result<(), WorkerError> {
        let json = serde_json::to_vec_pretty(&self.file).expect("the state is plain data and always has a JSON form");
        write_whole(&self.root, STATE_FILE, &json)
    }
}

/// Where attempts lie.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) attempts: PathBuf,
    pub(crate) kept: PathBuf,
}

impl Places {
    pub(crate) fn attempt(&self, ticket: Ticket) -> PathBuf {
        self.attempts.join(ticket.attempt.to_string())
    }

    pub(crate) fn kept_attempt(&self, ticket: Ticket) -> PathBuf {
        self.kept.join(ticket.attempt.to_string())
    }
}

impl StateFile {
    fn new() -> Self {
        StateFile {
            format: STATE_FORMAT,
            state_id: machine::random_id(),
            machine: machine::machine_id().unwrap_or_else(|| machine::random_id().to_string()),
            boot_id: String::new(),
            worker: None,
            last_epoch: 0,
        }
    }
}

fn parse(path: &Path, json: &[u8]) -> Result<StateFile, WorkerError> {
    let bad = |why: String| WorkerError::BadState { path: path.to_owned(), why };
    let file: StateFile = serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
    if file.format == STATE_FORMAT {
        Ok(file)
    } else {
        Err(bad(format!("it has format {}, this version knows {STATE_FORMAT}", file.format)))
    }
}

/// How often, and how long apart, the lock is tried before another worker is believed to be there.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

fn lock(root: &Path) -> Result<File, WorkerError> {
    let failed = |source| WorkerError::State { path: root.to_owned(), what: "lock it", source };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(root.join(LOCK_FILE)).map_err(failed)?;
    // A worker that ended a moment ago may leave the lock with a process that it was just starting.
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    Err(WorkerError::StateInUse { path: root.to_owned() })
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Either the old content or the new, whatever happens meanwhile.
fn write_whole(root: &Path, name: &str, content: &[u8]) -> Result<(), WorkerError> {
    let write = || {
        let temporary = root.join(format!("{name}.new"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, root.join(name))?;
        File::open(root)?.sync_all()
    };
    write().map_err(|source| WorkerError::State { path: root.join(name), what: "write it", source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn identity_and_credential_survive_and_the_credential_is_private() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let worker = machine::random_id();
        let mut state = State::open(folder.path()).expect("a fresh folder opens");
        assert_eq!(state.credential().expect("readable"), None);
        assert!(!state.rebooted());
        state.set_credential(worker, "secret").expect("writable");
        state.set_welcome(worker, 7).expect("writable");
        let state_id = state.state_id();
        let mode = fs::metadata(state.credential_path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(state);
        let state = State::open(folder.path()).expect("it opens again");
        assert_eq!((state.state_id(), state.last_epoch()), (state_id, 7));
        assert_eq!(state.credential().expect("readable").as_deref(), Some("secret"));
    }

    #[test]
    fn a_second_worker_is_turned_away() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let _first = State::open(folder.path()).expect("a fresh folder opens");
        let second = State::open(folder.path()).expect_err("the lock is held");
        assert!(second.to_string().starts_with("another worker uses the state folder"), "{second}");
    }

    #[test]
    fn a_damaged_or_foreign_state_is_refused_with_its_place() {
        for (content, expected) in [
            ("{", "EOF"),
            (r#"{"format":9,"state_id":"00000000-0000-0000-0000-000000000000","machine":""}"#, "format 9"),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            fs::write(folder.path().join(STATE_FILE), content).expect("writable");
            let error = State::open(folder.path()).expect_err("it cannot be understood").to_string();
            assert!(error.contains("worker.json") && error.contains(expected), "{error}");
        }
    }
}
