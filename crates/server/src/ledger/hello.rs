//! A worker comes, or comes back: its new epoch, and one verdict for each attempt that it brings.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::attempt::Loss;
use engine::{AttemptId, Epoch, Event, State, Time, WorkerId};
use protocol::link::{
    HeldAttempt, HeldState, Hello, PROTOCOL_VERSION, RefusedCode, ServerMessage, Verdict, VerdictKind, Welcome,
};
use store::Store;
use store::rows::WorkerHello;

use crate::dispatch::{Drain, LinkId, Place, TagSet, Worker};

use super::command::LinkSender;
use super::core::Core;
use super::links::Link;
use super::marks::Outage;
use super::round::{Round, engine_ticket};

impl<S: Store> Core<S> {
    pub(super) fn hello(
        &mut self,
        link: LinkId,
        worker: WorkerId,
        hello: &Hello,
        sender: LinkSender,
        round: &mut Round,
    ) {
        if self.roster.get(worker).is_some_and(|known| known.removed) {
            return self.farewell(link, worker, hello, sender, round);
        }
        let row = match self.store.worker(worker) {
            Ok(Some(row)) => row,
            Ok(None) => return refuse(&sender, RefusedCode::GoingAway, "this server does not know the worker"),
            Err(error) => {
                tracing::warn!(%worker, %error, "a worker's row could not be read; it tries again");
                return refuse(&sender, RefusedCode::GoingAway, "the server cannot reach its database; try again");
            }
        };
        // Real with the round's commit; the welcome follows that.
        let epoch = Epoch(row.epoch.max(self.roster.get(worker).map(|w| w.epoch).unwrap_or_default()).0 + 1);
        round.hellos.push(stored(worker, epoch, hello));
        round.left.remove(&worker);
        // The same link: its hello was in a batch that was refused, and is decided again.
        if let Some(old) = self.roster.get(worker).and_then(|w| w.link).filter(|old| *old != link) {
            self.replace_link(old);
        }
        let left_at = self.roster.get(worker).and_then(|w| w.left_at);
        let outage = Outage::of(hello, &row, left_at, round.now);
        let held = self.roster.get(worker).map(|w| w.held.clone()).unwrap_or_default();
        let tags = TagSet::new(hello.tags.iter().map(|t| Arc::from(t.as_str())));
        self.roster.update(worker, |slot| {
            *slot = Some(Worker {
                name: hello.name.clone(),
                hostname: hello.hostname.clone(),
                tags,
                slots: hello.slots,
                ahead: 0,
                epoch,
                link: Some(link),
                drain: Drain { operator: row.draining, own: false, caretaker: hello.caretaker },
                removed: false,
                blocked: false,
                last_seen: Some(round.now),
                seen_written: Some(round.now),
                last_beat: round.clocks.heard,
                left: None,
                left_at: None,
                held: held.clone(),
            });
        });
        let known = Link { worker, epoch, sender, number: 0, ended: HashSet::new(), logs: HashMap::new() };
        self.links.insert(link, known);
        self.metrics.connected.set(i64::try_from(self.roster.connected()).unwrap_or(i64::MAX));
        tracing::info!(worker = hello.name, %worker, host = hello.hostname, epoch = epoch.0, "a worker connected");

        self.remember_log_positions(link, hello);
        let verdicts = hello.held.iter().map(|h| self.verdict(link, h, epoch, round)).collect();
        for held in &hello.held {
            self.mark_outage(link, held, outage, round);
        }
        self.not_reported(&held, hello, round);
        let welcome = Welcome {
            protocol: PROTOCOL_VERSION,
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            worker: worker.0,
            epoch: epoch.0,
            settings: self.config.link,
            verdicts,
        };
        round.welcomes.push((link, welcome));
    }

    /// The newest connection of a worker counts.
    fn replace_link(&mut self, old: LinkId) {
        if let Some(old) = self.links.remove(&old) {
            let message = "the same worker connected again".to_owned();
            old.sender.send(ServerMessage::Refused { code: RefusedCode::DuplicateIdentity, message });
            old.sender.close();
        }
    }

    fn verdict(&mut self, link: LinkId, held: &HeldAttempt, epoch: engine::Epoch, round: &mut Round) -> Verdict {
        let attempt = AttemptId(held.ticket.attempt);
        let place = self.place(attempt);
        let kind = match place {
            Some(place) => self.verdict_for(place, held, epoch, round),
            // Not known here: it is not ours to stop.
            None if held.state == HeldState::Waiting => VerdictKind::Forget,
            None => VerdictKind::Finish,
        };
        let position = self.log_position(link, attempt).unwrap_or_default();
        if kind == VerdictKind::SendResult && position.complete {
            self.links.entry(link).and_modify(|l| {
                l.logs.insert(attempt, position);
            });
        }
        Verdict { ticket: held.ticket, verdict: kind, log_acked_seq: position.last_seq }
    }

    fn verdict_for(
        &mut self,
        place: Place,
        held: &HeldAttempt,
        epoch: engine::Epoch,
        round: &mut Round,
    ) -> VerdictKind {
        let ticket = engine_ticket(held.ticket, place.step);
        let reattached = Event::Reattached { ticket, epoch };
        if self.apply(place.job, &reattached, round).is_ok() {
            return match held.state {
                HeldState::Ended => VerdictKind::SendResult,
                HeldState::Running => VerdictKind::Continue,
                HeldState::Waiting => VerdictKind::Go,
            };
        }
        self.verdict_for_old(place, held)
    }

    /// For an attempt that is no longer its step's current one.
    fn verdict_for_old(&mut self, place: Place, held: &HeldAttempt) -> VerdictKind {
        if held.state == HeldState::Waiting {
            return VerdictKind::Forget;
        }
        if held.state == HeldState::Ended {
            return VerdictKind::SendResult;
        }
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else {
            return VerdictKind::Finish;
        };
        match &cached.job.step(place.step).state {
            State::Running(_) | State::Recovering(_) | State::Queued(_) | State::Waiting(_) => VerdictKind::StopKill,
            State::Cancelling(_) | State::Pending | State::Held(_) => VerdictKind::StopKill,
            State::Final(engine::state::End::Cancelled) => VerdictKind::StopGraceful,
            State::Final(_) => VerdictKind::Finish,
        }
    }

    /// What the server believed to be there, and the worker does not have: gone for certain, since it looked.
    fn not_reported(&mut self, believed: &HashMap<AttemptId, Place>, hello: &Hello, round: &mut Round) {
        let reported: HashSet<AttemptId> = hello.held.iter().map(|h| AttemptId(h.ticket.attempt)).collect();
        for (attempt, place) in believed.iter().filter(|(attempt, _)| !reported.contains(attempt)) {
            let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { continue };
            let state = &cached.job.step(place.step).state;
            let Some(live) = state.live().copied().filter(|l| l.attempt == *attempt) else {
                self.link_gone(*attempt, *place, None, round);
                continue;
            };
            let ticket = engine::event::Ticket { step: place.step, attempt: *attempt, fence: live.fence };
            let event = Event::Gone { ticket, epoch: live.epoch, loss: Loss::NotReported };
            if let Err(error) = self.apply(place.job, &event, round) {
                tracing::debug!(job = %place.job, step = place.step.0, %error, "a missing attempt changed nothing");
            }
        }
    }
}

fn refuse(sender: &LinkSender, code: RefusedCode, message: &str) {
    sender.send(ServerMessage::Refused { code, message: message.to_owned() });
    sender.close();
}

fn stored(id: WorkerId, epoch: Epoch, hello: &Hello) -> WorkerHello {
    WorkerHello {
        id,
        epoch,
        name: hello.name.clone(),
        tags: hello.tags.clone(),
        slots: hello.slots,
        kind: if hello.ephemeral { "ephemeral" } else { "static" },
        session: hello.session,
        boot_id: hello.boot_id.clone(),
        state_id: hello.state_id,
        machine: hello.machine.clone(),
        version: hello.version.clone(),
        platform: hello.platform.clone(),
        hostname: hello.hostname.clone(),
        pid: hello.pid,
        started_at: Time(hello.started_at_ms.saturating_mul(1_000)),
        no_reconnect: hello.no_reconnect,
    }
}
