//! What runners say, and what their folders say when they are silent.

use std::time::Duration;

use planted::Bug;
use protocol::attempt::{End, Ticket};
use protocol::folder::{Claim, FromRunner};
use protocol::link::{Loss, RefuseReason, WorkerMessage};

use super::Agent;
use super::event::{Action, Finding};
use super::held::{AfterVoid, Phase};

impl Agent {
    pub(super) fn prepare_failed(&mut self, ticket: Ticket, reason: RefuseReason, detail: String, now: Duration) {
        let Some(held) = self.held.get(&ticket) else { return };
        match held.phase {
            Phase::Preparing { give_up: None } => {
                self.held.remove(&ticket);
                self.refuse_broken(ticket, reason, detail, now);
            }
            Phase::Preparing { give_up: Some(then) } => self.voided(ticket, then, &detail, now),
            _ => {}
        }
    }

    pub(super) fn runner_said(&mut self, ticket: Ticket, said: FromRunner, now: Duration) {
        let pid = match said {
            FromRunner::Ready { pid, .. } | FromRunner::Beat { pid } => Some(pid),
            _ => None,
        };
        self.heard_runner(ticket, pid, now);
        match said {
            FromRunner::Ready { .. } => self.runner_ready(ticket, now),
            FromRunner::Started { pid, .. } => self.started(ticket, pid),
            FromRunner::Log { first_seq, last_seq, .. } => self.log_grew(ticket, first_seq, last_seq),
            FromRunner::Ended { end } => self.ended(ticket, Box::new(end), now),
            FromRunner::Refused { why } => self.runner_refused(ticket, why, now),
            FromRunner::Renew { n, asked_at_ms } => {
                self.asks_to_renew(ticket, n, Duration::from_millis(asked_at_ms).min(now));
            }
            FromRunner::Status { .. } | FromRunner::Beat { .. } | FromRunner::Unknown => {}
        }
    }

    fn runner_ready(&mut self, ticket: Ticket, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        match held.phase {
            Phase::Preparing { give_up } => {
                held.phase = Phase::Waiting;
                match give_up {
                    None => self.ask_when_free(ticket, now),
                    Some(then) => self.make_void(ticket, then),
                }
            }
            // The runner was asked to go by a connection that broke before it heard; or it heard too late.
            Phase::Going => match held.leave.filter(|leave| leave.until.is_none_or(|until| now <= until)) {
                Some(leave) => self.let_go_ahead(ticket, leave),
                None => {
                    held.phase = Phase::Waiting;
                    self.ask_for_fresh_leave(ticket, now);
                }
            },
            _ => {}
        }
    }

    fn started(&mut self, ticket: Ticket, pid: u32) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        let news = match held.phase {
            Phase::Preparing { .. } | Phase::Waiting | Phase::Going | Phase::Unreadable | Phase::Voiding { .. } => true,
            Phase::Running { pid: known } => known != Some(pid),
            Phase::Ended { .. } | Phase::Lost { .. } => return,
        };
        held.phase = Phase::Running { pid: Some(pid) };
        held.secrets = None;
        if news {
            self.out.say(WorkerMessage::Started { ticket, pid });
        }
        if let Some((mode, reason)) = held.stop.take() {
            self.out.push(Action::StopRunner { ticket, mode, reason });
        }
    }

    fn log_grew(&mut self, ticket: Ticket, first_seq: u64, last_seq: u64) {
        if let Some(held) = self.held.get_mut(&ticket) {
            held.log_begins_at(first_seq);
            held.log_reached(last_seq);
            self.out.push(Action::LogGrew { ticket });
        }
    }

    fn ended(&mut self, ticket: Ticket, end: Box<End>, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        if !held.is_active() {
            return self.say_bye(ticket);
        }
        let last_seq = Some(end.log_last_seq);
        held.log_reached(end.log_last_seq);
        self.pace.step_took(end.duration_ms);
        held.files.ended(&end);
        held.phase = Phase::Ended { end };
        held.secrets = None;
        self.say_bye(ticket);
        self.say_report(ticket, now);
        self.out.push(Action::LogEnded { ticket, last_seq });
        if planted::is(Bug::ForgottenOnReport) {
            self.held.remove(&ticket);
            self.out.push(Action::Forget { ticket });
        }
    }

    /// Lets the runner of an attempt that has ended go. While the files are being stored it stays: should this worker go meanwhile, it
    /// wakes the next one.
    pub(super) fn say_bye(&mut self, ticket: Ticket) {
        if self.held.get(&ticket).is_some_and(|held| !held.is_active() && !held.files.is_storing()) {
            self.out.push(Action::Bye { ticket });
        }
    }

    /// It did not start and never will.
    fn runner_refused(&mut self, ticket: Ticket, why: String, now: Duration) {
        let Some(held) = self.held.get(&ticket) else { return };
        match held.phase {
            Phase::Preparing { give_up: None } => {
                self.held.remove(&ticket);
                self.refuse_broken(ticket, RefuseReason::Broken, why, now);
                self.out.push(Action::Discard { ticket });
            }
            Phase::Preparing { give_up: Some(then) } => self.voided(ticket, then, &why, now),
            Phase::Waiting | Phase::Going => self.lost(ticket, Loss::Void, why, now),
            // The claim's own answer is on its way.
            Phase::Voiding { .. } => {}
            // A claim of intent came first: a runner that says otherwise has not even seen it.
            Phase::Running { .. } | Phase::Unreadable | Phase::Ended { .. } | Phase::Lost { .. } => {}
        }
    }

    /// A closed socket is no proof of anything; the lock and the record are.
    pub(super) fn runner_gone(&mut self, ticket: Ticket) {
        let Some(held) = self.held.get(&ticket) else { return };
        match held.phase {
            Phase::Preparing { .. } | Phase::Waiting | Phase::Going | Phase::Running { .. } | Phase::Unreadable => {
                self.out.push(Action::Examine { ticket });
            }
            Phase::Voiding { .. } | Phase::Ended { .. } | Phase::Lost { .. } => {}
        }
    }

    pub(super) fn examined(&mut self, ticket: Ticket, finding: Finding, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        if !held.is_active() {
            return;
        }
        match finding {
            // The shell has connected to it again, and it says itself how far it is.
            Finding::Waiting if held.phase == Phase::Unreadable => {
                // It counted as running until now, so the server has not been asked.
                held.phase = Phase::Waiting;
                self.tell_rules(ticket);
                self.ask_when_free(ticket, now);
            }
            Finding::Waiting | Finding::Running => {
                if held.phase == Phase::Unreadable {
                    held.phase = Phase::Running { pid: None };
                }
                self.tell_rules(ticket);
            }
            Finding::Unreadable => {}
            Finding::Ended(end) => self.ended(ticket, end, now),
            Finding::NeverStarted { detail } => match held.phase {
                Phase::Preparing { give_up: None } => {
                    self.held.remove(&ticket);
                    self.refuse_broken(ticket, RefuseReason::Broken, detail, now);
                    self.out.push(Action::Discard { ticket });
                }
                Phase::Preparing { give_up: Some(then) } | Phase::Voiding { then, .. } => {
                    self.voided(ticket, then, &detail, now);
                }
                _ => self.lost(ticket, Loss::Void, detail, now),
            },
            Finding::Unsure { detail } => self.lost(ticket, Loss::MachineRebooted, detail, now),
            Finding::Lost { loss, detail } => self.lost(ticket, loss, detail, now),
        }
    }

    /// Whoever was first decides.
    pub(super) fn claimed(&mut self, ticket: Ticket, claim: Claim, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        let Phase::Voiding { then, .. } = held.phase else { return };
        match claim {
            Claim::Void => {
                self.out.push(Action::SendAway { ticket });
                self.voided(ticket, then, "taken back before it was started", now);
            }
            Claim::Intent => {
                held.phase = Phase::Running { pid: None };
                if let Some((mode, reason)) = held.stop.take() {
                    self.out.push(Action::StopRunner { ticket, mode, reason });
                }
                // Whether the runner that claimed it still lives is not known.
                self.out.push(Action::Examine { ticket });
            }
        }
    }

    fn voided(&mut self, ticket: Ticket, then: AfterVoid, detail: &str, now: Duration) {
        match then {
            AfterVoid::Discard => {
                self.held.remove(&ticket);
                self.out.push(Action::Discard { ticket });
            }
            AfterVoid::Report => self.lost(ticket, Loss::Void, detail.to_owned(), now),
        }
    }

    fn lost(&mut self, ticket: Ticket, loss: Loss, detail: String, now: Duration) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        held.phase = Phase::Lost { loss, detail };
        held.secrets = None;
        self.say_report(ticket, now);
        if loss != Loss::Void {
            self.out.push(Action::LogEnded { ticket, last_seq: None });
        }
    }

    /// Says how it ended, unless the server has answered that already.
    pub(super) fn say_report(&mut self, ticket: Ticket, now: Duration) {
        if self.held.get(&ticket).is_none_or(|held| held.settled) || !self.has_left_its_files(ticket, now) {
            return;
        }
        let Some(held) = self.held.get_mut(&ticket) else { return };
        if let Some(report) = held.report(ticket) {
            held.said_at = Some(now);
            held.tries += 1;
            let gives_up = planted::is(Bug::GivenUpAfterThreeTries) && held.tries > 3;
            self.out.say(report);
            if gives_up {
                self.held.remove(&ticket);
                self.out.push(Action::Forget { ticket });
            }
        }
    }

    /// The server asks once per link, and it may turn out later that there is a log.
    pub(super) fn ship_if_wanted(&mut self, ticket: Ticket) {
        if let Some(after_seq) = self.held.get(&ticket).and_then(|held| held.log_wanted_after) {
            self.ship(ticket, after_seq);
        }
    }

    /// Starts the log from `after_seq`, and ends it where the attempt has ended.
    pub(super) fn ship(&mut self, ticket: Ticket, after_seq: u64) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        held.log_wanted_after = None;
        let last_seq = match &held.phase {
            Phase::Preparing { .. } | Phase::Waiting | Phase::Voiding { .. } | Phase::Unreadable => {
                held.log_wanted_after = Some(after_seq);
                return;
            }
            Phase::Lost { loss: Loss::Void, .. } => return,
            Phase::Going | Phase::Running { .. } => {
                self.out.push(Action::Ship { ticket, after_seq });
                if held.has_lines_after(after_seq) {
                    self.out.push(Action::LogGrew { ticket });
                }
                return;
            }
            Phase::Ended { end } => Some(end.log_last_seq),
            Phase::Lost { .. } => None,
        };
        self.out.push(Action::Ship { ticket, after_seq });
        self.out.push(Action::LogEnded { ticket, last_seq });
    }
}
