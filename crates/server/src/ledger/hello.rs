//! A worker comes, or comes back: its new epoch, and one verdict for each attempt that it brings.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use engine::attempt::Loss;
use engine::event::Ticket;
use engine::state::StopMode;
use engine::verdict::{Held, Past};
use engine::{AttemptId, Epoch, Event, JobId, State, Time, WorkerId};
use planted::Bug;
use protocol::link::{
    HeldAttempt, HeldState, Hello, Kept, PROTOCOL_VERSION, RefusedCode, Verdict, VerdictKind, Welcome,
};
use store::Store;
use store::rows::{ServerId, WorkerHello, WorkerRow};

use crate::dispatch::{Drain, EPHEMERAL, LinkId, Place, TagSet, Worker};

use super::command::LinkSender;
use super::core::Core;
use super::knock::refuse;
use super::links::Link;
use super::losses::Seen;
use super::marks::Outage;
use super::notice::Word;
use super::round::{Report, Round};

/// What a build can do beyond the first one's is a short list.
const FEATURES_MAX: usize = 32;

/// What steps that are run by the worker itself want.
const PLAIN_TAG: &str = "script";

/// Unknown attempts that are remembered, so that each is spoken of once; beyond that some are spoken of again.
const STRANGERS_MAX: usize = 10_000;

impl<S: Store> Core<S> {
    /// Gives the worker this link. Real with the round's commit; the welcome follows that.
    pub(super) fn admit(
        &mut self,
        link: LinkId,
        row: &WorkerRow,
        hello: &Hello,
        sender: LinkSender,
        round: &mut Round,
    ) {
        let worker = row.id;
        self.learn_held(worker, round);
        let known = self.roster.get(worker);
        let epoch = row.epoch.max(known.map(|w| w.epoch).unwrap_or_default()).max(Epoch(hello.last_epoch));
        let epoch = Epoch(epoch.0 + 1);
        let believed = known.map(|w| w.held.clone()).unwrap_or_default();
        let outage = Outage::of(hello, row, known.and_then(|w| w.left_at), round.now);
        if let Some(old) = known.and_then(|w| w.link).filter(|old| *old != link) {
            self.replace_link(old);
        }
        round.left.remove(&worker);
        let after_loss = self.last_known_loss();
        let stored =
            WorkerHello { after_loss, ..stored(worker, epoch, hello, tags_of(hello, row), self.siblings.me.id) };
        let drain = Drain { operator: row.draining, own: false, caretaker: hello.caretaker };
        self.enter_roster(link, &stored, drain, &believed, round);
        round.hellos.push(stored);
        self.links.insert(link, Link::new(worker, epoch, hello, sender, round.clocks.heard));
        self.count_connected();
        tracing::info!(worker = hello.name, %worker, host = hello.hostname, epoch = epoch.0, "a worker connected");

        // What its runners have said meanwhile nobody here has heard; its next heartbeat tells how old that is.
        hello.held.iter().for_each(|held| self.beats.forget_runner(AttemptId(held.ticket.attempt)));
        // One that could not look everywhere may have more than it says.
        if hello.scan_complete {
            round.reported.push(Report { worker, epoch, after: self.last_known_loss() });
        }
        self.worker_is_back(worker, round);
        self.offers_gone(&believed, epoch, round);
        self.remember_log_positions(link, hello, round);
        // What is not on record is adopted before anything is given up, which might skip its step, and where that was in
        // its way after it: a step whose attempt is gone may have a later one here.
        let adopted = self.adopt_unknown(link, &hello.held, epoch, round);
        self.not_reported(&believed, epoch, hello, round);
        let verdicts: Vec<Verdict> = hello.held.iter().map(|h| self.verdict(link, h, epoch, &adopted, round)).collect();
        for (held, verdict) in hello.held.iter().zip(&verdicts) {
            // What was only brought back in case that it is not on record did not wait.
            if hello.kept != Some(Kept::Recalled) || verdict.verdict != VerdictKind::Forget {
                self.mark_outage(link, held, outage, round);
            }
        }
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

    fn enter_roster(
        &mut self,
        link: LinkId,
        stored: &WorkerHello,
        drain: Drain,
        held: &BTreeMap<AttemptId, Place>,
        round: &Round,
    ) {
        let tags = TagSet::of_worker(&stored.tags, &stored.features);
        self.roster.update(stored.id, |slot| {
            let left =
                slot.as_ref().filter(|_| drain.is_on()).map(|before| before.without_work_since(round.clocks.heard));
            *slot = Some(Worker {
                name: stored.name.clone(),
                hostname: stored.hostname.clone(),
                tags,
                slots: stored.slots,
                ahead: 0,
                epoch: stored.epoch,
                link: Some(link),
                elsewhere: false,
                drain,
                removed: false,
                blocked: false,
                last_seen: Some(round.now),
                seen_written: Some(round.now),
                last_beat: round.clocks.heard,
                left,
                left_at: None,
                ephemeral: stored.kind == EPHEMERAL,
                no_reconnect: stored.no_reconnect,
                left_with_server: false,
                held: held.clone(),
                strays: BTreeSet::new(),
            });
        });
    }

    /// One process has one link: it knows itself that the old one is gone.
    fn replace_link(&mut self, old: LinkId) {
        if planted::is(Bug::OldCloseEndsNewLink) {
            return;
        }
        if let Some(old) = self.links.remove(&old) {
            refuse(&old.sender, RefusedCode::GoingAway, "the same worker connected again");
        }
    }

    /// An offer ends with the link that it was made on, whoever notices first.
    fn offers_gone(&mut self, believed: &BTreeMap<AttemptId, Place>, epoch: Epoch, round: &mut Round) {
        for (attempt, place) in believed {
            let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { continue };
            if cached.job.state(place.step).offer().is_some() {
                self.link_gone(*attempt, *place, Seen::UpTo(epoch), round);
            }
        }
    }

    /// Takes up what workers have and the rows do not know, where its step waits.
    fn adopt_unknown(
        &mut self,
        link: LinkId,
        held: &[HeldAttempt],
        epoch: Epoch,
        round: &mut Round,
    ) -> BTreeMap<AttemptId, Place> {
        let mut adopted = BTreeMap::new();
        // The newest first: of several attempts of a step its end is the one that counts.
        let mut held: Vec<&HeldAttempt> = held.iter().filter(|held| held.state != HeldState::Waiting).collect();
        held.sort_unstable_by_key(|held| Reverse(held.ticket.fence));
        for held in held {
            let attempt = AttemptId(held.ticket.attempt);
            if !self.is_on_record(attempt, round)
                && let Some(place) = self.adopt(link, held, epoch, round)
            {
                adopted.insert(attempt, place);
            }
        }
        adopted
    }

    /// Whether the rows know of the attempt's start. One that was only offered has run all the same, if its worker says so.
    fn is_on_record(&mut self, attempt: AttemptId, round: &mut Round) -> bool {
        self.place(attempt).is_some_and(|place| self.is_on_record_at(place, attempt, round))
    }

    /// The same, where its step is known. One whose job cannot be read, or is gone, counts as on record.
    pub(super) fn is_on_record_at(&mut self, place: Place, attempt: AttemptId, round: &mut Round) -> bool {
        // What another server wrote may be lost, and remembered here.
        self.doubt(place.job, round);
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return true };
        let step = cached.job.steps.get(place.step.get());
        if step.is_some_and(|step| step.state.live().is_some_and(|live| live.attempt == attempt)) {
            return true;
        }
        let row = self.store.reader().attempt(attempt).inspect_err(|error| self.cache.missed(error));
        !matches!(row, Ok(None))
    }

    fn verdict(
        &mut self,
        link: LinkId,
        held: &HeldAttempt,
        epoch: Epoch,
        adopted: &BTreeMap<AttemptId, Place>,
        round: &mut Round,
    ) -> Verdict {
        let attempt = AttemptId(held.ticket.attempt);
        let position = self.log_position(link, attempt, round).unwrap_or_default();
        let kept = u64::from(held.events) + held.log_last_seq.saturating_sub(position.last_seq);
        round.buffered.insert(attempt, kept);
        let kind = match adopted.get(&attempt).copied().or_else(|| self.place(attempt)) {
            Some(place) => {
                let kind = self.verdict_for(place, held, epoch, position.complete, round);
                self.remember_word(link, place, held, kind);
                kind
            }
            // Not known here: it is not ours to stop.
            None if held.state == HeldState::Waiting => VerdictKind::Forget,
            None => match self.adopt(link, held, epoch, round) {
                Some(place) => {
                    let kind = self.verdict_for(place, held, epoch, position.complete, round);
                    self.remember_word(link, place, held, kind);
                    kind
                }
                None => {
                    // Whoever reports on a job that was deleted is let go: nobody waits for it, and nothing was lost.
                    if !self.was_deleted(JobId(held.job)) {
                        self.met_a_stranger(attempt, held);
                        self.await_item(link, held, epoch, round);
                        self.await_birth(link, held, epoch, round);
                    }
                    let over = held.state == HeldState::Ended && self.is_certainly_unknown(attempt);
                    if over { VerdictKind::Forget } else { VerdictKind::Finish }
                }
            },
        };
        if matches!(kind, VerdictKind::Finish | VerdictKind::StopGraceful | VerdictKind::StopKill)
            && held.state == HeldState::Running
        {
            self.stray(link, attempt);
        }
        Verdict { ticket: held.ticket, verdict: kind, log_acked_seq: position.last_seq }
    }

    /// What the welcome says of an attempt was said on this link.
    fn remember_word(&mut self, link: LinkId, place: Place, held: &HeldAttempt, kind: VerdictKind) {
        let Some(known) = self.links.get_mut(&link) else { return };
        let stop = match kind {
            VerdictKind::StopGraceful => Some(StopMode::Graceful),
            VerdictKind::StopKill => Some(StopMode::Kill),
            _ => None,
        };
        let held_as = if kind == VerdictKind::Go { Held::Running } else { held_as(held.state) };
        if kind != VerdictKind::Forget {
            let granted = matches!(kind, VerdictKind::Go | VerdictKind::SendResult)
                || (kind == VerdictKind::Continue && held_as != Held::Waiting);
            let word = Word { place, ticket: held.ticket, held: held_as, granted, stop };
            known.words.insert(AttemptId(held.ticket.attempt), word);
        }
    }

    fn verdict_for(
        &mut self,
        place: Place,
        held: &HeldAttempt,
        epoch: Epoch,
        log_whole: bool,
        round: &mut Round,
    ) -> VerdictKind {
        self.doubt(place.job, round);
        let ticket = self.engine_ticket(held.ticket, place);
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else {
            return VerdictKind::Finish;
        };
        let current = cached.job.state(place.step).ticket() == Some((ticket.attempt, ticket.fence));
        let past = if current { None } else { self.past(ticket.attempt, log_whole) };
        // It was in memory a moment ago.
        let Some(cached) = self.cache.get(place.job) else { return VerdictKind::Finish };
        let verdict = engine::verdict(&cached.job, ticket, held_as(held.state), past);
        let with_secrets = place.step.get() < cached.job.steps.len() && !cached.job.def(place.step).secrets.is_empty();
        // It never started, and is put before a person: its worker is about to say that nothing of it is left.
        let is_over = held.state == HeldState::Waiting && matches!(cached.job.state(place.step), State::Held(_));
        let event = Event::Reattached { ticket, epoch };
        if current
            && !is_over
            && let Err(error) = self.apply(place.job, &event, round)
        {
            tracing::debug!(job = %place.job, step = place.step.0, %error, "an attempt was not taken up again");
        }
        match verdict {
            engine::Verdict::Continue => VerdictKind::Continue,
            // It asks by itself then, and the answer brings them.
            engine::Verdict::Go if with_secrets => VerdictKind::Continue,
            engine::Verdict::Go => VerdictKind::Go,
            engine::Verdict::SendResult => VerdictKind::SendResult,
            engine::Verdict::Forget => VerdictKind::Forget,
            engine::Verdict::Finish => VerdictKind::Finish,
            engine::Verdict::Stop(StopMode::Graceful) => VerdictKind::StopGraceful,
            engine::Verdict::Stop(StopMode::Kill) => VerdictKind::StopKill,
        }
    }

    pub(super) fn past(&mut self, attempt: AttemptId, log_whole: bool) -> Option<Past> {
        match self.store.reader().attempt(attempt) {
            Ok(row) => row.map(|row| Past { number: row.number, whole: row.reported && log_whole }),
            Err(error) => {
                tracing::warn!(%attempt, %error, "an attempt could not be looked up");
                self.cache.missed(&error);
                // As if it were the newest: nothing is stopped for our trouble.
                Some(Past { number: u32::MAX, whole: false })
            }
        }
    }

    /// What the server believed to be there, and the worker does not have: gone for certain if it looked everywhere.
    fn not_reported(&mut self, believed: &BTreeMap<AttemptId, Place>, epoch: Epoch, hello: &Hello, round: &mut Round) {
        let reported: BTreeSet<AttemptId> = hello.held.iter().map(|h| AttemptId(h.ticket.attempt)).collect();
        for (attempt, place) in believed.iter().filter(|(attempt, _)| !reported.contains(attempt)) {
            if hello.scan_complete {
                self.gone(*attempt, *place, epoch, round);
            } else {
                self.link_gone(*attempt, *place, Seen::UpTo(epoch), round);
            }
        }
    }

    /// The worker was asked for all that it has, and does not have this.
    pub(super) fn gone(&mut self, attempt: AttemptId, place: Place, epoch: Epoch, round: &mut Round) {
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return };
        let Some(live) = cached.job.state(place.step).live().copied().filter(|l| l.attempt == attempt) else {
            return self.link_gone(attempt, place, Seen::On(epoch), round);
        };
        let ticket = Ticket { step: place.step, attempt, fence: live.fence };
        let event = Event::Gone { ticket, epoch, loss: Loss::NotReported };
        if let Err(error) = self.apply(place.job, &event, round) {
            tracing::debug!(job = %place.job, step = place.step.0, %error, "a missing attempt changed nothing");
        }
    }

    /// Said once, however often its worker comes back.
    fn met_a_stranger(&mut self, attempt: AttemptId, held: &HeldAttempt) {
        if self.strangers.len() >= STRANGERS_MAX {
            self.strangers.clear();
        }
        if self.strangers.insert(attempt) {
            self.metrics.strangers.inc();
            tracing::warn!(
                %attempt,
                job = %held.job,
                step = held.step,
                "a worker has an attempt that is not known here; it is left alone, and takes a slot"
            );
        }
    }

    /// It runs there and is no step's current attempt: it takes a slot until it is gone.
    fn stray(&mut self, link: LinkId, attempt: AttemptId) {
        let Some(worker) = self.links.get(&link).map(|l| l.worker) else { return };
        self.roster.update(worker, |w| {
            if let Some(w) = w {
                w.strays.insert(attempt);
            }
        });
    }
}

fn held_as(state: HeldState) -> Held {
    match state {
        HeldState::Waiting => Held::Waiting,
        HeldState::Running => Held::Running,
        HeldState::Ended => Held::Ended,
    }
}

/// What a worker may be used for: what it says, within what its enroll token allowed. One that says nothing gets all of
/// that, or what the plainest worker has.
fn tags_of(hello: &Hello, row: &WorkerRow) -> Vec<String> {
    let allowed = &row.allowed_tags;
    if hello.tags.is_empty() {
        return if allowed.is_empty() { vec![PLAIN_TAG.to_owned()] } else { allowed.clone() };
    }
    let (good, bad): (Vec<String>, Vec<String>) =
        hello.tags.iter().cloned().partition(|tag| allowed.is_empty() || allowed.contains(tag));
    if !bad.is_empty() {
        tracing::warn!(
            worker = hello.name,
            ?bad,
            ?allowed,
            "a worker claims tags that its enroll token does not allow"
        );
    }
    good
}

fn stored(id: WorkerId, epoch: Epoch, hello: &Hello, tags: Vec<String>, server: ServerId) -> WorkerHello {
    WorkerHello {
        id,
        epoch,
        name: hello.name.clone(),
        tags,
        slots: hello.slots,
        kind: if hello.ephemeral { EPHEMERAL } else { "static" },
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
        server,
        unwilling: hello.caretaker,
        features: hello.features.iter().take(FEATURES_MAX).cloned().collect(),
        unread: !hello.scan_complete,
        after_loss: None,
    }
}
