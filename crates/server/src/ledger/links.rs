//! What connected workers say, turned into events; and what is still owed to each of them.

use std::collections::{HashMap, HashSet};

use engine::attempt::{Loss, Outcome, Report, Stopped, Usage};
use engine::{AttemptId, Event, Rejection, State, Time, WorkerId};
use pause::Point;
use protocol::attempt::{End, EndResult, StopReason, Ticket};
use protocol::link::{self as wire, ServerMessage, WorkerMessage};
use serde_json::Value;
use store::Store;
use store::rows::LateOutcome;

use crate::dispatch::{LinkId, Place};

use super::command::{EventError, LinkSender};
use super::core::Core;
use super::round::{Round, engine_ticket};

/// One connected worker, as the ledger sees it.
pub(super) struct Link {
    pub worker: WorkerId,
    pub sender: LinkSender,
    /// Counts offers, goes and forgets.
    pub number: u64,
    /// Attempts whose end is on record, and whose log is not whole yet.
    pub ended: HashSet<AttemptId>,
    pub logs: HashMap<AttemptId, LogPosition>,
}

/// How far an attempt's log is stored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogPosition {
    pub last_seq: u64,
    /// It is whole, and not only closed because its time was over.
    pub complete: bool,
    /// Nobody waits for it any more; its next line opens it again.
    pub closed: bool,
    /// Lines right after `last_seq` that a mark says are gone.
    pub announced: u64,
    /// When it last grew on this link.
    pub moved_at: Option<Time>,
}

impl<S: Store> Core<S> {
    pub(super) fn link_messages(&mut self, link: LinkId, messages: &[WorkerMessage], round: &mut Round) {
        let Some(worker) = self.links.get(&link).map(|l| l.worker) else { return };
        if self.roster.heard_from(worker, round.now) {
            round.seen.insert(worker, round.now);
        }
        for message in messages {
            self.link_message(link, worker, message, round);
        }
    }

    fn link_message(&mut self, link: LinkId, worker: WorkerId, message: &WorkerMessage, round: &mut Round) {
        match message {
            WorkerMessage::Accept { ticket } => self.accepted(link, worker, *ticket, round),
            WorkerMessage::Refuse { ticket, reason, detail } => {
                // No more offers for it until it says with a heartbeat how many it can take.
                self.roster.update(worker, |w| {
                    if let Some(w) = w {
                        w.blocked = true;
                    }
                });
                tracing::warn!(%worker, attempt = %ticket.attempt, ?reason, detail, "a worker refused an offer");
                let reason = format!("{reason:?}: {detail}");
                self.about_attempt(link, *ticket, "refuse", round, |t| Event::Refused { ticket: t, reason });
            }
            WorkerMessage::Ended { ticket, end } => self.ended(link, *ticket, end, round),
            WorkerMessage::Lost { ticket, loss, .. } => self.lost(link, worker, *ticket, *loss, round),
            WorkerMessage::Heartbeat(beat) => {
                self.roster.update(worker, |w| {
                    if let Some(w) = w {
                        w.blocked = false;
                        w.ahead = beat.ahead;
                    }
                });
                self.roster.drain(worker, round.now, |drain| drain.own = beat.draining);
            }
            WorkerMessage::Started { ticket, pid } => {
                tracing::debug!(attempt = %ticket.attempt, pid, "a step's process started");
            }
            // Pings are answered by the link itself; a second hello is refused there.
            WorkerMessage::Ping { .. } | WorkerMessage::Pong { .. } => {}
            WorkerMessage::Hello(_) | WorkerMessage::Renew { .. } | WorkerMessage::Unknown => {}
        }
    }

    fn accepted(&mut self, link: LinkId, worker: WorkerId, ticket: Ticket, round: &mut Round) {
        pause::at(Point::Accepted);
        let epoch = self.roster.get(worker).map(|w| w.epoch).unwrap_or_default();
        self.about_attempt(link, ticket, "accept", round, |t| Event::Accepted { ticket: t, epoch });
    }

    fn ended(&mut self, link: LinkId, ticket: Ticket, end: &End, round: &mut Round) {
        let Some(place) = self.place(AttemptId(ticket.attempt)) else {
            self.stale(link, ticket, "ended", round);
            return;
        };
        round.log_ends.insert(AttemptId(ticket.attempt), end.log_last_seq);
        let event = Event::Ended { ticket: engine_ticket(ticket, place.step), report: report(end) };
        match self.apply(place.job, &event, round) {
            Ok(()) => {}
            Err(EventError::Rejected(Rejection::Stale(_) | Rejection::JobFinal(_))) => {
                // The truth comes late: it changes no state, and is kept as evidence before it is answered.
                let outcome = serde_json::to_string(end).expect("an end is plain data and always has a JSON form");
                let attempt = AttemptId(ticket.attempt);
                round.late_outcomes.push(LateOutcome { attempt, outcome, at: round.now });
                self.stale(link, ticket, "ended", round);
                self.mark_ended(link, attempt, ticket, round);
            }
            Err(error) => self.failed(place, &error, round),
        }
    }

    fn lost(&mut self, link: LinkId, worker: WorkerId, ticket: Ticket, loss: wire::Loss, round: &mut Round) {
        let epoch = self.roster.get(worker).map(|w| w.epoch).unwrap_or_default();
        let loss = match loss {
            wire::Loss::Void => Loss::Void,
            wire::Loss::RunnerLost => Loss::RunnerLost,
            wire::Loss::ResultNotAvailable => Loss::ResultNotAvailable,
            wire::Loss::MachineRebooted => Loss::MachineRebooted,
            wire::Loss::LeaseExpired => Loss::LeaseExpired,
        };
        let never_started = loss == Loss::Void;
        self.about_attempt(link, ticket, "lost", round, |t| Event::Gone { ticket: t, epoch, loss });
        if never_started {
            self.log_is_empty(link, AttemptId(ticket.attempt), round);
        }
        self.mark_ended(link, AttemptId(ticket.attempt), ticket, round);
    }

    /// Applies an event about an attempt; a stale one is answered as such.
    pub(super) fn about_attempt(
        &mut self,
        link: LinkId,
        ticket: Ticket,
        about: &str,
        round: &mut Round,
        event: impl FnOnce(engine::event::Ticket) -> Event,
    ) {
        let Some(place) = self.place(AttemptId(ticket.attempt)) else {
            self.stale(link, ticket, about, round);
            return;
        };
        match self.apply(place.job, &event(engine_ticket(ticket, place.step)), round) {
            Ok(()) => {}
            Err(EventError::Rejected(_) | EventError::NoSuchJob) => self.stale(link, ticket, about, round),
            Err(error @ EventError::Internal(_)) => self.failed(place, &error, round),
        }
    }

    fn failed(&mut self, place: Place, error: &EventError, round: &mut Round) {
        tracing::error!(job = %place.job, step = place.step.0, %error, "an event could not be handled");
        round.quarantine.push(store::rows::QuarantineRow {
            job: Some(place.job),
            at: round.now,
            event: format!("step {}", place.step.0),
            error: error.to_string(),
        });
    }

    fn stale(&mut self, link: LinkId, ticket: Ticket, about: &str, round: &mut Round) {
        self.metrics.stale.inc();
        let message = ServerMessage::StaleDispatch { ticket, about: about.to_owned() };
        round.outgoing.push((None, link, message));
    }

    /// The engine has the end on record: the worker may forget it once the log is whole too.
    pub(super) fn end_recorded(&mut self, worker: WorkerId, attempt: AttemptId, ticket: Ticket, round: &mut Round) {
        if let Some(link) = self.effect_target(worker) {
            self.mark_ended(link, attempt, ticket, round);
        }
    }

    pub(super) fn mark_ended(&mut self, link: LinkId, attempt: AttemptId, ticket: Ticket, round: &mut Round) {
        if let Some(known) = self.links.get_mut(&link) {
            known.ended.insert(attempt);
        }
        self.forget_if_whole(link, attempt, ticket, round);
    }

    pub(super) fn forget_if_whole(&mut self, link: LinkId, attempt: AttemptId, ticket: Ticket, round: &mut Round) {
        let position = self.log_position(link, attempt);
        if let Some(known) = self.links.get_mut(&link)
            && known.ended.contains(&attempt)
            && position.is_some_and(|p| p.complete)
        {
            known.ended.remove(&attempt);
            known.logs.remove(&attempt);
            round.whole.insert(attempt);
            round.outgoing.push((None, link, ServerMessage::Forget { number: 0, ticket }));
        }
    }

    /// Numbers what must be numbered, and sends. A worker that does not read is cut off; it will come back.
    pub(super) fn send(&mut self, link: LinkId, mut message: ServerMessage) {
        match &message {
            ServerMessage::Go { .. } => pause::at(Point::Granted),
            ServerMessage::Forget { .. } => pause::at(Point::ReportedNotAcknowledged),
            _ => {}
        }
        let Some(known) = self.links.get_mut(&link) else { return };
        if let ServerMessage::Offer { number, .. }
        | ServerMessage::Go { number, .. }
        | ServerMessage::Forget { number, .. } = &mut message
        {
            known.number += 1;
            *number = known.number;
        }
        if !known.sender.send(message) {
            tracing::warn!(worker = %known.worker, "the worker does not read its messages; its link is closed");
            known.sender.close();
        }
    }

    pub(super) fn link_closed(&mut self, link: LinkId, round: &mut Round) {
        let Some(closed) = self.links.remove(&link) else { return };
        let worker = closed.worker;
        // The end of an old connection says nothing about a newer one.
        if self.roster.get(worker).is_none_or(|w| w.link != Some(link)) {
            return;
        }
        self.roster.update(worker, |w| {
            if let Some(w) = w {
                w.link = None;
                w.left_at = Some(round.now);
            }
        });
        self.metrics.connected.set(i64::try_from(self.roster.connected()).unwrap_or(i64::MAX));
        self.links_gone(round);
    }

    /// Whatever is held by a worker without a link: offers are taken back, attempts get their recovery window.
    pub(super) fn links_gone(&mut self, round: &mut Round) {
        for (attempt, place) in self.cut_off() {
            self.link_gone(attempt, place, round);
        }
    }

    /// What workers without a link hold.
    pub(super) fn cut_off(&self) -> Vec<(AttemptId, Place)> {
        let away = self.roster.iter().filter(|(_, w)| w.link.is_none());
        away.flat_map(|(_, w)| w.held.iter().map(|(attempt, place)| (*attempt, *place))).collect()
    }

    pub(super) fn link_gone(&mut self, attempt: AttemptId, place: Place, round: &mut Round) {
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return };
        let step = place.step;
        let event = match &cached.job.step(step).state {
            State::Queued(queued) => queued.offer.filter(|o| o.attempt == attempt).map(|o| Event::OfferLost {
                ticket: engine::event::Ticket { step, attempt, fence: o.fence },
                epoch: o.epoch,
            }),
            state @ (State::Running(_) | State::Cancelling(_)) => state.live().map(|l| Event::LinkLost {
                ticket: engine::event::Ticket { step, attempt, fence: l.fence },
                epoch: l.epoch,
            }),
            State::Recovering(_) | State::Pending | State::Held(_) | State::Waiting(_) | State::Final(_) => None,
        };
        if let Some(event) = event
            && let Err(error) = self.apply(place.job, &event, round)
        {
            tracing::debug!(job = %place.job, step = step.0, %error, "a lost link changed nothing");
        }
    }
}

/// The attempt that a message speaks of.
pub(super) fn ticket_of(message: &WorkerMessage) -> Option<Ticket> {
    match message {
        WorkerMessage::Accept { ticket }
        | WorkerMessage::Refuse { ticket, .. }
        | WorkerMessage::Started { ticket, .. }
        | WorkerMessage::Ended { ticket, .. }
        | WorkerMessage::Lost { ticket, .. } => Some(*ticket),
        WorkerMessage::Hello(_)
        | WorkerMessage::Heartbeat(_)
        | WorkerMessage::Renew { .. }
        | WorkerMessage::Ping { .. }
        | WorkerMessage::Pong { .. }
        | WorkerMessage::Unknown => None,
    }
}

fn report(end: &End) -> Report {
    Report {
        outcome: match &end.result {
            EndResult::Exited { code } => Outcome::Exited(*code),
            EndResult::Signaled { signal, oom } => Outcome::Signaled { signal: *signal, oom: *oom },
            EndResult::SpawnFailed { message } => Outcome::SpawnFailed(message.clone()),
        },
        stopped: end.stopped.map(|reason| match reason {
            StopReason::Cancelled => Stopped::Cancelled,
            StopReason::Timeout => Stopped::Timeout,
            StopReason::LeaseExpired => Stopped::LeaseExpired,
            StopReason::Superseded | StopReason::WorkerStopped => Stopped::Worker,
        }),
        output: Value::Object(end.output.iter().map(|(k, v)| (k.clone(), v.clone())).collect()),
        output_error: end.output_error.clone(),
        usage: Usage { cpu_ms: end.cpu_ms, memory_bytes_max: end.memory_bytes_max },
    }
}
