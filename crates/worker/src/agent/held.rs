//! One attempt, as the agent knows it.

use std::time::Duration;

use protocol::attempt::{AttemptSpec, End, StopMode, StopReason, Ticket};
use protocol::link::{HeldAttempt, HeldState, Loss, WorkerMessage};
use protocol::secret::SecretValues;
use uuid::Uuid;

use super::event::{Finding, Found};
use super::files::Files;
use super::lease::{Guard, Sign};

#[derive(Debug)]
pub(super) struct Held {
    job: Uuid,
    step: String,
    pub(super) phase: Phase,
    log_first_seq: u64,
    log_last_seq: u64,
    /// When the last question or report was sent on this link; `None` if none was.
    pub(super) said_at: Option<Duration>,
    /// How often its end was reported. Only a planted bug counts.
    pub(super) tries: u32,
    /// The server has answered the report: it is not repeated on this link.
    pub(super) settled: bool,
    pub(super) barrier: Option<Barrier>,
    /// The leave to start that it has.
    pub(super) leave: Option<Leave>,
    /// What came for its runner, until that has started its step.
    pub(super) secrets: Option<SecretValues>,
    pub(super) guard: Guard,
    /// When its runner was last heard.
    pub(super) sign: Option<Sign>,
    /// An order that could not be carried out yet.
    pub(super) stop: Option<(StopMode, StopReason)>,
    /// The server has its log up to this line, and waits for the rest; there was nothing to read from yet.
    pub(super) log_wanted_after: Option<u64>,
    /// It is lost, and whether it had started is not on disk.
    unsure: bool,
    pub(super) files: Files,
}

#[derive(Debug, PartialEq)]
pub(super) enum Phase {
    /// The folder and the runner are being made. `give_up`: it is not wanted any more.
    Preparing {
        give_up: Option<AfterVoid>,
    },
    /// The runner is ready; the server was asked, or will be when there is a link.
    Waiting,
    /// The runner was told to go.
    Going,
    Running {
        pid: Option<u32>,
    },
    /// Its folder cannot be read: it may run, and nothing can be done about it from here.
    Unreadable,
    /// The folder is being claimed as never started. `told`: its runner was told to go, and may be faster.
    Voiding {
        then: AfterVoid,
        told: bool,
    },
    Ended {
        end: Box<End>,
    },
    Lost {
        loss: Loss,
        detail: String,
    },
}

/// Leave to start, on the clock that runs on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leave {
    /// When the server was asked for it.
    pub(super) asked_at: Duration,
    /// For so long it is good: the server may have changed its mind since.
    pub(super) until: Option<Duration>,
}

/// What follows when an attempt has been made void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterVoid {
    /// The server has taken it back already.
    Discard,
    /// The server may think that it started: it is told that it never will.
    Report,
}

/// Tells a fresh `go` from one that was on its way for too long.
///
/// A ping was sent before the question. A `go` that comes before its pong may be old and does not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Barrier {
    pub(super) ping: u64,
    pub(super) go_dropped: bool,
}

impl Held {
    pub(super) fn offered(spec: &AttemptSpec) -> Self {
        let phase = Phase::Preparing { give_up: None };
        Held { guard: Guard::of(spec), files: Files::of(spec), ..Held::new(spec.job, spec.step.clone(), phase) }
    }

    pub(super) fn found(found: Found) -> (Ticket, Self) {
        let unsure = matches!(found.finding, Finding::Unsure { .. });
        let phase = match found.finding {
            Finding::Waiting => Phase::Waiting,
            Finding::Running => Phase::Running { pid: None },
            Finding::Unreadable => Phase::Unreadable,
            Finding::Ended(end) => Phase::Ended { end },
            Finding::NeverStarted { detail } => Phase::Lost { loss: Loss::Void, detail },
            Finding::Unsure { detail } => Phase::Lost { loss: Loss::MachineRebooted, detail },
            Finding::Lost { loss, detail } => Phase::Lost { loss, detail },
        };
        let mut held = Held { unsure, ..Held::new(found.job, found.step, phase) };
        held.log_first_seq = found.log_first_seq;
        held.log_last_seq = found.log_last_seq;
        held.guard = found.lease.map_or_else(Guard::default, Guard::found);
        held.files = Files::found(found.artifacts.as_ref(), found.fetches);
        (found.ticket, held)
    }

    /// What could not be read when the worker started can be now: which files it wants and leaves, and its lease. Of that it is
    /// not asked here how far it goes; it may just have begun.
    pub(super) fn recognised(&mut self, spec: &AttemptSpec, now: Duration) {
        if self.phase == Phase::Unreadable {
            self.files = Files::of(spec);
            self.guard = Guard::of(spec);
            self.guard.granted(now);
        }
    }

    fn new(job: Uuid, step: String, phase: Phase) -> Self {
        Held {
            job,
            step,
            phase,
            log_first_seq: 0,
            log_last_seq: 0,
            said_at: None,
            tries: 0,
            settled: false,
            barrier: None,
            leave: None,
            secrets: None,
            guard: Guard::default(),
            sign: None,
            stop: None,
            log_wanted_after: None,
            unsure: false,
            files: Files::default(),
        }
    }

    /// Whether it takes a slot.
    pub(super) fn is_active(&self) -> bool {
        match self.phase {
            Phase::Preparing { .. }
            | Phase::Waiting
            | Phase::Going
            | Phase::Running { .. }
            | Phase::Unreadable
            | Phase::Voiding { .. } => true,
            Phase::Ended { .. } | Phase::Lost { .. } => false,
        }
    }

    pub(super) fn log_reached(&mut self, seq: u64) {
        if seq > 0 {
            self.log_first_seq = self.log_first_seq.max(1);
            self.log_last_seq = self.log_last_seq.max(seq);
        }
    }

    /// Its runner may have dropped the oldest lines.
    pub(super) fn log_begins_at(&mut self, seq: u64) {
        self.log_first_seq = self.log_first_seq.max(seq);
    }

    pub(super) fn has_lines_after(&self, seq: u64) -> bool {
        self.log_last_seq > seq
    }

    /// What was said on the last link is void on the next one.
    pub(super) fn forget_link(&mut self) {
        self.said_at = None;
        self.settled = false;
        self.barrier = None;
        if self.phase == Phase::Waiting {
            // Whoever says go next sends them anew.
            self.secrets = None;
        }
        self.log_wanted_after = None;
    }

    /// The report that the server owes an answer to.
    pub(super) fn report(&self, ticket: Ticket) -> Option<WorkerMessage> {
        match &self.phase {
            Phase::Ended { .. } if self.files.is_storing() => None,
            Phase::Ended { end } => {
                let end = End { artifacts: self.files.stored(), ..(**end).clone() };
                Some(WorkerMessage::Ended { ticket, end })
            }
            Phase::Lost { loss, detail } => Some(WorkerMessage::Lost { ticket, loss: *loss, detail: detail.clone() }),
            Phase::Preparing { .. }
            | Phase::Waiting
            | Phase::Going
            | Phase::Running { .. }
            | Phase::Unreadable
            | Phase::Voiding { .. } => None,
        }
    }

    /// For the hello.
    pub(super) fn describe(&self, ticket: Ticket) -> HeldAttempt {
        let state = match &self.phase {
            Phase::Preparing { .. } | Phase::Waiting | Phase::Voiding { told: false, .. } => HeldState::Waiting,
            Phase::Lost { loss: Loss::Void, .. } => HeldState::Waiting,
            Phase::Going | Phase::Voiding { told: true, .. } => HeldState::Running,
            // A loss without a result is told right after the welcome; until then it may have run.
            Phase::Running { .. } | Phase::Unreadable | Phase::Lost { .. } => HeldState::Running,
            Phase::Ended { .. } => HeldState::Ended,
        };
        HeldAttempt {
            ticket,
            job: self.job,
            step: self.step.clone(),
            state,
            log_first_seq: self.log_first_seq,
            log_last_seq: self.log_last_seq,
            events: u32::from(self.report(ticket).is_some()),
            unsure: self.unsure || self.phase == Phase::Unreadable,
        }
    }
}
