//! An attempt's folder on a worker's disk, and what worker and runner say to each other on the control socket.
//!
//! Only names, layouts and messages; the files are handled by the `runner` crate. A runner may be older or newer
//! than the worker that talks to it: unknown messages and fields are ignored, versions are checked.
//!
//! ```text
//! spec.json     what to execute (FolderSpec), written by the worker before it starts the runner
//! record        tally, ownership and exit record, preallocated; the runner holds an exclusive flock on it for life
//! claim         a symlink to `intent` (the runner is about to exec) or `void` (never started, never will)
//! sock          the control socket; made when the runner has lost the worker that started it
//! log/000001.seg, …   blocks as in [`crate::log`], from the first line on; the oldest are deleted at the spool limit
//! script        the text of a `run:` step
//! cleanup       the text of its `cleanup:`
//! work/         where the step's process starts
//! output        what the step wrote to $BOWLINE_OUTPUT
//! artifacts.json   which set of artifacts a server has of it; written by the worker
//! runner.log    what the runner has to complain about; only there if it had to
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::attempt::{AttemptSpec, End, EndResult, StopMode, StopReason};
use crate::secret::SecretValues;
use crate::state::Caretaker;

/// The version of the folder's layout and of the control messages that this build speaks.
pub const FOLDER_FORMAT: u32 = 2;
/// The oldest that it still adopts: a runner without leases, renewals and signs of life.
pub const FOLDER_FORMAT_OLDEST: u32 = 1;

pub const SPEC_FILE: &str = "spec.json";
pub const RECORD_FILE: &str = "record";
pub const CLAIM_LINK: &str = "claim";
pub const SOCKET: &str = "sock";
pub const LOG_FOLDER: &str = "log";
pub const SCRIPT_FILE: &str = "script";
pub const CLEANUP_FILE: &str = "cleanup";
pub const WORK_FOLDER: &str = "work";
pub const OUTPUT_FILE: &str = "output";
pub const NOTES_FILE: &str = "runner.log";
/// Which set of artifacts of this attempt a server has; written before that is reported.
pub const ARTIFACTS_FILE: &str = "artifacts.json";

/// A control message is one line of JSON; the longest is an [`End`] with its output.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// All outputs of a step together, as JSON: they travel in one message and live in one row.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Room for the tally and for any [`End`] without outputs, taken on disk before the step starts.
pub const RECORD_BYTES: usize = 16 * 1024;
/// The exit record follows the tally in the same file.
pub const EXIT_OFFSET: usize = 64;
/// Free text in an [`End`]. Even if each byte is escaped (six for one), two such texts fit [`RECORD_BYTES`].
const TEXT_BYTES_MAX: usize = 1024;
/// The same for the cleanup's, which fits beside the two.
const CLEANUP_TEXT_BYTES_MAX: usize = 512;

/// The name of a log segment; numbers start at 1.
pub fn segment_name(number: u64) -> String {
    format!("{number:06}.seg")
}

/// The number of a log segment, or `None` if the file is something else.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let canonical = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if canonical { digits.parse().ok().filter(|number| *number > 0) } else { None }
}

/// The content of `spec.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderSpec {
    pub format: u32,
    pub attempt: AttemptSpec,
    pub local: Local,
}

/// What the worker decides for its own machine; the server never sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// The log on disk is kept below both limits by deleting the oldest segment.
    pub log_lines_max: u64,
    pub log_bytes_max: u64,
    /// A cgroup v2 folder in which the step gets a cgroup of its own; none where that is not possible.
    #[serde(default)]
    pub cgroup_parent: Option<PathBuf>,
    /// PATH, HOME, LANG and TZ of the step, before its own `env`.
    #[serde(default)]
    pub base_env: BTreeMap<String, String>,
    /// What the worker knew of the server's rules when it made the folder.
    #[serde(default)]
    pub rules: RunnerRules,
    /// Who looks after the folder when its worker stays away; none: nobody.
    #[serde(default)]
    pub caretaker: Option<Caretaker>,
    /// Its worker will not come back: the step ends with it.
    #[serde(default)]
    pub ends_with_worker: bool,
}

/// The server's rules that concern a runner. Its worker tells it when they change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerRules {
    /// How often the runner shows that it lives; 0: never.
    #[serde(default)]
    pub beat_ms: u64,
    /// How long a worker may stay away before the runner starts a caretaker; none: as long as it likes.
    #[serde(default)]
    pub caretaker_after_ms: Option<u64>,
}

impl FolderSpec {
    pub fn new(attempt: AttemptSpec, local: Local) -> Self {
        FolderSpec { format: FOLDER_FORMAT, attempt, local }
    }

    /// The step's own cgroup: the same for the runner that makes it and a worker that must empty it later.
    pub fn cgroup(&self) -> Option<PathBuf> {
        let parent = self.local.cgroup_parent.as_ref()?;
        Some(parent.join(self.attempt.ticket.attempt.to_string()))
    }
}

/// Who was first to decide whether the attempt starts. Whoever comes second obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The runner went on to exec: the step may have run.
    Intent,
    /// The step never ran and never will.
    Void,
}

impl Claim {
    /// The target of the claim link.
    pub fn word(self) -> &'static str {
        match self {
            Claim::Intent => "intent",
            Claim::Void => "void",
        }
    }

    /// Anything unknown counts as `intent`: it is the side on which nothing is run twice.
    pub fn from_word(word: &[u8]) -> Self {
        if word == Claim::Void.word().as_bytes() { Claim::Void } else { Claim::Intent }
    }
}

/// What the runner keeps up to date at the start of the record file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The step's process, which leads its group; 0 before it was started.
    pub pid: u32,
    /// In clock ticks since boot, as in `/proc/PID/stat`: tells the process from a later one with its number.
    pub start_time: u64,
    /// Lines deleted with the oldest segments because of the spool limit.
    pub dropped_lines: u64,
    /// Lines that could not be written, as on a full disk. Their numbers are missing from the log.
    pub lost_lines: u64,
}

const TALLY_MAGIC: [u8; 4] = *b"BWT1";
const TALLY_BYTES: usize = 40;

impl Tally {
    pub fn encode(&self) -> [u8; TALLY_BYTES] {
        let mut bytes = [0; TALLY_BYTES];
        bytes[0..4].copy_from_slice(&TALLY_MAGIC);
        bytes[4..8].copy_from_slice(&self.pid.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.start_time.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.dropped_lines.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lost_lines.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` if it was not written yet, or is being written at this moment.
    pub fn decode(record: &[u8]) -> Option<Self> {
        let bytes = record.get(..TALLY_BYTES)?;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes[..4] != TALLY_MAGIC || crc32fast::hash(&bytes[..32]) != word(32) {
            return None;
        }
        Some(Tally { pid: word(4), start_time: number(8), dropped_lines: number(16), lost_lines: number(24) })
    }
}

/// Between the tally and the exit record: whose step it is, as far as this machine knows.
pub const OWNERSHIP_OFFSET: usize = TALLY_BYTES;
const OWNERSHIP_MAGIC: [u8; 4] = *b"BWO1";
const OWNERSHIP_BYTES: usize = EXIT_OFFSET - OWNERSHIP_OFFSET;

/// By the last answer of the server. Both times are milliseconds on the clock that runs on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// When the question was asked that the server answered with yes.
    pub confirmed_ms: u64,
    /// From here on somebody else may own the step.
    pub until_ms: u64,
}

impl Ownership {
    pub fn encode(&self) -> [u8; OWNERSHIP_BYTES] {
        let mut bytes = [0; OWNERSHIP_BYTES];
        bytes[0..4].copy_from_slice(&OWNERSHIP_MAGIC);
        bytes[8..16].copy_from_slice(&self.confirmed_ms.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.until_ms.to_le_bytes());
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` if it was not written yet, or is being written at this moment.
    pub fn decode(record: &[u8]) -> Option<Self> {
        let bytes = record.get(OWNERSHIP_OFFSET..EXIT_OFFSET)?;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let crc = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let good = bytes[..4] == OWNERSHIP_MAGIC && crc32fast::hash(&bytes[8..]) == crc;
        good.then(|| Ownership { confirmed_ms: number(8), until_ms: number(16) })
    }
}

#[derive(Debug, Error)]
pub enum ExitError {
    /// The runner or the machine died while it was written: that the attempt ended is known, how is not.
    #[error("the exit record is torn")]
    Torn,
    #[error("the exit record cannot be understood by this version: {0}")]
    Unknown(#[source] serde_json::Error),
}

const EXIT_MAGIC: [u8; 4] = *b"BWX1";
const EXIT_HEADER_BYTES: usize = 12;

/// The exit record as it is written at [`EXIT_OFFSET`]. `end` must have gone through [`bound_end`].
pub fn encode_exit(end: &End) -> Vec<u8> {
    let payload = serde_json::to_vec(end).expect("an end has only string keys");
    let mut bytes = Vec::with_capacity(EXIT_HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&EXIT_MAGIC);
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    bytes.extend_from_slice(&payload);
    bytes
}

/// Reads the exit record from the whole record file. `None`: not written yet.
pub fn decode_exit(record: &[u8]) -> Result<Option<End>, ExitError> {
    let bytes = record.get(EXIT_OFFSET..).unwrap_or_default();
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let (header, rest) = bytes.split_at_checked(EXIT_HEADER_BYTES).ok_or(ExitError::Torn)?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let payload = rest.get(..word(4) as usize).ok_or(ExitError::Torn)?;
    // An empty payload is the only one whose checksum is zero by right, and zeros are what a torn header leaves.
    if header[..4] != EXIT_MAGIC || payload.is_empty() || crc32fast::hash(payload) != word(8) {
        return Err(ExitError::Torn);
    }
    serde_json::from_slice(payload).map(Some).map_err(ExitError::Unknown)
}

/// Makes an end fit its record and its message: texts are cut, outputs that are too large become an error.
pub fn bound_end(mut end: End) -> End {
    let output_bytes = serde_json::to_vec(&end.output).map_or(0, |json| json.len());
    if output_bytes > OUTPUT_BYTES_MAX {
        end =
            without_output(end, &format!("the outputs are {output_bytes} bytes as JSON, more than {OUTPUT_BYTES_MAX}"));
    }
    if let Some(error) = &mut end.output_error {
        cut_text(error, TEXT_BYTES_MAX);
    }
    if let EndResult::SpawnFailed { message } = &mut end.result {
        cut_text(message, TEXT_BYTES_MAX);
    }
    if let Some(EndResult::SpawnFailed { message }) = end.cleanup.as_mut().map(|cleanup| &mut cleanup.result) {
        cut_text(message, CLEANUP_TEXT_BYTES_MAX);
    }
    end
}

/// The same end without its outputs: it always fits the space that was taken in advance.
pub fn without_output(mut end: End, why: &str) -> End {
    end.output.clear();
    end.output_error = Some(why.to_owned());
    end
}

fn cut_text(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
}

/// From the worker to the runner, one JSON object per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToRunner {
    /// The start is committed: claim and exec. A lease is counted from when the server was asked for it, on the clock
    /// that runs on while the machine sleeps.
    Go {
        #[serde(default)]
        asked_at_ms: Option<u64>,
        /// On the same clock: after that the runner does not start, and says once more that it is ready.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<u64>,
        /// What the step needs could not be had: it ends as one that could not be started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cannot: Option<String>,
    },
    /// What the step's spec names as secrets, before `go`. Only in memory: they are never written down.
    Secrets {
        values: SecretValues,
    },
    Stop {
        mode: StopMode,
        reason: StopReason,
    },
    Status,
    /// The server has the log up to this line: it no longer counts towards the limit of lines.
    Acked {
        seq: u64,
    },
    /// The server granted the renewal with this number.
    Renewed {
        n: u64,
    },
    Rules {
        rules: RunnerRules,
    },
    /// The end has arrived; the runner may leave.
    Bye,
    /// From a newer worker; ignored.
    #[serde(other)]
    Unknown,
}

/// From the runner to the worker, one JSON object per line.
///
/// A worker that connects by the socket is told at once where things stand: `ready`, or `started` and `log`, or `ended`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromRunner {
    /// All is prepared; the runner waits for `go`.
    Ready {
        pid: u32,
        format: u32,
    },
    Started {
        pid: u32,
        start_time: u64,
    },
    /// A hint that the log grew; several are merged into one.
    Log {
        /// The first line that is still there; 0 if there is none, or from an older runner.
        #[serde(default)]
        first_seq: u64,
        last_seq: u64,
        bytes: u64,
    },
    /// The exit record is on disk.
    Ended {
        end: End,
    },
    /// The step did not start and never will.
    Refused {
        why: String,
    },
    Status {
        status: Status,
    },
    /// May the step go on? Numbers are never used twice.
    Renew {
        n: u64,
        /// On the clock that runs on while the machine sleeps.
        asked_at_ms: u64,
    },
    /// The runner lives.
    Beat {
        pid: u32,
    },
    /// From a newer runner; ignored.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub phase: RunnerPhase,
    pub runner_pid: u32,
    pub pid: u32,
    pub start_time: u64,
    pub last_seq: u64,
    /// Bytes of log written so far, deleted segments included.
    pub log_bytes: u64,
    pub dropped_lines: u64,
    pub lost_lines: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerPhase {
    Waiting,
    Running,
    /// A stop order or a timeout is being carried out.
    Stopping,
    Ended,
}
