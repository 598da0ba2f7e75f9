//! What a runner decides, without doing any of it: when and why it starts its step, signals, kills, asks, reports and
//! leaves. No clock, no files, no processes.
//!
//! The shell (`crate::watch`) feeds it everything that happens as [`Input`], and performs the [`Action`]s that come
//! back, in order. So the same code runs in a runner's process and in a simulator.
//!
//! ```text
//!  Waiting ─go─► Starting ─claimed, spawned─► Running ─step ended, drained─► Recording ─► Reporting ─bye─► Gone
//!     │             │                           └ after a cancel or a timeout first its cleanup
//!     │             │  └─────────── could not be started ───────────────────────┘            │ nobody listens
//!     │             └─ another runner had claimed it ──────────────────────────────────────► Gone
//!     └─ stopped, void, too late, worker gone for good: void, refused ─────────────────────► Gone
//! ```
//!
//! In reading order: [`event`] (in and out), this file (from `ready` to `go`, and the report), `running` (while the
//! step lives), `cleanup` (after it was stopped), `lease`, `solitude` (without a worker), [`sentry`] (what the guard
//! decides).

mod cleanup;
pub mod event;
mod lease;
mod running;
pub mod sentry;
mod solitude;
#[cfg(test)]
mod tests;

use std::time::Duration;

use planted::Bug;
use protocol::attempt::{Effects, End, EndResult, StopPlan};
use protocol::folder::{Claim, FOLDER_FORMAT, FolderSpec, FromRunner, Ownership, RunnerPhase, RunnerRules, ToRunner};
use protocol::secret::SecretValues;

use crate::folder_io::Claimed;
pub use event::{Action, Input};
use lease::Lease;
use running::Running;
use solitude::Solitude;
pub use solitude::{WordLeft, may_wake};

/// How often a runner without a worker looks whether it is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a connected worker has to say `bye`. After that the record speaks for itself.
const BYE_WAIT: Duration = Duration::from_secs(10);

/// One runner, from `ready` to its last word.
#[derive(Debug)]
pub struct Life {
    /// This runner's own process, which its signs of life name.
    pid: u32,
    terms: Terms,
    rules: RunnerRules,
    /// Without a worker.
    alone: bool,
    solitude: Solitude,
    /// When to see whether the attempt is still wanted, if there is no worker to say so.
    look_at: Duration,
    /// What the step was given besides, until it is executed.
    secrets: SecretValues,
    stage: Stage,
    out: Vec<Action>,
}

/// What the spec says that matters here.
#[derive(Debug)]
struct Terms {
    lease: Option<lease::Terms>,
    timeout: Option<Duration>,
    stop: StopPlan,
    /// How long its cleanup may take, if it has one.
    cleanup: Option<Duration>,
    /// A step that only reads may run again anyway, so its claim need not survive a power cut.
    durable: bool,
    has_caretaker: bool,
    ends_with_worker: bool,
    /// Its worker stores them when it has ended.
    leaves_files: bool,
    /// The names of what it must be given before it starts.
    secrets: Vec<String>,
}

#[derive(Debug)]
enum Stage {
    /// For `go`.
    Waiting,
    /// The folder is being claimed, then the step's process made.
    Starting {
        lease: Option<Lease>,
        /// Why it will not be: it is claimed all the same, so that its end is on record.
        cannot: Option<String>,
    },
    Running(Box<Running>),
    /// The exit record is being written.
    Recording,
    Reporting {
        end: Box<End>,
        /// None: only with leave, or when its worker is gone.
        leave_at: Option<Duration>,
    },
    Gone,
}

impl Life {
    /// `pid`: this runner's own. It has no worker before the first [`Input::Connected`].
    pub fn new(spec: &FolderSpec, pid: u32) -> Self {
        let (attempt, local) = (&spec.attempt, &spec.local);
        let terms = Terms {
            lease: lease::Terms::of(attempt),
            timeout: attempt.timeout_ms.map(Duration::from_millis),
            stop: attempt.stop.clone(),
            cleanup: attempt.cleanup.as_ref().map(|cleanup| Duration::from_millis(cleanup.budget_ms)),
            durable: attempt.effects != Effects::None,
            has_caretaker: local.caretaker.is_some(),
            ends_with_worker: local.ends_with_worker,
            leaves_files: attempt.artifacts.is_some(),
            secrets: attempt.secrets.clone(),
        };
        Life {
            pid,
            terms,
            rules: local.rules,
            alone: true,
            solitude: Solitude::default(),
            look_at: Duration::ZERO,
            secrets: SecretValues::new(),
            stage: Stage::Waiting,
            out: Vec::new(),
        }
    }

    /// Takes one input. `now` is on the clock that runs on while the machine sleeps, and never goes back.
    ///
    /// An action that wants an answer gets it before any other input. What is due by time is done with [`Input::Tick`]
    /// alone: hand it in after everything else that waits, so that an answer that lay in the socket still counts.
    pub fn handle(&mut self, input: Input, now: Duration) -> Vec<Action> {
        match input {
            Input::Connected => self.connected(now),
            Input::Disconnected => self.alone = true,
            Input::Heard(message) => self.hear(&message, now),
            Input::ToldToEnd => self.told_to_end(now),
            Input::Unwanted => self.unwanted(),
            Input::Claimed(claimed) => self.claimed(claimed, now),
            Input::StartFailed { message } => self.start_failed(message, now),
            Input::Started { pid, start_time } => self.started(pid, start_time, now),
            Input::StepEnded { result } => self.step_ended(result, now),
            Input::Drained => self.drained(now),
            Input::Recorded { end } => self.recorded(end, now),
            Input::Tick => self.tick(now),
        }
        std::mem::take(&mut self.out)
    }

    /// When to come back with an [`Input::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        let own = match &self.stage {
            Stage::Waiting => Some(self.look_at).filter(|_| self.alone),
            Stage::Running(running) => running.deadline(),
            // Alone it leaves at once, or when a caretaker was woken.
            Stage::Reporting { .. } if self.alone => {
                Some(self.solitude.deadline().map_or(Duration::ZERO, |_| self.look_at))
            }
            Stage::Reporting { leave_at, .. } => *leave_at,
            Stage::Starting { .. } | Stage::Recording | Stage::Gone => return None,
        };
        own.into_iter().chain(self.solitude.deadline()).min()
    }

    /// Its step was told to end, for whatever reason.
    pub fn is_stopping(&self) -> bool {
        matches!(&self.stage, Stage::Running(running) if running.is_stopping())
    }

    /// The next deadline that its lease sets the step, if it ends with it: not to be slept through, by no clock.
    pub fn lease_alarm(&self) -> Option<Duration> {
        match &self.stage {
            Stage::Running(running) => running.lease_acts_at(),
            _ => None,
        }
    }

    /// As far as it was told.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    fn connected(&mut self, now: Duration) {
        self.alone = false;
        self.solitude = Solitude::default();
        self.look_at = Duration::ZERO;
        match &mut self.stage {
            Stage::Waiting => self.say_ready(),
            Stage::Running(running) => running.introduce(now, &mut self.out),
            Stage::Reporting { end, .. } => self.out.push(Action::Send(FromRunner::Ended { end: (**end).clone() })),
            Stage::Starting { .. } | Stage::Recording | Stage::Gone => {}
        }
    }

    fn hear(&mut self, message: &ToRunner, now: Duration) {
        match &mut self.stage {
            Stage::Waiting => self.hear_waiting(message, now),
            Stage::Running(running) => {
                if let ToRunner::Rules { rules } = message {
                    self.rules = *rules;
                    running.expect_beat(self.rules, now);
                } else {
                    running.hear(message, &self.terms, now, &mut self.out);
                }
            }
            Stage::Reporting { .. } => match message {
                ToRunner::Bye => self.leave(),
                ToRunner::Status => self.out.push(Action::SendStatus(RunnerPhase::Ended)),
                ToRunner::Go { .. }
                | ToRunner::Secrets { .. }
                | ToRunner::Stop { .. }
                | ToRunner::Acked { .. }
                | ToRunner::Renewed { .. }
                | ToRunner::Rules { .. }
                | ToRunner::Unknown => {}
            },
            Stage::Starting { .. } | Stage::Recording | Stage::Gone => {}
        }
    }

    fn hear_waiting(&mut self, message: &ToRunner, now: Duration) {
        match message {
            // It lay in the socket for too long: whoever granted it may have changed its mind.
            ToRunner::Go { until_ms: Some(until), .. } if now > Duration::from_millis(*until) => self.say_ready(),
            ToRunner::Go { asked_at_ms, cannot, .. } => {
                self.go(asked_at_ms.map_or(now, Duration::from_millis), cannot.clone(), now);
            }
            // The newest count.
            ToRunner::Secrets { values } => self.secrets.clone_from(values),
            ToRunner::Stop { .. } => self.refuse("stopped before it was started"),
            ToRunner::Status => self.out.push(Action::SendStatus(RunnerPhase::Waiting)),
            ToRunner::Rules { rules } => self.rules = *rules,
            ToRunner::Acked { .. } | ToRunner::Renewed { .. } | ToRunner::Bye | ToRunner::Unknown => {}
        }
    }

    fn say_ready(&mut self) {
        self.out.push(Action::Send(FromRunner::Ready { pid: self.pid, format: FOLDER_FORMAT }));
    }

    /// `asked_at`: when the server was asked for the start that it granted.
    fn go(&mut self, asked_at: Duration, cannot: Option<String>, now: Duration) {
        let lease = self.terms.lease.map(|terms| Lease::new(terms, asked_at));
        // A `go` can lie in a socket while this machine sleeps.
        if is_due(lease.as_ref().and_then(Lease::signal_at), now) {
            return self.refuse("its lease was over before it was started");
        }
        if let Err(missing) = self.equip() {
            // Whoever sent it does not know of secrets, or does not have this one now. Another try is another worker's.
            return self.refuse(&format!("the secret `{missing}` was not handed over"));
        }
        self.stage = Stage::Starting { lease, cannot };
        self.out.push(Action::Claim { durable: self.terms.durable });
    }

    /// Hands on exactly what the spec names. Or says what of it is missing.
    fn equip(&mut self) -> Result<(), String> {
        let mut given = std::mem::take(&mut self.secrets);
        if self.terms.secrets.is_empty() {
            return Ok(());
        }
        given.retain(|name, _| self.terms.secrets.contains(name));
        let missing = self.terms.secrets.iter().find(|name| !given.contains_key(*name));
        if let Some(missing) = missing.filter(|_| !planted::is(Bug::SecretMissingIgnored)) {
            return Err(missing.clone());
        }
        self.out.push(Action::Equip(given));
        Ok(())
    }

    fn told_to_end(&mut self, now: Duration) {
        match &mut self.stage {
            Stage::Waiting => self.refuse("the runner was told to stop before the step was started"),
            // Somebody shuts the machine or the service down: better an orderly end than none.
            Stage::Running(running) => running.end_with_worker(&self.terms, now, &mut self.out),
            Stage::Starting { .. } | Stage::Recording | Stage::Reporting { .. } | Stage::Gone => {}
        }
    }

    fn unwanted(&mut self) {
        match self.stage {
            Stage::Waiting => self.refuse("the attempt was declared void"),
            // Nobody can read its record any more.
            Stage::Reporting { .. } => self.leave(),
            Stage::Starting { .. } | Stage::Running(_) | Stage::Recording | Stage::Gone => {}
        }
    }

    /// Whoever comes second obeys.
    fn claimed(&mut self, claimed: Claimed, now: Duration) {
        let Stage::Starting { lease, cannot } = &mut self.stage else { return };
        match claimed {
            Claimed::Ours if let Some(message) = cannot.take() => self.start_failed(message, now),
            Claimed::Ours => {
                let guard_until = lease.as_ref().and_then(Lease::kill_at);
                self.out.push(Action::Spawn { guard_until });
            }
            Claimed::Earlier(Claim::Void) => self.refuse("the attempt was declared void"),
            // It may have run, so this is no refusal; the folder tells the worker more than we could.
            Claimed::Earlier(Claim::Intent) => self.leave(),
        }
    }

    /// Claimed, but the step could not be started: that is an end, with a record. Or its cleanup could not.
    fn start_failed(&mut self, message: String, now: Duration) {
        let result = EndResult::SpawnFailed { message };
        match &mut self.stage {
            Stage::Starting { .. } => {
                self.stage = Stage::Recording;
                self.out.push(Action::Record { result, stopped: None, ran_for: Duration::ZERO, cleanup: None });
            }
            Stage::Running(running) => {
                running.step_ended(result, now, &mut self.out);
                self.drained(now);
            }
            Stage::Waiting | Stage::Recording | Stage::Reporting { .. } | Stage::Gone => {}
        }
    }

    fn started(&mut self, pid: u32, start_time: u64, now: Duration) {
        let lease = match &mut self.stage {
            Stage::Starting { lease, .. } => lease.take(),
            Stage::Running(running) => return running.cleanup_started(now, &mut self.out),
            Stage::Waiting | Stage::Recording | Stage::Reporting { .. } | Stage::Gone => return,
        };
        if let Some(lease) = &lease {
            self.out.push(Action::SetOwnership(lease.ownership()));
        }
        self.out.push(Action::Send(FromRunner::Started { pid, start_time }));
        let running = Running::new((pid, start_time), lease, &self.terms, self.rules, now);
        self.stage = Stage::Running(Box::new(running));
    }

    fn step_ended(&mut self, result: EndResult, now: Duration) {
        if let Stage::Running(running) = &mut self.stage {
            running.step_ended(result, now, &mut self.out);
        }
    }

    fn drained(&mut self, now: Duration) {
        let Stage::Running(running) = &mut self.stage else { return };
        if let Some(record) = running.drained(&self.terms, now, &mut self.out) {
            self.stage = Stage::Recording;
            self.out.push(record);
        }
    }

    fn recorded(&mut self, end: Box<End>, now: Duration) {
        if let Stage::Recording = self.stage {
            self.out.push(Action::Send(FromRunner::Ended { end: (*end).clone() }));
            // While its worker stores what it leaves, it stays: should the worker go, somebody must wake the next.
            let leave_at = (!self.terms.leaves_files).then(|| now.saturating_add(BYE_WAIT));
            self.stage = Stage::Reporting { end, leave_at };
        }
    }

    fn tick(&mut self, now: Duration) {
        match &mut self.stage {
            Stage::Waiting => self.tick_waiting(now),
            Stage::Running(running) => {
                if self.terms.ends_with_worker && self.alone {
                    running.end_with_worker(&self.terms, now, &mut self.out);
                }
                running.tick(self.pid, &self.terms, self.rules, now, &mut self.out);
                self.keep_vigil(now);
            }
            Stage::Reporting { leave_at, .. } => {
                let leave_at = *leave_at;
                self.tick_reporting(leave_at, now);
            }
            Stage::Starting { .. } | Stage::Recording | Stage::Gone => {}
        }
    }

    fn tick_waiting(&mut self, now: Duration) {
        self.keep_vigil(now);
        if self.alone && self.terms.ends_with_worker {
            self.refuse("its worker is gone, and will not come back");
        } else {
            self.look_if_wanted(now);
        }
    }

    fn look_if_wanted(&mut self, now: Duration) {
        if self.alone && now >= self.look_at {
            self.look_at = now.saturating_add(LOOK_INTERVAL);
            self.out.push(Action::LookIfWanted);
        }
    }

    /// Leaves when the end was heard, or when nobody listens and a caretaker was woken, if there is to be one: whoever
    /// leaves last sees to it that somebody reads the record.
    fn tick_reporting(&mut self, leave_at: Option<Duration>, now: Duration) {
        let tried = self.keep_vigil(now);
        let leaves = match self.alone {
            true => self.solitude.deadline().filter(|_| !tried).is_none_or(|until| until <= now),
            false => leave_at.is_some_and(|at| at <= now),
        };
        if leaves {
            self.leave();
        } else {
            self.look_if_wanted(now);
        }
    }

    /// Wakes a caretaker if the worker has been away for too long. Whether it tried.
    fn keep_vigil(&mut self, now: Duration) -> bool {
        let after = self.rules.caretaker_after_ms.filter(|_| self.terms.has_caretaker);
        let due = self.solitude.turn(self.alone, after.map(Duration::from_millis), now);
        if due {
            self.out.push(Action::WakeCaretaker);
        }
        due
    }

    /// The step never started and never will; there is no record.
    fn refuse(&mut self, why: &str) {
        self.out.push(Action::DeclareVoid);
        self.out.push(Action::Send(FromRunner::Refused { why: why.to_owned() }));
        self.leave();
    }

    fn leave(&mut self) {
        self.stage = Stage::Gone;
        self.out.push(Action::Leave);
    }
}

/// Whoever asks from now on hears that the step is somebody else's.
const DISOWNED: Ownership = Ownership { confirmed_ms: 0, until_ms: 0 };

fn is_due(at: Option<Duration>, now: Duration) -> bool {
    at.is_some_and(|at| at <= now)
}
