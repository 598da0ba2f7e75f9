//! Leases and signs of life: what runners ask of the server passes through here, and where a runner is frozen or
//! dead the agent ends its step in its place.

use std::collections::VecDeque;
use std::time::Duration;

use planted::Bug;
use protocol::attempt::{AttemptSpec, OnDisconnect, Ticket};
use protocol::folder::RunnerRules;
use protocol::link::{LinkSettings, Renewal, RunnerBeat, WorkerMessage};

use super::Agent;
use super::event::{Action, FoundLease};
use super::held::{Held, Phase};

/// Questions of one runner whose answers still count.
const OPEN_MAX: usize = 16;
/// What a runner gets on top of its lease to end its step itself: a twentieth, and this much at most.
const HEADSTART_MAX: Duration = Duration::from_secs(1);

/// The agent's own idea of an attempt's lease. It is never shorter than the runner's, and hardly longer.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// `None`: the step does not end with its lease.
    length: Option<Duration>,
    from: Duration,
    /// Questions without an answer, and when the runner sent them.
    open: VecDeque<(u64, Duration)>,
    acted: bool,
}

impl Guard {
    pub(super) fn of(spec: &AttemptSpec) -> Self {
        let binding = spec.on_disconnect == OnDisconnect::Stop && !planted::is(Bug::LeaseIgnored);
        let length = spec.lease_ms.filter(|_| binding);
        Guard { length: length.map(Duration::from_millis), ..Guard::default() }
    }

    pub(super) fn found(lease: FoundLease) -> Self {
        Guard { length: Some(lease.length), from: lease.from, ..Guard::default() }
    }

    pub(super) fn granted(&mut self, asked_at: Duration) {
        self.from = asked_at;
    }

    fn asked(&mut self, n: u64, at: Duration) {
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back((n, at));
        if planted::is(Bug::LeaseFromLastQuestion) {
            self.from = at;
        }
    }

    fn answered(&mut self, n: u64) {
        if let Some(at) = self.open.iter().position(|(number, _)| *number == n) {
            self.from = self.from.max(self.open[at].1);
            self.open.drain(..=at);
        }
    }

    fn acts_at(&self) -> Option<Duration> {
        let length = self.length.filter(|_| !self.acted)?;
        Some(self.from.saturating_add(length).saturating_add((length / 20).min(HEADSTART_MAX)))
    }
}

/// A runner's process, as it was last heard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sign {
    pub(super) pid: u32,
    pub(super) at: Duration,
}

impl Agent {
    /// A runner asks whether its step may go on.
    pub(super) fn asks_to_renew(&mut self, ticket: Ticket, n: u64, asked_at: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        held.guard.asked(n, asked_at);
        if planted::is(Bug::WorkerRenews) && !self.out.link_stands {
            return self.renewed(&[Renewal { ticket, n }]);
        }
        self.out.say(WorkerMessage::Renew { renewals: vec![Renewal { ticket, n }] });
    }

    pub(super) fn renewed(&mut self, renewals: &[Renewal]) {
        for Renewal { ticket, n } in renewals {
            if let Some(held) = self.held.get_mut(ticket) {
                held.guard.answered(*n);
                self.out.push(Action::Renewed { ticket: *ticket, n: *n });
            }
        }
    }

    /// On a new link: what was asked while there was none. Its answer counts from when it was asked.
    pub(super) fn ask_again_to_renew(&mut self) {
        let open = self.held.iter().filter(|(_, held)| held.may_run());
        let renewals: Vec<Renewal> = open
            .filter_map(|(ticket, held)| held.guard.open.back().map(|(n, _)| Renewal { ticket: *ticket, n: *n }))
            .collect();
        if !renewals.is_empty() {
            self.out.say(WorkerMessage::Renew { renewals });
        }
    }

    /// The second guard of the lease: the runner should have ended its step by now.
    pub(super) fn guard_leases(&mut self, now: Duration) {
        for (ticket, held) in self.held.iter_mut().filter(|(_, held)| held.may_run()) {
            if held.guard.acts_at().is_some_and(|at| now >= at) {
                held.guard.acted = true;
                self.out.push(Action::EndLease { ticket: *ticket });
            }
        }
    }

    pub(super) fn lease_deadline(&self) -> Option<Duration> {
        self.held.values().filter(|held| held.may_run()).filter_map(|held| held.guard.acts_at()).min()
    }

    /// Whatever a runner says shows that it lives; its number is known once it has said it.
    pub(super) fn heard_runner(&mut self, ticket: Ticket, pid: Option<u32>, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        held.sign = pid.or(held.sign.map(|sign| sign.pid)).map(|pid| Sign { pid, at: now });
    }

    /// For the heartbeat.
    pub(super) fn runner_beats(&self, now: Duration) -> Vec<RunnerBeat> {
        let beat = |ticket: Ticket, held: &Held| {
            let Sign { pid, at } = held.sign?;
            let age = if planted::is(Bug::SilentRunnerBeats) { 0 } else { now.saturating_sub(at).as_millis() };
            Some(RunnerBeat { ticket, pid, age_ms: u64::try_from(age).unwrap_or(u64::MAX) })
        };
        // While it carries an attempt's files the worker speaks for itself.
        let pid = self.hello.pid;
        let carried = self.held.iter().filter(|(_, held)| held.is_carried());
        let carried = carried.map(|(ticket, _)| RunnerBeat { ticket: *ticket, pid, age_ms: 0 });
        let running = self.held.iter().filter(|(_, held)| held.may_run());
        running.filter_map(|(ticket, held)| beat(*ticket, held)).chain(carried).collect()
    }

    /// What the server wants of runners; those that live are told when it changes.
    pub(super) fn adjust_rules(&mut self, settings: &LinkSettings) {
        let rules =
            RunnerRules { beat_ms: settings.runner_heartbeat_ms, caretaker_after_ms: settings.caretaker_after_ms };
        if rules == self.rules {
            return;
        }
        self.rules = rules;
        let living: Vec<Ticket> =
            self.held.iter().filter(|(_, held)| held.is_active()).map(|(ticket, _)| *ticket).collect();
        for ticket in living {
            self.tell_rules(ticket);
        }
    }

    /// A runner that another worker started may know older ones.
    pub(super) fn tell_rules(&mut self, ticket: Ticket) {
        if self.rules != RunnerRules::default() {
            self.out.push(Action::Rules { ticket, rules: self.rules });
        }
    }
}

impl Held {
    fn may_run(&self) -> bool {
        matches!(self.phase, Phase::Going | Phase::Running { .. } | Phase::Voiding { told: true, .. })
    }
}
