//! The lease: how long this machine may be sure that the attempt is the step's current one.
//!
//! It is counted from when the runner *sent* the last renewal that was answered, so no delay on the way can make it
//! longer than the server thinks. All times are on the clock that runs on while the machine sleeps. A step that keeps
//! running when it is cut off has one as well, but only for those who ask whether it still is the owner.

use std::collections::VecDeque;
use std::time::Duration;

use planted::Bug;
use protocol::attempt::{AttemptSpec, OnDisconnect};
use protocol::folder::Ownership;

use crate::clock;

/// So many questions per lease where the step ends with it: a few may be lost before it hurts.
const QUESTIONS_BINDING: u32 = 8;
/// And where it does not.
const QUESTIONS_FREE: u32 = 3;
/// Questions whose answers still count. Older ones would add nothing.
const OPEN_MAX: usize = 16;

/// What the server grants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    length: Duration,
    /// Between the signal and the end.
    grace: Duration,
    /// The step ends with it.
    binding: bool,
}

impl Terms {
    /// `None` if the server names no length.
    pub(super) fn of(spec: &AttemptSpec) -> Option<Self> {
        let length = Duration::from_millis(spec.lease_ms?);
        let binding = spec.on_disconnect == OnDisconnect::Stop && !planted::is(Bug::LeaseIgnored);
        let grace = Duration::from_millis(spec.stop.grace_ms).min(length / 3);
        Some(Terms { length, grace, binding })
    }
}

#[derive(Debug)]
pub(super) struct Lease {
    terms: Terms,
    from: Duration,
    asked: u64,
    ask_at: Duration,
    /// Questions without an answer, and when they were sent.
    open: VecDeque<(u64, Duration)>,
}

impl Lease {
    /// `asked_at`: when the server was asked for the start.
    pub(super) fn new(terms: Terms, asked_at: Duration) -> Self {
        let mut lease = Lease { terms, from: asked_at, asked: 0, ask_at: asked_at, open: VecDeque::new() };
        lease.ask_at = asked_at.saturating_add(lease.interval());
        lease
    }

    pub(super) fn ends_at(&self) -> Duration {
        self.from.saturating_add(self.terms.length)
    }

    /// When the step must be asked to stop, so that it has its grace before the end. `None`: never.
    pub(super) fn signal_at(&self) -> Option<Duration> {
        self.terms.binding.then(|| self.ends_at().saturating_sub(self.terms.grace))
    }

    /// When nothing of the step may live any more. `None`: it may.
    pub(super) fn kill_at(&self) -> Option<Duration> {
        self.terms.binding.then(|| self.ends_at())
    }

    pub(super) fn ask_at(&self) -> Duration {
        self.ask_at
    }

    /// The number of the question that is to be sent now, if it is time.
    pub(super) fn ask(&mut self, now: Duration) -> Option<u64> {
        if now < self.ask_at {
            return None;
        }
        self.asked += 1;
        self.ask_at = now.saturating_add(self.interval());
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back((self.asked, now));
        Some(self.asked)
    }

    /// Somebody new listens: the next question is due at once.
    pub(super) fn ask_soon(&mut self, now: Duration) {
        self.ask_at = self.ask_at.min(now);
    }

    /// Whether the answer says anything new.
    pub(super) fn answered(&mut self, n: u64) -> bool {
        let Some(at) = self.open.iter().position(|(number, _)| *number == n) else { return false };
        let (_, sent_at) = self.open[at];
        self.open.drain(..=at);
        let news = sent_at > self.from;
        self.from = self.from.max(sent_at);
        news
    }

    pub(super) fn ownership(&self) -> Ownership {
        Ownership { confirmed_ms: clock::to_ms(self.from), until_ms: clock::to_ms(self.ends_at()) }
    }

    fn interval(&self) -> Duration {
        self.terms.length / if self.terms.binding { QUESTIONS_BINDING } else { QUESTIONS_FREE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::attempt::{Effects, Program, SPEC_FORMAT, StopPlan, Ticket};

    const START: Duration = Duration::from_secs(1000);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(on_disconnect: OnDisconnect, grace: u64) -> Lease {
        let spec = AttemptSpec {
            format: SPEC_FORMAT,
            ticket: Ticket { attempt: uuid::Uuid::nil(), fence: 1 },
            job: uuid::Uuid::nil(),
            task: String::new(),
            step: String::new(),
            number: 1,
            program: Program::Command { argv: Vec::new() },
            env: Default::default(),
            workdir: None,
            timeout_ms: None,
            effects: Effects::Writes,
            on_disconnect,
            lease_ms: Some(96_000),
            stop: StopPlan { signal: 15, grace_ms: grace * 1000 },
            cleanup: None,
            secrets: Vec::new(),
            artifacts: None,
            fetch: Vec::new(),
        };
        Lease::new(Terms::of(&spec).expect("a length is named"), START)
    }

    #[test]
    fn it_runs_from_the_question_not_from_the_answer() {
        let mut lease = lease(OnDisconnect::Stop, 10);
        assert_eq!(lease.kill_at(), Some(START + seconds(96)));
        assert_eq!(lease.ask(START), None, "not yet");
        assert_eq!(lease.ask(START + seconds(12)), Some(1));
        assert_eq!(lease.kill_at(), Some(START + seconds(96)), "a question extends nothing");
        assert!(lease.answered(1), "however late it comes");
        assert_eq!(lease.kill_at(), Some(START + seconds(108)));
    }

    #[test]
    fn answers_that_are_late_repeated_or_made_up_never_shorten_or_stretch_it() {
        let mut lease = lease(OnDisconnect::Stop, 10);
        for n in 1..=3 {
            assert_eq!(lease.ask(START + seconds(12 * n)), Some(n));
        }
        assert!(lease.answered(3));
        for n in [1, 2, 3, 4, 0] {
            assert!(!lease.answered(n), "{n}");
        }
        assert_eq!(lease.ends_at(), START + seconds(36 + 96));
    }

    #[test]
    fn the_grace_comes_out_of_the_lease_and_is_a_third_at_most() {
        assert_eq!(lease(OnDisconnect::Stop, 10).signal_at(), Some(START + seconds(86)));
        assert_eq!(lease(OnDisconnect::Stop, 3600).signal_at(), Some(START + seconds(64)));
    }

    #[test]
    fn a_step_that_keeps_running_only_knows_how_sure_it_is() {
        let mut lease = lease(OnDisconnect::Keep, 10);
        assert_eq!((lease.signal_at(), lease.kill_at()), (None, None));
        assert_eq!(lease.ask(START + seconds(32)), Some(1));
        lease.answered(1);
        assert_eq!(lease.ownership(), Ownership { confirmed_ms: 1_032_000, until_ms: 1_128_000 });
    }

    #[test]
    fn questions_without_answers_do_not_pile_up() {
        let mut lease = lease(OnDisconnect::Stop, 10);
        for n in 1..=100 {
            assert_eq!(lease.ask(START + seconds(12 * n)), Some(n));
        }
        assert_eq!(lease.open.len(), OPEN_MAX);
        assert!(lease.answered(100));
        assert_eq!(lease.ends_at(), START + seconds(1200 + 96));
    }

    #[test]
    fn a_new_listener_is_asked_at_once() {
        let mut lease = lease(OnDisconnect::Stop, 10);
        lease.ask_soon(START + seconds(1));
        assert_eq!(lease.ask(START + seconds(1)), Some(1));
        assert_eq!(lease.ask(START + seconds(2)), None);
    }
}
