//! While the step or its cleanup lives, and until its output is read: orders, deadlines, the lease, signs of life.

use std::time::Duration;

use planted::Bug;
use protocol::attempt::{CleanupCut, EndResult, StopMode, StopReason};
use protocol::folder::{FromRunner, RunnerPhase, RunnerRules, ToRunner};

use super::cleanup::Cleaning;
use super::event::Action;
use super::lease::Lease;
use super::{DISOWNED, Terms, is_due};
use crate::clock;

/// Signs of life are at least this far apart, whatever the server says.
const BEAT_GAP: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Running {
    /// The step's process: its number and its start time.
    process: (u32, u64),
    /// If the server gave one.
    lease: Option<Lease>,
    started_at: Duration,
    /// Cleared when it has struck.
    timeout_at: Option<Duration>,
    stopping: Option<Stopping>,
    exited: Option<Exited>,
    /// Once the cleanup has its turn.
    cleaning: Option<Cleaning>,
    beat_at: Option<Duration>,
}

#[derive(Debug)]
struct Stopping {
    reason: StopReason,
    /// `None`: everything was killed already.
    kill_at: Option<Duration>,
    /// There was an order to kill: nothing is cleaned up.
    hard: bool,
}

#[derive(Debug)]
struct Exited {
    result: EndResult,
    at: Duration,
}

impl Running {
    pub(super) fn new(
        process: (u32, u64),
        lease: Option<Lease>,
        terms: &Terms,
        rules: RunnerRules,
        now: Duration,
    ) -> Self {
        let timeout_at = terms.timeout.and_then(|timeout| now.checked_add(timeout));
        let mut running = Running {
            process,
            lease,
            started_at: now,
            timeout_at,
            stopping: None,
            exited: None,
            cleaning: None,
            beat_at: None,
        };
        running.expect_beat(rules, now);
        running
    }

    /// To a worker that is new here, or did not hear the first time.
    pub(super) fn introduce(&mut self, now: Duration, out: &mut Vec<Action>) {
        let (pid, start_time) = self.process;
        out.push(Action::Send(FromRunner::Started { pid, start_time }));
        out.push(Action::SendLog);
        self.beat_at = self.beat_at.map(|_| now);
        if let Some(lease) = &mut self.lease {
            lease.ask_soon(now);
        }
    }

    pub(super) fn hear(&mut self, message: &ToRunner, terms: &Terms, now: Duration, out: &mut Vec<Action>) {
        match message {
            ToRunner::Go { .. } => self.introduce(now, out),
            ToRunner::Stop { mode, reason } => self.stop(*mode, *reason, terms, now, out),
            ToRunner::Status => {
                let phase = if self.stopping.is_some() { RunnerPhase::Stopping } else { RunnerPhase::Running };
                out.push(Action::SendStatus(phase));
            }
            ToRunner::Acked { seq } => out.push(Action::LogAcked { seq: *seq }),
            ToRunner::Renewed { n } => {
                if let Some(lease) = &mut self.lease
                    && lease.answered(*n)
                {
                    out.push(Action::SetOwnership(lease.ownership()));
                }
            }
            ToRunner::Secrets { .. } | ToRunner::Rules { .. } | ToRunner::Bye | ToRunner::Unknown => {}
        }
    }

    /// The next sign of life is counted from now.
    pub(super) fn expect_beat(&mut self, rules: RunnerRules, now: Duration) {
        let interval = Duration::from_millis(rules.beat_ms);
        self.beat_at = if interval.is_zero() { None } else { now.checked_add(interval.max(BEAT_GAP)) };
    }

    pub(super) fn end_with_worker(&mut self, terms: &Terms, now: Duration, out: &mut Vec<Action>) {
        self.stop(StopMode::Graceful, StopReason::WorkerStopped, terms, now, out);
    }

    /// The first reason stays; a later order can only be harder.
    fn stop(&mut self, mode: StopMode, reason: StopReason, terms: &Terms, now: Duration, out: &mut Vec<Action>) {
        if !self.lives() {
            // It may be about to be cleaned up after.
            if let Some(stopping) = self.stopping.as_mut().filter(|_| mode == StopMode::Kill) {
                stopping.hard = true;
            }
            return;
        }
        if reason == StopReason::Superseded {
            out.push(Action::SetOwnership(DISOWNED));
        }
        if self.stopping.is_none() {
            let kill_at = now.saturating_add(Duration::from_millis(terms.stop.grace_ms));
            self.stopping = Some(Stopping { reason, kill_at: Some(kill_at), hard: false });
            if mode == StopMode::Graceful {
                out.push(Action::Signal(terms.stop.signal));
                if planted::is(Bug::CleanupBesideTheStep) {
                    self.clean_up(terms, now, out);
                }
            }
        }
        if mode == StopMode::Kill {
            if let Some(stopping) = &mut self.stopping {
                stopping.hard = true;
            }
            self.kill(CleanupCut::Killed, out);
        }
    }

    /// Something of the step, or of its cleanup.
    fn lives(&self) -> bool {
        self.exited.is_none() || self.cleaning.as_ref().is_some_and(Cleaning::lives)
    }

    /// KILL to the step, or to its cleanup, for this reason.
    fn kill(&mut self, why: CleanupCut, out: &mut Vec<Action>) {
        if let Some(cleaning) = &mut self.cleaning {
            if cleaning.cut(why) {
                out.push(Action::Kill);
            }
            return;
        }
        out.push(Action::Kill);
        if let Some(stopping) = &mut self.stopping {
            stopping.kill_at = None;
        }
    }

    fn is_killed(&self) -> bool {
        match &self.cleaning {
            Some(cleaning) => cleaning.kill_at().is_none(),
            None => self.stopping.as_ref().is_some_and(|stopping| stopping.kill_at.is_none()),
        }
    }

    pub(super) fn step_ended(&mut self, result: EndResult, now: Duration, out: &mut Vec<Action>) {
        if !self.lives() {
            return;
        }
        self.timeout_at = None;
        self.blame_the_lease(&result, now, out);
        if self.exited.is_some()
            && let Some(cleaning) = &mut self.cleaning
        {
            return cleaning.ended(result, now);
        }
        if let Some(stopping) = &mut self.stopping {
            stopping.kill_at = None;
        }
        self.exited = Some(Exited { result, at: now });
    }

    /// While this runner was frozen or slow its guard or its worker may have ended the step for it.
    fn blame_the_lease(&mut self, result: &EndResult, now: Duration, out: &mut Vec<Action>) {
        let killed = matches!(result, EndResult::Signaled { signal: libc::SIGKILL, oom: false });
        let over = is_due(self.lease.as_ref().and_then(Lease::kill_at), now);
        if killed && over && !self.is_killed() {
            out.push(Action::SetOwnership(DISOWNED));
            if let Some(cleaning) = &mut self.cleaning {
                cleaning.cut(CleanupCut::LeaseExpired);
            }
        }
        if killed && over && self.stopping.is_none() {
            self.stopping = Some(Stopping { reason: StopReason::LeaseExpired, kill_at: None, hard: false });
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// All that the ended process has printed is in the log: the cleanup has its turn, or it is time for the record.
    pub(super) fn drained(&mut self, terms: &Terms, now: Duration, out: &mut Vec<Action>) -> Option<Action> {
        self.exited.as_ref()?;
        if self.cleaning.is_none() && self.clean_up(terms, now, out) {
            return None;
        }
        let mut cleanup = None;
        if let Some(cleaning) = &self.cleaning {
            let (end, words) = cleaning.close()?;
            out.push(Action::Note(words));
            cleanup = Some(end);
        }
        let exited = self.exited.take()?;
        let stopped = self.stopping.as_ref().map(|stopping| stopping.reason);
        let ran_for = exited.at.saturating_sub(self.started_at);
        Some(Action::Record { result: exited.result, stopped, ran_for, cleanup })
    }

    /// Begins the cleanup, if there is one and the step was stopped in a way that has one: asked to end, by somebody or by
    /// its timeout. Whoever says kill does not want it, and with a lease that is about to end there is no time for it.
    fn clean_up(&mut self, terms: &Terms, now: Duration, out: &mut Vec<Action>) -> bool {
        let (Some(budget), Some(stopping)) = (terms.cleanup, &self.stopping) else { return false };
        let reason = stopping.reason;
        let meant = match reason {
            StopReason::Cancelled | StopReason::Timeout => true,
            StopReason::LeaseExpired => planted::is(Bug::CleanupAfterTheLease),
            StopReason::Superseded | StopReason::WorkerStopped => false,
        };
        let in_time = !is_due(self.lease.as_ref().and_then(Lease::signal_at), now);
        let allowed = !stopping.hard && (in_time || planted::is(Bug::CleanupAfterTheLease));
        if !meant || !allowed {
            return false;
        }
        self.cleaning = Some(Cleaning::new(reason, budget, now));
        // While the step's output was read nobody asked.
        if let Some(lease) = &mut self.lease {
            lease.ask_soon(now);
        }
        out.push(Action::CleanUp { reason });
        true
    }

    pub(super) fn cleanup_started(&mut self, now: Duration, out: &mut Vec<Action>) {
        if let Some(cleaning) = &mut self.cleaning {
            out.push(Action::Note(cleaning.started(now)));
        }
    }

    pub(super) fn tick(
        &mut self,
        runner: u32,
        terms: &Terms,
        rules: RunnerRules,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        self.keep_lease(terms, now, out);
        if is_due(self.beat_at, now) {
            out.push(Action::Send(FromRunner::Beat { pid: runner }));
            self.expect_beat(rules, now);
        }
        if is_due(self.timeout_at, now) {
            self.timeout_at = None;
            self.stop(StopMode::Graceful, StopReason::Timeout, terms, now, out);
        }
        if is_due(self.kill_at(), now) {
            self.kill(CleanupCut::Budget, out);
        }
    }

    /// Asks for more while the step runs, and ends it in time where it ends with its lease.
    fn keep_lease(&mut self, terms: &Terms, now: Duration, out: &mut Vec<Action>) {
        if !self.lives() {
            return;
        }
        let Some(lease) = &mut self.lease else { return };
        if let Some(n) = lease.ask(now) {
            out.push(Action::Send(FromRunner::Renew { n, asked_at_ms: clock::to_ms(now) }));
            if planted::is(Bug::LeaseFromLastQuestion) && lease.answered(n) {
                out.push(Action::SetOwnership(lease.ownership()));
            }
        }
        let (signal_at, kill_at) = (lease.signal_at(), lease.kill_at());
        if is_due(signal_at, now) && self.stopping.is_none() {
            out.push(Action::Signal(terms.stop.signal));
            self.stopping = Some(Stopping { reason: StopReason::LeaseExpired, kill_at, hard: false });
        }
        // Whatever else it is being stopped for, and however long it had for that.
        if is_due(kill_at, now) && !self.is_killed() {
            out.push(Action::SetOwnership(DISOWNED));
            self.kill(CleanupCut::LeaseExpired, out);
        }
    }

    /// When the grace of the step, or the time of its cleanup, is over.
    fn kill_at(&self) -> Option<Duration> {
        match &self.cleaning {
            Some(cleaning) => cleaning.kill_at(),
            None => self.stopping.as_ref().and_then(|stopping| stopping.kill_at),
        }
    }

    /// When the lease has its next word on the step.
    pub(super) fn lease_acts_at(&self) -> Option<Duration> {
        let lease = self.lease.as_ref().filter(|_| self.lives() && !self.is_killed())?;
        if self.stopping.is_some() { lease.kill_at() } else { lease.signal_at() }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let ask_at = self.lease.as_ref().filter(|_| self.lives()).map(Lease::ask_at);
        [self.timeout_at, self.kill_at(), self.beat_at, ask_at, self.lease_acts_at()].into_iter().flatten().min()
    }
}
