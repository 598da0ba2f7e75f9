//! The cleanup: what is executed after a cancel or its timeout has ended the step, and for how long.
//!
//! It begins when nothing of the step lives and all that it printed is in the log. It has a time of its own, then KILL. An
//! order to kill ends it at once, and so does the end of a binding lease. Its end changes nothing of the step's.

use std::time::Duration;

use protocol::attempt::{CleanupCut, CleanupEnd, EndResult, StopReason};

use crate::clock;

/// A cleanup that has its turn.
#[derive(Debug)]
pub(super) struct Cleaning {
    reason: StopReason,
    budget: Duration,
    began_at: Duration,
    /// `None`: it has ended, or was killed.
    kill_at: Option<Duration>,
    cut: Option<CleanupCut>,
    ended: Option<(EndResult, Duration)>,
}

impl Cleaning {
    pub(super) fn new(reason: StopReason, budget: Duration, now: Duration) -> Self {
        let kill_at = Some(now.saturating_add(budget));
        Cleaning { reason, budget, began_at: now, kill_at, cut: None, ended: None }
    }

    /// Its process executes: from here on its time runs. The words that open its part of the log.
    pub(super) fn started(&mut self, now: Duration) -> String {
        self.began_at = now;
        self.kill_at = Some(now.saturating_add(self.budget));
        let why = match self.reason {
            StopReason::Timeout => "took longer than its timeout",
            _ => "was cancelled",
        };
        format!("--- Cleanup begins: the step {why}. It has {}. ---", seconds(self.budget))
    }

    pub(super) fn lives(&self) -> bool {
        self.ended.is_none()
    }

    /// When its time is over; `None` if it has ended or was killed.
    pub(super) fn kill_at(&self) -> Option<Duration> {
        self.kill_at
    }

    /// The first reason stays. Whether there is anything to kill that was not killed before.
    pub(super) fn cut(&mut self, why: CleanupCut) -> bool {
        let news = self.kill_at.take().is_some();
        if news {
            self.cut = Some(why);
        }
        news
    }

    pub(super) fn ended(&mut self, result: EndResult, now: Duration) {
        if self.ended.is_none() {
            self.kill_at = None;
            self.ended = Some((result, now));
        }
    }

    /// How it ended, and the words that close its part of the log. `None` while it lives.
    pub(super) fn close(&self) -> Option<(CleanupEnd, String)> {
        let (result, at) = self.ended.clone()?;
        let took = at.saturating_sub(self.began_at);
        let words = self.last_words(&result, took);
        Some((CleanupEnd { result, cut: self.cut, duration_ms: clock::to_ms(took) }, words))
    }

    fn last_words(&self, result: &EndResult, took: Duration) -> String {
        let took = seconds(took);
        match (self.cut, result) {
            (_, EndResult::SpawnFailed { message }) => format!("--- Cleanup could not be started: {message} ---"),
            (Some(CleanupCut::Budget), _) => {
                format!("--- Cleanup was killed after {took}: it had {} ---", seconds(self.budget))
            }
            (Some(CleanupCut::Killed | CleanupCut::Other), _) => {
                format!("--- Cleanup was killed after {took}: the step was to end at once ---")
            }
            (Some(CleanupCut::LeaseExpired), _) => {
                format!("--- Cleanup was killed after {took}: its lease was over ---")
            }
            (None, EndResult::Exited { code: 0 }) => format!("--- Cleanup ended well after {took} ---"),
            (None, EndResult::Exited { code }) => format!("--- Cleanup failed after {took}: exit code {code} ---"),
            (None, EndResult::Signaled { oom: true, .. }) => {
                format!("--- Cleanup failed after {took}: it was out of memory ---")
            }
            (None, EndResult::Signaled { signal, oom: false }) => {
                format!("--- Cleanup failed after {took}: ended by signal {signal} ---")
            }
        }
    }
}

/// `30s`, `1.2s`.
fn seconds(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    match tenths % 10 {
        0 => format!("{}s", tenths / 10),
        rest => format!("{}.{rest}s", tenths / 10),
    }
}
