//! Offers, leave to start, and orders from the server.

use std::time::Duration;

use planted::Bug;
use protocol::attempt::{AttemptSpec, StopMode, StopReason, Ticket};
use protocol::link::{Loss, RefuseReason, WorkerMessage};
use protocol::secret::SecretValues;

use super::Agent;
use super::event::Action;
use super::held::{AfterVoid, Barrier, Held, Leave, Phase};

/// How long a worker that could not prepare an attempt takes no other one.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Agent {
    pub(super) fn offered(&mut self, number: u64, spec: Box<AttemptSpec>) {
        self.session.number_seen(number);
        let ticket = spec.ticket;
        if let Some(held) = self.held.get(&ticket) {
            // Asked twice, answered twice; anything later than waiting speaks for itself.
            if held.phase == Phase::Waiting {
                self.out.say(WorkerMessage::Accept { ticket });
            }
            return;
        }
        if self.draining {
            return self.refuse(ticket, RefuseReason::Draining, "this worker is about to stop".to_owned());
        }
        if self.free_slots() == 0 && !self.has_room_ahead() {
            self.session.ask_for_slots_later();
            let detail = format!("all {} slots are taken", self.hello.slots);
            return self.refuse(ticket, RefuseReason::Busy, detail);
        }
        self.held.insert(ticket, Held::offered(&spec));
        self.out.push(Action::Prepare { spec, rules: self.rules });
    }

    /// Something went wrong here, maybe only this once: the slots are offered again soon, not at the next heartbeat's
    /// usual time, and not at once, since it may go wrong again.
    pub(super) fn refuse_broken(&mut self, ticket: Ticket, reason: RefuseReason, detail: String, now: Duration) {
        self.refuse(ticket, reason, detail);
        self.session.heartbeat_by(now + AFTER_FAILURE);
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, reason: RefuseReason, detail: String) {
        self.out.say(WorkerMessage::Refuse { ticket, reason, detail });
    }

    /// May I start?
    pub(super) fn ask(&mut self, ticket: Ticket, now: Duration) {
        if let Some(held) = self.held.get_mut(&ticket) {
            held.said_at = Some(now);
            self.out.say(WorkerMessage::Accept { ticket });
        }
    }

    /// Asks again after an answer that came too late or not at all; see [`Barrier`].
    pub(super) fn ask_anew(&mut self, ticket: Ticket, now: Duration) {
        let ping = self.session.next_ping();
        if let Some(held) = self.held.get_mut(&ticket) {
            held.barrier = Some(Barrier { ping, go_dropped: false });
            self.out.say(WorkerMessage::Ping { n: ping });
            self.ask(ticket, now);
        }
    }

    /// The leave that was granted is an old one by now. Without a link the next hello asks.
    pub(super) fn ask_for_fresh_leave(&mut self, ticket: Ticket, now: Duration) {
        if self.out.link_stands {
            self.ask_anew(ticket, now);
        }
    }

    pub(super) fn pong(&mut self, n: u64, now: Duration) {
        let mut ask_again = Vec::new();
        for (ticket, held) in &mut self.held {
            if let Some(barrier) = held.barrier.take_if(|barrier| barrier.ping <= n)
                && barrier.go_dropped
                && held.phase == Phase::Waiting
            {
                ask_again.push(*ticket);
            }
        }
        for ticket in ask_again {
            self.ask(ticket, now);
        }
    }

    /// The start is committed. But a `go` that was long on its way may have been overtaken by another verdict.
    pub(super) fn go(&mut self, ticket: Ticket, now: Duration) {
        let (Some(held), Some(patience)) = (self.held.get_mut(&ticket), self.session.patience()) else { return };
        if held.phase != Phase::Waiting {
            // Repeated, or it is on its way out, and then says so itself.
            return;
        }
        if let Some(barrier) = &mut held.barrier {
            barrier.go_dropped = true;
            return;
        }
        match held.said_at {
            Some(said_at) if now <= said_at + patience || planted::is(Bug::LateGoUsed) => {
                if !self.has_its_files(ticket, now) {
                    return;
                }
                let Some(held) = self.held.get_mut(&ticket) else { return };
                let until = (!planted::is(Bug::LateGoUsed)).then_some(said_at + patience);
                let leave = Leave { asked_at: said_at, until };
                held.phase = Phase::Going;
                held.leave = Some(leave);
                held.guard.granted(said_at);
                // With one step to run, the first that starts is the one.
                self.draining |= self.once;
                self.let_go_ahead(ticket, leave);
                self.ship(ticket, 0);
            }
            _ => self.ask_anew(ticket, now),
        }
    }

    /// What the runner is to be given with the `go` that follows.
    pub(super) fn secrets_came(&mut self, ticket: Ticket, values: SecretValues) {
        if let Some(held) = self.held.get_mut(&ticket).filter(|held| held.phase == Phase::Waiting) {
            held.secrets = Some(values);
        }
    }

    /// Lets the runner go, with all that it is given.
    pub(super) fn let_go_ahead(&mut self, ticket: Ticket, leave: Leave) {
        let Some(held) = self.held.get(&ticket) else { return };
        let (secrets, cannot) = (held.secrets.clone(), held.files.cannot());
        if let Some(values) = secrets {
            self.out.push(Action::GiveSecrets { ticket, values });
        }
        self.out.push(Action::Go { ticket, asked_at: leave.asked_at, until: leave.until, cannot });
    }

    pub(super) fn withdrawn(&mut self, ticket: Ticket) {
        // With leave to start it is no offer any more.
        if self.held.get(&ticket).is_some_and(|held| held.phase != Phase::Going) {
            self.make_void(ticket, AfterVoid::Discard);
        }
    }

    /// What was said changed nothing.
    pub(super) fn stale(&mut self, ticket: Ticket, about: &str) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        if about == "log" {
            // Nobody there takes these lines; what is on its way must not fill the window for ever.
            self.out.push(Action::StopShipping { ticket });
            return;
        }
        match &held.phase {
            // It may have been granted, and given up since: that it is over is on record when this says so, not before.
            Phase::Preparing { .. } | Phase::Waiting => self.make_void(ticket, AfterVoid::Report),
            // It never started and nobody wants to know: there is no evidence to keep.
            Phase::Lost { loss: Loss::Void, .. } => self.let_go(ticket, Action::Discard { ticket }),
            // The evidence is on record; `forget` comes when the log is, too.
            Phase::Ended { .. } | Phase::Lost { .. } => held.settled = true,
            Phase::Going | Phase::Running { .. } | Phase::Unreadable | Phase::Voiding { .. } => {
                tracing::debug!(attempt = %ticket.attempt, about, "the server calls a message stale; the step goes on");
            }
        }
    }

    /// Given up by the server, but not to be stopped: what runs, runs on.
    pub(super) fn finish(&mut self, ticket: Ticket) {
        if self.is_before_go(ticket) {
            self.make_void(ticket, AfterVoid::Report);
        }
    }

    pub(super) fn stop_attempt(&mut self, ticket: Ticket, mode: StopMode, reason: StopReason, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        match held.phase {
            Phase::Running { .. } => self.out.push(Action::StopRunner { ticket, mode, reason }),
            // Also with leave to start: its runner may hear of neither for a long time, and would start it only to stop it.
            Phase::Preparing { .. } | Phase::Waiting | Phase::Going | Phase::Voiding { .. } => {
                // Should the claim turn out to be lost, the order still holds.
                held.stop = Some((mode, reason));
                self.make_void(ticket, AfterVoid::Report);
            }
            Phase::Unreadable => {
                tracing::warn!(attempt = %ticket.attempt, "told to stop a step whose folder cannot be read; it is left alone");
            }
            Phase::Ended { .. } => self.stop_storing(ticket, mode, now),
            Phase::Lost { .. } => {}
        }
    }

    /// The server has all of it, or never wanted it.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        let Some(held) = self.held.get(&ticket) else { return };
        match held.phase {
            Phase::Ended { .. } => {
                if held.files.is_storing() {
                    self.out.push(Action::Bye { ticket });
                }
                self.let_go(ticket, Action::Forget { ticket });
            }
            Phase::Lost { loss: Loss::Void, .. } => self.let_go(ticket, Action::Discard { ticket }),
            Phase::Lost { .. } => self.let_go(ticket, Action::Forget { ticket }),
            Phase::Preparing { .. } | Phase::Waiting | Phase::Voiding { .. } => {
                self.make_void(ticket, AfterVoid::Discard);
            }
            Phase::Going | Phase::Running { .. } | Phase::Unreadable => {
                tracing::warn!(attempt = %ticket.attempt, "told to forget a step that runs; it is kept");
            }
        }
    }

    fn let_go(&mut self, ticket: Ticket, how: Action) {
        self.held.remove(&ticket);
        self.out.push(how);
    }

    pub(super) fn is_before_go(&self, ticket: Ticket) -> bool {
        matches!(self.held.get(&ticket), Some(Held { phase: Phase::Preparing { .. } | Phase::Waiting, .. }))
    }

    /// Takes an attempt back that has not started yet. The claim in its folder decides.
    pub(super) fn make_void(&mut self, ticket: Ticket, then: AfterVoid) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        match &mut held.phase {
            Phase::Preparing { give_up } => *give_up = Some(then),
            Phase::Voiding { then: planned, .. } => *planned = then,
            Phase::Waiting | Phase::Going => {
                if held.files.is_fetching() {
                    self.out.push(Action::StopFiles { ticket });
                }
                let told = held.phase == Phase::Going;
                held.phase = Phase::Voiding { then, told };
                self.out.push(Action::Void { ticket, told });
            }
            Phase::Running { .. } | Phase::Unreadable | Phase::Ended { .. } | Phase::Lost { .. } => {}
        }
    }
}
