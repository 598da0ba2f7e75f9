//! Stopping: what is given back, what is ended, and when all is said.

use std::time::Duration;

use protocol::attempt::{StopMode, StopReason, Ticket};
use protocol::link::RefusedCode;
use protocol::state::NoCaretaker;
use runner::clock;

use super::Agent;
use super::event::{Action, ExitReason, StopLevel};
use super::held::{AfterVoid, Phase};

/// How long a stopping worker waits for the server to take the last results. They are kept in any case.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(10);

/// How long a caretaker whose attempts have all ended looks for a server to tell.
const CARETAKER_IDLE_MAX: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Leaving {
    level: StopLevel,
    reason: ExitReason,
    /// Set when every step has ended.
    last_words_until: Option<Duration>,
    /// The exit was announced.
    done: bool,
}

impl Leaving {
    pub(super) fn deadline(&self) -> Option<Duration> {
        if self.done { None } else { self.last_words_until }
    }
}

/// What a worker that leaves tells the runners that it leaves behind: whether they may wake a caretaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// They may.
    Wanted,
    /// Not for so long: somebody stopped the worker, and may be about to start it again.
    NoneFor(Duration),
    /// There would be no server to speak for them to.
    NoneUntilAWorkerComes,
}

impl Word {
    pub fn of(reason: &ExitReason, stop_grace: Duration) -> Self {
        match reason {
            ExitReason::Stopped => Word::NoneFor(stop_grace),
            ExitReason::Refused { code: RefusedCode::Removed, .. } => Word::NoneUntilAWorkerComes,
            ExitReason::OnceDone
            | ExitReason::CaretakerDone
            | ExitReason::HandedOver
            | ExitReason::LinkLost
            | ExitReason::Refused { .. } => Word::Wanted,
        }
    }

    /// As it is left in the state folder; `None`: nothing is.
    pub fn written(self, boot_id: String, now: Duration) -> Option<NoCaretaker> {
        let until_ms = match self {
            Word::Wanted => return None,
            Word::NoneFor(time) => Some(clock::to_ms(now.saturating_add(time))),
            Word::NoneUntilAWorkerComes => None,
        };
        Some(NoCaretaker { boot_id, until_ms })
    }
}

impl Agent {
    /// A second order can only be harder; the first reason stays.
    pub(super) fn stop(&mut self, level: StopLevel, reason: ExitReason, now: Duration) {
        if level == StopLevel::Run || self.leaving.as_ref().is_some_and(|leaving| leaving.level >= level) {
            return;
        }
        self.draining = true;
        let reason = self.leaving.take().map_or(reason, |leaving| leaving.reason);
        self.leaving = Some(Leaving { level, reason, last_words_until: None, done: false });
        let tickets: Vec<Ticket> = self.held.keys().copied().collect();
        for ticket in tickets {
            if self.is_before_go(ticket) {
                self.make_void(ticket, AfterVoid::Report);
            } else if level == StopLevel::EndSteps {
                self.end_attempt(ticket, now);
            }
        }
        self.say_heartbeat(now);
    }

    /// What has ended already is left to the next worker, with the files that are still to be stored.
    fn end_attempt(&mut self, ticket: Ticket, now: Duration) {
        if !matches!(self.held.get(&ticket).map(|held| &held.phase), Some(Phase::Ended { .. })) {
            self.stop_attempt(ticket, StopMode::Graceful, StopReason::WorkerStopped, now);
        }
    }

    /// Nobody comes after this worker: an end without its files is better than none.
    fn end_without_files(&mut self, now: Duration) {
        let storing = self.held.iter().filter(|(_, held)| held.files.is_storing()).map(|(ticket, _)| *ticket);
        for ticket in storing.collect::<Vec<_>>() {
            self.give_up_files(ticket, "the worker was stopped before they were stored", now);
        }
    }

    /// A caretaker ends with the last of what it looks after. Results that no server takes for long are left to the
    /// next worker.
    fn end_caretaking(&mut self, now: Duration) {
        if !self.hello.caretaker || self.leaving.is_some() {
            return;
        }
        let lives = self.held.values().any(|held| held.is_active() && held.phase != Phase::Unreadable);
        let unreported = self.held.values().any(|held| held.phase != Phase::Unreadable);
        if lives || unreported && self.out.link_stands {
            self.idle_since = None;
            return;
        }
        let since = *self.idle_since.get_or_insert(now);
        if !unreported || now >= since + CARETAKER_IDLE_MAX {
            self.stop(StopLevel::Leave, ExitReason::CaretakerDone, now);
        }
    }

    pub(super) fn idle_deadline(&self) -> Option<Duration> {
        self.idle_since.filter(|_| self.leaving.is_none()).map(|since| since + CARETAKER_IDLE_MAX)
    }

    /// Announces the exit once nothing is left to wait for.
    pub(super) fn leave_if_done(&mut self, now: Duration) {
        if self.once && self.draining && self.leaving.is_none() && self.held.is_empty() {
            self.stop(StopLevel::Leave, ExitReason::OnceDone, now);
        }
        self.end_caretaking(now);
        let Some(leaving) = &self.leaving else { return };
        if leaving.done {
            return;
        }
        let in_the_making =
            self.held.values().any(|held| matches!(held.phase, Phase::Preparing { .. } | Phase::Voiding { .. }));
        if in_the_making {
            return;
        }
        if leaving.level == StopLevel::EndSteps {
            if self.held.values().any(|held| held.is_active()) {
                return;
            }
            if self.hello.ephemeral || self.hello.no_reconnect {
                self.end_without_files(now);
            }
            let Some(leaving) = &mut self.leaving else { return };
            let until = *leaving.last_words_until.get_or_insert(now + LAST_WORDS_PATIENCE);
            let unanswered = self.held.values().any(|held| !held.settled);
            if self.out.link_stands && unanswered && now < until {
                return;
            }
        }
        let Some(leaving) = &mut self.leaving else { return };
        leaving.done = true;
        let reason = leaving.reason.clone();
        self.out.push(Action::Exit(reason));
    }
}
