//! The state folder: who this worker is, and where its attempts lie.
//!
//! ```text
//! lock          held for as long as a worker uses the folder
//! hand-over     where a caretaker listens for the worker that wants the folder
//! no-caretaker  word that none is wanted
//! worker.json   identity and what was last known of the server (StateFile)
//! credential    what the server knows this worker by, readable by its owner only
//! attempts/ID/  one folder per attempt that the server has not taken over whole
//! kept/ID/      attempts that it has, for a while
//! aside/ID/     attempts that came with the folder when it was copied; nobody here can say what became of them
//! ```

mod aside;
mod entry;
mod handover;
mod origin;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use protocol::attempt::Ticket;
use protocol::state::{LOCK_FILE, NO_CARETAKER_FILE};
use runner::clock;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::agent::Word;
use crate::error::WorkerError;
use crate::machine;

/// The version of `worker.json` that this build reads and writes.
const STATE_FORMAT: u32 = 1;
const STATE_FILE: &str = "worker.json";
const CREDENTIAL_FILE: &str = "credential";
const ATTEMPTS_FOLDER: &str = "attempts";
const KEPT_FOLDER: &str = "kept";
const ASIDE_FOLDER: &str = "aside";

pub use entry::{Entry, Role};
pub(crate) use handover::listen as listen_for_handover;
pub use origin::{Home, Mark, Place, is_rebooted, is_set_aside};

/// An open state folder. No other worker has it.
#[derive(Debug)]
pub(crate) struct State {
    root: PathBuf,
    file: StateFile,
    _lock: File,
}

/// What a folder was before it was opened.
#[derive(Debug, Clone, Copy)]
struct Past {
    /// It says whose it is.
    named: bool,
    /// It has had room for attempts: a worker has been here.
    used: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StateFile {
    format: u32,
    /// Random, made with the folder.
    state_id: Uuid,
    /// The machine that the folder was made on.
    machine: String,
    /// How this folder is told from a copy of it.
    #[serde(default)]
    mark: Option<Mark>,
    /// It came from elsewhere once, as far as anybody could tell: what it does not show may live there.
    #[serde(default)]
    moved: bool,
    /// The boot in which the attempts of this folder were last looked at.
    #[serde(default)]
    boot_id: String,
    #[serde(default)]
    worker: Option<Uuid>,
    #[serde(default)]
    last_epoch: u64,
}

impl State {
    /// Opens the folder, and makes it if it is not there. A caretaker that has it is asked to hand it over, unless it is
    /// `role` itself.
    pub(crate) fn open(root: &Path, role: Role) -> Result<Self, WorkerError> {
        let failed = |what| move |source| WorkerError::State { path: root.to_owned(), what, source };
        make_folder(root).map_err(failed("create it"))?;
        let root = root.canonicalize().map_err(failed("find it"))?;
        let lock = lock(&root, role)?;
        let used = root.join(ATTEMPTS_FOLDER).exists();
        for folder in [ATTEMPTS_FOLDER, KEPT_FOLDER] {
            make_folder(&root.join(folder)).map_err(failed("create a folder in it"))?;
        }
        let path = root.join(STATE_FILE);
        let file = match fs::read(&path) {
            Ok(json) => Some(parse(&path, &json)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read worker.json")(error)),
        };
        let mark = Mark::of(&root).map_err(failed("look at it"))?;
        let named = file.is_some();
        let mut state = State { file: file.unwrap_or_else(StateFile::new), root, _lock: lock };
        state.settle(Past { named, used }, mark)?;
        if role.takes_word_back() {
            state.take_word_back();
        }
        Ok(state)
    }

    /// From now on the folder is at home here. If it came from elsewhere, its attempts may live there.
    fn settle(&mut self, past: Past, mark: Mark) -> Result<(), WorkerError> {
        let machine = machine::machine_id();
        let place = Place { machine: Some(&self.file.machine), mark: self.file.mark };
        match Home::judge(Some(place).filter(|_| past.named), Place { machine: machine.as_deref(), mark: Some(mark) }) {
            Home::AtHome => return Ok(()),
            Home::Unmarked => {}
            Home::Moved => {
                tracing::warn!(
                    state = %self.root.display(),
                    "this state folder may be a copy of another one; what may run under that one is left alone"
                );
                self.set_unfinished_aside()?;
                self.file.moved = true;
            }
            Home::Nameless => {
                self.set_unfinished_aside()?;
                // Whose credential it is may have attempts elsewhere.
                self.file.moved = past.used && self.credential()?.is_some();
            }
            Home::Copy => return Err(WorkerError::CopiedState { path: self.root.clone() }),
        }
        self.file.machine = machine.unwrap_or_else(|| self.file.machine.clone());
        self.file.mark = Some(mark);
        self.save()
    }

    fn set_unfinished_aside(&self) -> Result<(), WorkerError> {
        let failed = |source| WorkerError::State { path: self.root.clone(), what: "set attempts aside", source };
        aside::set_unfinished_aside(&self.places()).map_err(failed)
    }

    /// Whether attempts may live that this folder does not show. Also when none came with it: those that its original has
    /// got since are unknown here.
    pub(crate) fn may_have_original(&self) -> bool {
        self.file.moved || fs::read_dir(self.places().aside).is_ok_and(|mut entries| entries.next().is_some())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// For the runners that live on in this folder.
    pub(crate) fn leave_word(&self, word: Word) {
        let Some(word) = word.written(machine::boot_id(), clock::boot_now()) else { return };
        let json = serde_json::to_vec(&word).expect("it is plain data and always has a JSON form");
        if let Err(error) = write_whole(&self.root, NO_CARETAKER_FILE, &json) {
            tracing::warn!(%error, "that no caretaker is wanted cannot be noted");
        }
    }

    fn take_word_back(&self) {
        match fs::remove_file(self.root.join(NO_CARETAKER_FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, "the word that no caretaker is wanted cannot be taken back");
            }
            _ => {}
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
        is_rebooted(&self.file.boot_id, &machine::boot_id())
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
        let place = |name| self.root.join(name);
        Places { attempts: place(ATTEMPTS_FOLDER), kept: place(KEPT_FOLDER), aside: place(ASIDE_FOLDER) }
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
    pub(crate) aside: PathBuf,
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
            mark: None,
            moved: false,
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

fn lock(root: &Path, role: Role) -> Result<File, WorkerError> {
    let failed = |source| WorkerError::State { path: root.to_owned(), what: "lock it", source };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(root.join(LOCK_FILE)).map_err(failed)?;
    let mut entry = Entry::new(role);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let Some(pause) = entry.refused(|| asked_to_hand_over(root)) else {
            return Err(WorkerError::StateInUse { path: root.to_owned() });
        };
        std::thread::sleep(pause);
    }
}

fn asked_to_hand_over(root: &Path) -> bool {
    let heard = handover::ask(root).is_ok();
    if heard {
        tracing::info!("a caretaker has the state folder and was asked to hand it over");
    }
    heard
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
        let mut state = State::open(folder.path(), Role::Worker).expect("a fresh folder opens");
        assert_eq!(state.credential().expect("readable"), None);
        assert!(!state.rebooted());
        state.set_credential(worker, "secret").expect("writable");
        state.set_welcome(worker, 7).expect("writable");
        let state_id = state.state_id();
        let mode = fs::metadata(state.credential_path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(state);
        let state = State::open(folder.path(), Role::Worker).expect("it opens again");
        assert_eq!((state.state_id(), state.last_epoch()), (state_id, 7));
        assert_eq!(state.credential().expect("readable").as_deref(), Some("secret"));
    }

    #[test]
    fn a_second_worker_is_turned_away() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let _first = State::open(folder.path(), Role::Worker).expect("a fresh folder opens");
        let second = State::open(folder.path(), Role::Worker).expect_err("the lock is held");
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
            let error = State::open(folder.path(), Role::Worker).expect_err("it cannot be understood").to_string();
            assert!(error.contains("worker.json") && error.contains(expected), "{error}");
        }
    }

    /// A state folder with one attempt that runs and one that has ended, as far as their records say.
    fn with_attempts(root: &Path) -> (PathBuf, PathBuf) {
        let state = State::open(root, Role::Worker).expect("a fresh folder opens");
        let attempt = |id: u128| {
            let folder = state.places().attempts.join(Uuid::from_u128(id).to_string());
            fs::create_dir(&folder).expect("writable");
            folder
        };
        let (running, ended) = (attempt(1), attempt(2));
        let end = protocol::attempt::End {
            result: protocol::attempt::EndResult::Exited { code: 0 },
            stopped: None,
            log_last_seq: 0,
            output: Default::default(),
            output_error: None,
            duration_ms: 1,
            cpu_ms: 0,
            memory_bytes_max: 0,
            cleanup: None,
            artifacts: None,
        };
        let mut record = vec![0; protocol::folder::EXIT_OFFSET];
        record.extend(protocol::folder::encode_exit(&end));
        fs::write(ended.join(protocol::folder::RECORD_FILE), record).expect("writable");
        (running, ended)
    }

    fn copy(from: &Path, to: &Path) {
        let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
        assert!(copied.success());
    }

    /// As if only the number of the folder had changed since it was marked.
    fn with_other_inode(folder: &Path) {
        let here = Mark::of(folder).expect("readable");
        let mut file: StateFile =
            serde_json::from_slice(&fs::read(folder.join(STATE_FILE)).expect("there")).expect("ours");
        let mut json = serde_json::to_value(here).expect("plain data");
        json["inode"] = 1.into();
        file.mark = Some(serde_json::from_value(json).expect("plain data"));
        fs::write(folder.join(STATE_FILE), serde_json::to_vec(&file).expect("plain data")).expect("writable");
    }

    #[test]
    fn a_copy_lets_go_of_what_may_live_elsewhere_and_the_original_does_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (original, copied) = (folder.path().join("original"), folder.path().join("copy"));
        let (running, ended) = with_attempts(&original);
        copy(&original, &copied);
        let state = State::open(&original, Role::Worker).expect("it opens");
        assert!(running.exists() && !state.may_have_original(), "at home");
        for _ in 0..2 {
            let refused = State::open(&copied, Role::Worker).expect_err("two must not share an identity");
            assert!(matches!(refused, WorkerError::CopiedState { .. }), "{refused}");
        }
        // Its file system may have given it another number: nothing is certain then.
        with_other_inode(&copied);
        for _ in 0..2 {
            let state = State::open(&copied, Role::Worker).expect("it opens");
            let in_copy = |path: &Path| state.places().attempts.join(path.file_name().expect("named"));
            assert!(!in_copy(&running).exists(), "it may live under the original");
            assert!(in_copy(&ended).exists(), "a result is one everywhere");
            assert!(state.may_have_original(), "also at the next start");
        }
    }

    #[test]
    fn a_copy_without_attempts_proves_nothing_by_its_silence() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        drop(State::open(folder.path(), Role::Worker).expect("a fresh folder opens"));
        with_other_inode(folder.path());
        for _ in 0..2 {
            let state = State::open(folder.path(), Role::Worker).expect("it opens");
            assert!(state.may_have_original(), "also at the next start");
        }
    }

    #[test]
    fn what_lies_in_a_folder_that_lost_its_name_is_not_touched_unless_somebody_lives_in_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (running, ended) = with_attempts(folder.path());
        let forget = || fs::remove_file(folder.path().join(STATE_FILE)).expect("it is there");
        forget();
        let mut resident =
            std::process::Command::new("sleep").arg("100").current_dir(&running).spawn().expect("it runs");
        drop(State::open(folder.path(), Role::Worker).expect("it opens"));
        assert!(running.exists() && ended.exists(), "it is at home here");
        resident.kill().expect("it lives");
        resident.wait().expect("it is dead");
        forget();
        let state = State::open(folder.path(), Role::Worker).expect("it opens");
        assert!(!running.exists() && ended.exists() && state.may_have_original(), "it may be another one's");
    }

    #[test]
    fn a_credential_without_a_name_proves_nothing_by_its_silence() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut state = State::open(folder.path(), Role::Worker).expect("a fresh folder opens");
        assert!(!state.may_have_original());
        state.set_credential(machine::random_id(), "secret").expect("writable");
        drop(state);
        fs::remove_file(folder.path().join(STATE_FILE)).expect("it is there");
        assert!(State::open(folder.path(), Role::Worker).expect("it opens").may_have_original());
    }

    #[test]
    fn a_folder_that_was_only_renamed_is_at_home() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (before, after) = (folder.path().join("before"), folder.path().join("after"));
        with_attempts(&before);
        fs::rename(&before, &after).expect("same file system");
        assert!(!State::open(&after, Role::Worker).expect("it opens").may_have_original());
    }

    #[test]
    fn a_folder_of_another_machine_is_no_reboot() {
        let Some(machine) = machine::machine_id() else { return };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (running, _) = with_attempts(folder.path());
        let mut state = State::open(folder.path(), Role::Worker).expect("it opens");
        state.file.machine = "another".to_owned();
        state.file.boot_id = "of the other".to_owned();
        state.save().expect("writable");
        drop(state);
        let state = State::open(folder.path(), Role::Worker).expect("it opens");
        assert_eq!(state.machine(), machine, "where it is now");
        assert!(!running.exists() && state.may_have_original());
    }

    #[test]
    fn a_worker_takes_back_the_word_that_a_caretaker_leaves_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let word = folder.path().join(NO_CARETAKER_FILE);
        State::open(folder.path(), Role::Worker).expect("it opens").leave_word(Word::NoneUntilAWorkerComes);
        drop(State::open(folder.path(), Role::Caretaker).expect("it opens"));
        assert!(word.exists());
        drop(State::open(folder.path(), Role::Worker).expect("it opens"));
        assert!(!word.exists());
    }
}
