//! The messages between a worker and a server, over one WebSocket.
//!
//! A text frame is a JSON array of messages, in order. A binary frame carries log blocks: four bytes (little
//! endian) with the length of a JSON [`LogHeader`], the header, then blocks as [`crate::log`] lays them out.
//! Control goes before logs: a sender never lets a log frame hold up a text frame that is ready.
//!
//! Unknown fields are ignored and unknown messages are skipped, so that either side may be the older one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::attempt::{AttemptSpec, End, StopMode, StopReason, Ticket};
use crate::secret::SecretValues;

/// The version that this build speaks. A server answers another major version with `unsupported_protocol`.
pub const PROTOCOL_VERSION: u32 = 1;

/// A frame larger than this is a mistake or an attack.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Log bytes that a worker may have sent without an acknowledgement, per link.
pub const LOG_WINDOW_BYTES: usize = 512 * 1024;

/// The path of the link's WebSocket on the server.
pub const LINK_PATH: &str = "/api/worker/link";

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WorkerMessage {
    Hello(Hello),
    Heartbeat(Heartbeat),
    /// May I start? Repeated until answered; idempotent by ticket.
    Accept {
        ticket: Ticket,
    },
    /// Not now. Costs the worker its credits until its next heartbeat.
    Refuse {
        ticket: Ticket,
        reason: RefuseReason,
        detail: String,
    },
    /// Evidence only: the child's process.
    Started {
        ticket: Ticket,
        pid: u32,
    },
    /// Repeated until a `forget` comes.
    Ended {
        ticket: Ticket,
        end: End,
    },
    /// May steps that stop when they are cut off go on? Each runner numbers its own questions.
    Renew {
        renewals: Vec<Renewal>,
    },
    /// The attempt is certainly over and left no result.
    Lost {
        ticket: Ticket,
        loss: Loss,
        detail: String,
    },
    Ping {
        n: u64,
    },
    Pong {
        n: u64,
    },
    #[serde(other)]
    Unknown,
}

/// What a server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    Welcome(Welcome),
    /// `number` counts offers, goes and forgets on this link.
    Offer {
        number: u64,
        spec: Box<AttemptSpec>,
    },
    /// What the step's spec names as secrets, as they are now; right before every `go` of such a step.
    Secrets {
        ticket: Ticket,
        values: SecretValues,
    },
    Go {
        number: u64,
        ticket: Ticket,
    },
    /// The offer no longer stands: nothing was started, let it go.
    Withdraw {
        ticket: Ticket,
    },
    Stop {
        ticket: Ticket,
        mode: StopMode,
        reason: StopReason,
        grace_ms: u64,
    },
    /// Result and log are on record: the worker may let go of it.
    Forget {
        number: u64,
        ticket: Ticket,
    },
    /// The same renewals, as far as they are granted. A lease is counted from when its runner asked.
    Renewed {
        renewals: Vec<Renewal>,
    },
    /// Lines up to `seq` are stored.
    LogAck {
        ticket: Ticket,
        seq: u64,
        /// A frame found no room, and is to be sent again a little later, also if it held nothing but the log's end.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dropped: bool,
    },
    /// What was said about this attempt changed nothing; `about` names the message.
    StaleDispatch {
        ticket: Ticket,
        about: String,
    },
    Ping {
        n: u64,
    },
    Pong {
        n: u64,
    },
    /// The last message before the server closes the link.
    Refused {
        code: RefusedCode,
        message: String,
    },
    #[serde(other)]
    Unknown,
}

/// The worker's first message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    pub version: String,
    pub platform: String,
    pub hostname: String,
    pub pid: u32,
    pub name: String,
    pub tags: Vec<String>,
    pub slots: u32,
    /// Random, new with every start of the worker process.
    pub session: Uuid,
    pub boot_id: String,
    /// The state folder's own random id.
    pub state_id: Uuid,
    /// The fingerprint of the machine that this worker runs on now.
    pub machine: String,
    pub started_at_ms: i64,
    /// The epoch of the last welcome that this state folder saw; 0 if none.
    #[serde(default)]
    pub last_epoch: u64,
    #[serde(default)]
    pub ephemeral: bool,
    #[serde(default)]
    pub no_reconnect: bool,
    #[serde(default)]
    pub caretaker: bool,
    /// The highest number processed on the last link when `held` was taken.
    #[serde(default)]
    pub processed: u64,
    /// Every folder of the state could be read: what is not in `held` is not there.
    #[serde(default)]
    pub scan_complete: bool,
    /// How long this worker process has been without a link, by its own clock; 0 on its first.
    #[serde(default)]
    pub offline_ms: u64,
    /// Every attempt in the state folder.
    #[serde(default)]
    pub held: Vec<HeldAttempt>,
    /// Where those are that were put away; none from a worker that keeps none, or cannot bring them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// What this worker can do beyond what every worker could from the first ([`crate::features`]). Steps that need it go
    /// to no other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// Attempts that the server had whole, and that a worker keeps for a while in case that the database forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Apart from what the hello names; a server that needs them asks with [`RefusedCode::Recall`].
    Apart,
    /// Brought back: the hello names them.
    Recalled,
}

/// One attempt that a worker has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldAttempt {
    pub ticket: Ticket,
    pub job: Uuid,
    pub step: String,
    pub state: HeldState,
    /// The first and last log line that the worker still has; 0 and 0 if it has none.
    pub log_first_seq: u64,
    pub log_last_seq: u64,
    /// Reports about it that wait to be heard.
    #[serde(default)]
    pub events: u32,
    /// Its folder cannot be read now, or a power cut took what would tell: nobody can say whether it has started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldState {
    /// Accepted, and no `go` was used yet.
    Waiting,
    /// May have run.
    Running,
    /// Has its exit record.
    Ended,
}

/// A sign of life with the state of the slots, every `heartbeat_ms` and after a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The highest number processed when `held` was taken.
    pub processed: u64,
    pub held: Vec<Ticket>,
    /// Slots that can take an offer now.
    pub free: u32,
    /// Offers beyond its slots that the worker would prepare while they are taken: its steps are short at the moment.
    #[serde(default)]
    pub ahead: u32,
    /// Takes no new work.
    #[serde(default)]
    pub draining: bool,
    /// When each runner here was last heard, by its own process.
    #[serde(default)]
    pub runners: Vec<RunnerBeat>,
}

/// The last sign of life of a runner, measured by the worker's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerBeat {
    pub ticket: Ticket,
    pub pid: u32,
    pub age_ms: u64,
}

/// One question of one runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    pub ticket: Ticket,
    pub n: u64,
}

/// The server's answer to a hello.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    pub protocol: u32,
    pub server_version: String,
    pub worker: Uuid,
    pub epoch: u64,
    pub settings: LinkSettings,
    /// One for each attempt that the hello named.
    pub verdicts: Vec<Verdict>,
}

/// The server's rules that concern a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSettings {
    pub heartbeat_ms: u64,
    pub ping_ms: u64,
    pub max_reconnect_delay_ms: u64,
    pub dispatch_ack_ms: u64,
    /// How often a runner shows that it lives.
    #[serde(default)]
    pub runner_heartbeat_ms: u64,
    /// After so long without its worker a runner starts one that looks after what lives there; none: never.
    #[serde(default)]
    pub caretaker_after_ms: Option<u64>,
}

/// What is to become of an attempt that a worker brought back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub ticket: Ticket,
    pub verdict: VerdictKind,
    /// The last log line that is stored; send what comes after.
    #[serde(default)]
    pub log_acked_seq: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    Continue,
    Go,
    SendResult,
    /// The server has all of it.
    Forget,
    /// Given up, without a successor: run on, the end becomes the late outcome.
    Finish,
    StopGraceful,
    StopKill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefuseReason {
    Busy,
    Draining,
    DiskFull,
    /// The folder or the runner could not be made.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    Void,
    RunnerLost,
    ResultNotAvailable,
    MachineRebooted,
    LeaseExpired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedCode {
    UnsupportedProtocol,
    DuplicateIdentity,
    Removed,
    BadMessage,
    /// The server is stopping; come back.
    GoingAway,
    /// Its database lost commits: come back with what was put away. Only to a worker whose hello says that it keeps some.
    Recall,
}

/// Stands before the blocks of a binary frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHeader {
    pub ticket: Ticket,
    pub first_seq: u64,
    pub last_seq: u64,
    /// Lines right before `first_seq` that the worker does not have: they will never come.
    #[serde(default)]
    pub missing: u64,
    /// What took them.
    #[serde(default)]
    pub cause: MissingCause,
    /// With this the log is whole: `last_seq` is the attempt's last line.
    #[serde(default)]
    pub complete: bool,
}

/// Why a worker does not have lines that a step wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingCause {
    /// The log outgrew its limit while it could not be sent: the oldest lines were dropped.
    #[default]
    Limit,
    /// The disk did not take them.
    Unwritten,
    /// The file that holds them cannot be read.
    Damaged,
    #[serde(other)]
    Other,
}

/// What a worker sends to `POST /api/worker/enroll` (with its enroll token as bearer token).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnrollRequest {
    pub name: String,
    pub state_id: Uuid,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The answer: who the worker is, and its credential, shown once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnrollResponse {
    pub worker: Uuid,
    pub credential: String,
}

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the frame has {found} bytes, more than the {FRAME_BYTES_MAX} allowed")]
    TooLarge { found: usize },
    #[error("the text frame is not an array of messages: {0}")]
    Text(#[source] serde_json::Error),
    #[error("the log frame is too short for its header")]
    Short,
    #[error("the log frame's header cannot be read: {0}")]
    Header(#[source] serde_json::Error),
}

/// Reads a text frame.
pub fn decode_text<'a, M: Deserialize<'a>>(frame: &'a str) -> Result<Vec<M>, FrameError> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(FrameError::TooLarge { found: frame.len() });
    }
    serde_json::from_str(frame).map_err(FrameError::Text)
}

/// Writes a text frame.
pub fn encode_text<M: Serialize>(messages: &[M]) -> String {
    serde_json::to_string(messages).expect("messages are plain data and always have a JSON form")
}

/// A text frame that is written message by message, so that its sender knows how large it is.
#[derive(Debug, Default)]
pub struct TextFrame(String);

impl TextFrame {
    pub fn push<M: Serialize>(&mut self, message: &M) {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        self.0.push_str(&serde_json::to_string(message).expect("messages are plain data and always have a JSON form"));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// None without a message.
    pub fn finish(mut self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        self.0.push(']');
        Some(self.0)
    }
}

/// Reads a binary frame: its header and the blocks after it.
pub fn decode_log(frame: &[u8]) -> Result<(LogHeader, &[u8]), FrameError> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(FrameError::TooLarge { found: frame.len() });
    }
    let (length, rest) = frame.split_first_chunk::<4>().ok_or(FrameError::Short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (header, blocks) = rest.split_at_checked(length).ok_or(FrameError::Short)?;
    let header = serde_json::from_slice(header).map_err(FrameError::Header)?;
    Ok((header, blocks))
}

/// Writes a binary frame.
pub fn encode_log(header: &LogHeader, blocks: &[u8]) -> Vec<u8> {
    let json = serde_json::to_vec(header).expect("a header is plain data and always has a JSON form");
    let length = u32::try_from(json.len()).expect("a header is a few hundred bytes");
    let mut frame = Vec::with_capacity(4 + json.len() + blocks.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&json);
    frame.extend_from_slice(blocks);
    frame
}
