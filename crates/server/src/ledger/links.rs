//! What connected workers say, turned into events; and what is still owed to each of them.

use std::collections::{BTreeMap, BTreeSet};

use engine::attempt::{ArtifactSet, Artifacts, Cleanup, CleanupCut, Loss, Outcome, Report, Stopped, Usage};
use engine::event::{About, AttemptNews, Note};
use engine::verdict::Held;
use engine::{AttemptId, Epoch, Event, Fence, Heard, JobId, Rejection, Time, WorkerId};
use pause::Point;
use planted::Bug;
use protocol::attempt::{CleanupCut as WireCut, CleanupEnd, End, EndResult, StopReason, Ticket};
use protocol::link::{self as wire, Heartbeat, Hello, Renewal, ServerMessage, WorkerMessage};
use serde_json::Value;
use store::read::LogState;
use store::rows::LateOutcome;
use store::{Committed, Store};
use uuid::Uuid;

use crate::dispatch::{LinkId, Place};
use crate::explain::late_in_words;

use super::command::{EventError, LinkSender};
use super::core::Core;
use super::notice::{self, Word};
use super::reconcile::{Reported, Sent, missing};
use super::round::{NO_FENCE, Round};
use super::secrets::Unknown;

/// One connected worker, as the ledger sees it.
pub(super) struct Link {
    pub worker: WorkerId,
    /// Of the worker's process.
    pub pid: u32,
    /// What it says and what its end means counts for attempts on this epoch.
    pub epoch: Epoch,
    /// The worker's process.
    pub session: Uuid,
    /// The worker could read all that it has: what it does not report is not there.
    pub complete: bool,
    /// The worker keeps what it was told to forget, and brings it when it is asked.
    pub keeps: bool,
    /// The worker was removed: it is to end what it has, say so, and go.
    pub dismissed: bool,
    /// This server does not reach its database, and the worker was told to go to another one.
    pub sent_away: bool,
    /// Whether anything was said on it after the hello.
    pub used: bool,
    pub sender: LinkSender,
    /// Counts offers, goes and forgets.
    pub number: u64,
    /// What this link should bring up in its reports, and since when.
    pub sent: BTreeMap<AttemptId, Sent>,
    /// Attempts whose end is on record, and whose log is not whole yet.
    pub ended: BTreeSet<AttemptId>,
    pub logs: BTreeMap<AttemptId, LogPosition>,
    /// Attempts of which a piece of the log could not be written, and was asked for again.
    pub refused_logs: BTreeMap<AttemptId, Ticket>,
    /// What was said on it of each attempt.
    pub words: BTreeMap<AttemptId, Word>,
}

impl Link {
    pub(super) fn new(worker: WorkerId, epoch: Epoch, hello: &Hello, sender: LinkSender, heard: Heard) -> Link {
        let brought = hello.held.iter().map(|h| (AttemptId(h.ticket.attempt), Sent { number: 0, at: heard }));
        Link {
            worker,
            pid: hello.pid,
            epoch,
            session: hello.session,
            complete: hello.scan_complete,
            keeps: hello.kept.is_some(),
            dismissed: false,
            sent_away: false,
            used: false,
            sender,
            number: 0,
            sent: brought.collect(),
            ended: BTreeSet::new(),
            logs: BTreeMap::new(),
            refused_logs: BTreeMap::new(),
            words: BTreeMap::new(),
        }
    }

    /// From the time that it has processed this number the worker should report the attempt.
    fn now_has(&mut self, ticket: Ticket, number: u64, at: Heard) {
        self.sent.insert(AttemptId(ticket.attempt), Sent { number, at });
    }
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
    /// The number of its last line, where its end was reported on an earlier link.
    pub end_seq: Option<u64>,
    /// When it last grew on this link.
    pub moved_at: Option<Time>,
}

impl From<LogState> for LogPosition {
    fn from(state: LogState) -> LogPosition {
        LogPosition {
            last_seq: state.last_seq,
            complete: state.complete && !state.closed,
            closed: state.closed,
            announced: state.announced,
            end_seq: state.end_seq,
            moved_at: None,
        }
    }
}

impl<S: Store> Core<S> {
    pub(super) fn link_messages(&mut self, link: LinkId, messages: &[WorkerMessage], round: &mut Round) {
        let Some(worker) = self.links.get(&link).map(|l| l.worker) else { return };
        if self.roster.heard_from(worker, round.now) {
            round.seen.insert(worker, round.now);
        }
        if messages.iter().any(follows_a_welcome)
            && let Some(known) = self.links.get_mut(&link).filter(|l| !l.used)
        {
            known.used = true;
            round.used_epochs.insert(worker, known.epoch);
        }
        for message in messages {
            self.link_message(link, worker, message, round);
        }
    }

    fn link_message(&mut self, link: LinkId, worker: WorkerId, message: &WorkerMessage, round: &mut Round) {
        match message {
            WorkerMessage::Accept { ticket } => self.accepted(link, *ticket, round),
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
            WorkerMessage::Lost { ticket, loss, .. } => self.lost(link, *ticket, *loss, round),
            WorkerMessage::Heartbeat(beat) => {
                self.roster.update(worker, |w| {
                    if let Some(w) = w {
                        w.blocked = false;
                        w.ahead = beat.ahead;
                        w.last_beat = round.clocks.heard;
                    }
                });
                self.take_beats(link, worker, beat, round);
                self.note_own_drain(link, worker, beat, round);
                self.roster.drain(worker, round.clocks.heard, |drain| drain.own = beat.draining);
                self.reconcile(link, worker, beat, round);
            }
            WorkerMessage::Started { ticket, pid } => {
                tracing::debug!(attempt = %ticket.attempt, pid, "a step's process started");
                self.began(*ticket, round);
            }
            // Pings are answered by the link itself; a second hello is refused there.
            WorkerMessage::Pong { n } => self.answered(link, worker, *n),
            WorkerMessage::Ping { .. } => {}
            WorkerMessage::Renew { renewals } => self.renew(link, worker, renewals, round),
            WorkerMessage::Hello(_) | WorkerMessage::Unknown => {}
        }
    }

    /// Whether it wants new work is a row's matter too: other servers see to steps that nobody can run.
    fn note_own_drain(&self, link: LinkId, worker: WorkerId, beat: &Heartbeat, round: &mut Round) {
        let Some(drain) = self.roster.get(worker).map(|w| w.drain) else { return };
        if drain.own != beat.draining {
            round.unwilling.insert(worker, (self.epoch_of(link), beat.draining || drain.caretaker));
        }
    }

    fn accepted(&mut self, link: LinkId, ticket: Ticket, round: &mut Round) {
        pause::at(Point::Accepted);
        // It asks again on its next link, when all that workers have is known.
        if self.has_lost_commits(round) {
            return;
        }
        if let Some(place) = self.place(AttemptId(ticket.attempt)) {
            match self.withholds_start(place, ticket) {
                Some(false) => {}
                Some(true) => {
                    let reason = "commits were lost, and not all workers have reported yet".to_owned();
                    self.about_attempt(link, ticket, "accept", round, |t| Event::Refused { ticket: t, reason });
                    return self.stale(link, Some(place.job), ticket, "accept", round);
                }
                // Neither leave nor refusal is safe then: it asks again, or the time of the offer is over.
                None => return,
            }
        }
        let epoch = self.epoch_of(link);
        match self.missing_secret(ticket) {
            Ok(None) => {}
            Ok(Some(why)) => {
                return self.about_attempt(link, ticket, "accept", round, |t| Event::SecretMissing {
                    ticket: t,
                    epoch,
                    why,
                });
            }
            // Decided anew when the rows can be read.
            Err(Unknown) => return,
        }
        if planted::is(Bug::OfferedToTwo) {
            round.outgoing.push((None, link, ServerMessage::Go { number: 0, ticket }));
        }
        self.about_attempt(link, ticket, "accept", round, |t| Event::Accepted { ticket: t, epoch });
    }

    /// Leases are renewed only by a server that proves that it hears, and only for attempts that are current on this link.
    fn renew(&mut self, link: LinkId, worker: WorkerId, renewals: &[Renewal], round: &mut Round) {
        if round.listened.is_none() && !self.hearing.is_fresh(round.now, &self.hearing_rules) {
            return;
        }
        let epoch = self.epoch_of(link);
        let granted: Vec<Renewal> =
            renewals.iter().copied().filter(|renewal| self.is_current(renewal.ticket, worker, epoch)).collect();
        if !granted.is_empty() {
            round.outgoing.push((None, link, ServerMessage::Renewed { renewals: granted }));
        }
    }

    fn is_current(&mut self, ticket: Ticket, worker: WorkerId, epoch: Epoch) -> bool {
        let Some(place) = self.place(AttemptId(ticket.attempt)) else { return false };
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return false };
        let live = cached.job.state(place.step).live();
        live.is_some_and(|l| {
            (l.attempt.0, l.fence.0, l.worker, l.epoch) == (ticket.attempt, ticket.fence, worker, epoch)
        })
    }

    fn ended(&mut self, link: LinkId, ticket: Ticket, end: &End, round: &mut Round) {
        let Some(place) = self.place(AttemptId(ticket.attempt)) else {
            if !self.notices_lost_start(link, ticket, round) {
                self.stale(link, None, ticket, "ended", round);
                self.stranger_is_over(link, ticket, round);
            }
            return;
        };
        if planted::is(Bug::EndLostInBurst) && round.logs.iter().any(|append| append.attempt.0 == ticket.attempt) {
            return self.send(link, ServerMessage::Forget { number: 0, ticket });
        }
        round.log_ends.insert(AttemptId(ticket.attempt), end.log_last_seq);
        let event = Event::Ended { ticket: self.engine_ticket(ticket, place), report: report(end) };
        match self.apply(place.job, &event, round) {
            Ok(()) => self.answer_removed(link, place.job, ticket, round),
            Err(EventError::Rejected(Rejection::Stale(_) | Rejection::JobFinal(_))) => {
                if self.notices_lost_start(link, ticket, round) {
                    return;
                }
                // The truth comes late: it changes no state, and is kept as evidence before it is answered.
                let outcome = serde_json::to_string(end).expect("an end is plain data and always has a JSON form");
                let attempt = AttemptId(ticket.attempt);
                self.tell_late(link, place, attempt, &outcome, round);
                round.late_outcomes.push(LateOutcome { attempt, outcome, at: round.now });
                self.over(self.links.get(&link).map(|l| l.worker), ticket, round);
                self.stale(link, Some(place.job), ticket, "ended", round);
                self.mark_ended(link, Some(place.job), ticket, round);
            }
            Err(error) => self.failed(place, &error, round),
        }
    }

    /// The job's history says that the true end came; an end that is only repeated is no news.
    fn tell_late(&mut self, link: LinkId, place: Place, attempt: AttemptId, outcome: &str, round: &mut Round) {
        let row = self.store.reader().attempt(attempt).ok().flatten();
        let Some(row) = row.filter(|row| !row.reported) else { return };
        let outcome = late_in_words(outcome);
        let reason = format!("attempt {} reported its end after it was given up: {outcome}", row.number);
        self.tell_news(link, place, AttemptNews::LateOutcome, reason, round);
    }

    /// Evidence for the job's history: it changes no state.
    fn tell_news(&self, link: LinkId, place: Place, what: AttemptNews, reason: String, round: &mut Round) {
        let Some(worker) = self.links.get(&link).map(|l| l.worker) else { return };
        let about = About::Attempt { step: place.step, worker, what };
        round.tell(place.job, Note { at: round.now, about, reason });
    }

    fn lost(&mut self, link: LinkId, ticket: Ticket, loss: wire::Loss, round: &mut Round) {
        let (epoch, attempt) = (self.epoch_of(link), AttemptId(ticket.attempt));
        let loss = match loss {
            wire::Loss::Void if self.has_begun(link, attempt, round) => Loss::StartForgotten,
            wire::Loss::Void => Loss::Void,
            wire::Loss::RunnerLost => Loss::RunnerLost,
            wire::Loss::ResultNotAvailable => Loss::ResultNotAvailable,
            wire::Loss::MachineRebooted => Loss::MachineRebooted,
            wire::Loss::LeaseExpired => Loss::LeaseExpired,
        };
        let (never_started, forgotten) = (loss == Loss::Void, loss == Loss::StartForgotten);
        if !never_started && self.notices_lost_start(link, ticket, round) {
            return;
        }
        self.about_attempt(link, ticket, "lost", round, |t| Event::Gone { ticket: t, epoch, loss });
        self.stranger_is_over(link, ticket, round);
        if never_started {
            self.log_is_empty(link, attempt, round);
        }
        self.over(self.links.get(&link).map(|l| l.worker), ticket, round);
        let job = self.place(attempt).map(|place| place.job);
        if forgotten {
            // It has nothing of it, and no line of its log will come.
            tracing::warn!(%attempt, "a worker says that an attempt never started, and had said that it did");
            return round.outgoing.push((job, link, ServerMessage::Forget { number: 0, ticket }));
        }
        self.mark_ended(link, job, ticket, round);
    }

    /// What the worker should have by now and does not; and what it has no more of what it should not have.
    fn reconcile(&mut self, link: LinkId, worker: WorkerId, beat: &Heartbeat, round: &mut Round) {
        let held: BTreeSet<AttemptId> = beat.held.iter().map(|ticket| AttemptId(ticket.attempt)).collect();
        let Some((known, there)) = self.links.get(&link).zip(self.roster.get(worker)) else { return };
        let reported = Reported { held: &held, processed: beat.processed, heard: round.clocks.heard };
        let believed = there.held.keys().copied().filter(|_| known.complete);
        let missing = missing(believed, &known.sent, reported, self.config.dispatch_grace);
        let lost: Vec<(AttemptId, Place)> =
            missing.into_iter().filter_map(|id| Some((id, *there.held.get(&id)?))).collect();
        let epoch = known.epoch;
        let unprocessed = |id: &AttemptId| known.sent.get(id).is_some_and(|sent| sent.number > beat.processed);
        let over: BTreeSet<AttemptId> =
            known.words.keys().copied().filter(|id| !held.contains(id) && !unprocessed(id)).collect();
        if there.strays.iter().any(|stray| !held.contains(stray)) {
            self.roster.update(worker, |w| {
                if let Some(w) = w {
                    w.strays.retain(|stray| held.contains(stray));
                }
            });
        }
        if let Some(known) = self.links.get_mut(&link) {
            known.words.retain(|attempt, _| !over.contains(attempt));
        }
        for (attempt, place) in lost {
            tracing::warn!(%worker, %attempt, job = %place.job, "the worker does not have what it was given");
            self.gone(attempt, place, epoch, round);
        }
        self.drop_what_came_to_nothing(link, worker, &held, beat.processed);
    }

    /// Offers that were refused or taken back, and whatever else came to nothing: what the worker does not have and nobody
    /// believes there is not kept for as long as the link stands.
    fn drop_what_came_to_nothing(
        &mut self,
        link: LinkId,
        worker: WorkerId,
        held: &BTreeSet<AttemptId>,
        processed: u64,
    ) {
        let (Some(known), Some(there)) = (self.links.get_mut(&link), self.roster.get(worker)) else { return };
        let is_there = |attempt: &AttemptId| held.contains(attempt) || there.held.contains_key(attempt);
        known.sent.retain(|attempt, sent| sent.number > processed || is_there(attempt));
        let on_its_way = |attempt: &AttemptId| known.sent.contains_key(attempt);
        known.logs.retain(|attempt, _| is_there(attempt) || on_its_way(attempt));
        known.ended.retain(|attempt| is_there(attempt) || on_its_way(attempt));
    }

    /// What is not on record, and could not be adopted, is over: its slot is free, and its worker need not hold it out to
    /// us any longer. It keeps it for a day even so.
    pub(super) fn stranger_is_over(&mut self, link: LinkId, ticket: Ticket, round: &mut Round) {
        if self.is_certainly_unknown(AttemptId(ticket.attempt)) {
            self.over(self.links.get(&link).map(|l| l.worker), ticket, round);
            round.outgoing.push((None, link, ServerMessage::Forget { number: 0, ticket }));
        }
    }

    /// One that has said its end waits for nothing else: its job was deleted meanwhile, maybe by another server.
    pub(super) fn ended_stranger_is_over(&mut self, link: LinkId, ticket: Ticket, round: &mut Round) {
        let word = self.links.get(&link).and_then(|known| known.words.get(&AttemptId(ticket.attempt)));
        if word.is_some_and(|word| word.held == Held::Ended) {
            self.stranger_is_over(link, ticket, round);
        }
    }

    /// Nobody has ever heard of it, as far as the rows remember; a look that fails says nothing.
    pub(super) fn is_certainly_unknown(&mut self, attempt: AttemptId) -> bool {
        if self.roster.place(attempt).is_some() {
            return false;
        }
        let found = self.store.place_of(attempt).inspect_err(|error| self.cache.missed(error));
        matches!(found, Ok(None))
    }

    /// It is over, whatever its step has made of it: its slot is free, and its row may say so.
    fn over(&mut self, worker: Option<WorkerId>, ticket: Ticket, round: &mut Round) {
        let attempt = AttemptId(ticket.attempt);
        let place = self.place(attempt);
        let fence =
            if ticket.fence == NO_FENCE { place.and_then(|place| self.fence_of(attempt, place.job)) } else { None };
        round.confirmed.push((attempt, Fence(fence.unwrap_or(ticket.fence))));
        if let Some(place) = place {
            self.doubt_is_over(place.job, round);
        }
        if let Some(worker) = worker {
            self.roster.update(worker, |w| {
                if let Some(w) = w {
                    w.strays.remove(&attempt);
                }
            });
        }
    }

    /// A worker that could not read its own record of an attempt has no fence for it; the row has.
    fn fence_of(&mut self, attempt: AttemptId, job: JobId) -> Option<u64> {
        let tried = self.store.reader().attempts(job).inspect_err(|error| self.cache.missed(error)).ok()?;
        tried.iter().find(|row| row.id == attempt).map(|row| row.fence)
    }

    fn epoch_of(&self, link: LinkId) -> Epoch {
        self.links.get(&link).map(|l| l.epoch).unwrap_or_default()
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
            self.stale(link, None, ticket, about, round);
            return;
        };
        let event = event(self.engine_ticket(ticket, place));
        match self.apply(place.job, &event, round) {
            Ok(()) => {}
            Err(EventError::Rejected(rejection)) => {
                if let Rejection::Stale(stale) = rejection {
                    let reason = format!("`{about}` of attempt {} changed nothing: {stale}", ticket.attempt);
                    self.tell_news(link, place, AttemptNews::Stale, reason, round);
                }
                self.stale(link, Some(place.job), ticket, about, round);
            }
            Err(EventError::NoSuchJob) => self.stale(link, None, ticket, about, round),
            Err(error @ (EventError::Internal(_) | EventError::Away(_))) => self.failed(place, &error, round),
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

    /// `job`: what makes it stale may be of this round. Then it is said only if that is committed.
    fn stale(&mut self, link: LinkId, job: Option<JobId>, ticket: Ticket, about: &str, round: &mut Round) {
        self.metrics.stale.inc();
        let message = ServerMessage::StaleDispatch { ticket, about: about.to_owned() };
        round.outgoing.push((job, link, message));
    }

    /// The engine has the end on record: the worker may forget it once the log is whole too.
    pub(super) fn end_recorded(&mut self, worker: WorkerId, job: JobId, ticket: Ticket, round: &mut Round) {
        if let Some(link) = self.effect_target(worker) {
            self.mark_ended(link, Some(job), ticket, round);
        }
    }

    /// What the engine has to say goes where the roster has the worker. One that was removed is not there, and is answered
    /// where it spoke.
    fn answer_removed(&mut self, link: LinkId, job: JobId, ticket: Ticket, round: &mut Round) {
        let Some(worker) = self.links.get(&link).map(|known| known.worker) else { return };
        if self.effect_target(worker).is_none() {
            self.mark_ended(link, Some(job), ticket, round);
        }
    }

    fn mark_ended(&mut self, link: LinkId, job: Option<JobId>, ticket: Ticket, round: &mut Round) {
        let attempt = AttemptId(ticket.attempt);
        round.ends.extend(job.map(|job| (attempt, job)));
        let mut repeated = false;
        if let Some(known) = self.links.get_mut(&link) {
            repeated = !known.ended.insert(attempt);
            if let Some(word) = known.words.get_mut(&attempt) {
                repeated |= std::mem::replace(&mut word.held, Held::Ended) == Held::Ended;
            }
        }
        self.forget_if_whole(link, attempt, ticket, round);
        if repeated {
            self.ask_for_the_rest(link, ticket, round);
        }
    }

    /// Ends that others were faster than are not on record: they are decided again, or said again. Until then the rows are
    /// asked for them.
    pub(super) fn take_back_ends(&mut self, round: &Round, committed: &Committed) {
        for (attempt, _) in round.ends.iter().filter(|(_, job)| committed.conflicts.contains(job)) {
            for known in self.links.values_mut() {
                known.ended.remove(attempt);
            }
        }
    }

    pub(super) fn forget_if_whole(&mut self, link: LinkId, attempt: AttemptId, ticket: Ticket, round: &mut Round) {
        if !self.log_position(link, attempt, round).is_some_and(|p| p.complete) {
            return;
        }
        if !self.has_end_of(link, attempt) {
            // Its row may have gone with its job, by another server: what was said of it is remembered all the same.
            return self.ended_stranger_is_over(link, ticket, round);
        }
        if self.is_whole_on_record(link, ticket, round)
            && let Some(known) = self.links.get_mut(&link)
        {
            known.ended.remove(&attempt);
            known.logs.remove(&attempt);
            round.whole.insert(attempt);
            if planted::is(Bug::ForgetBeforeCommit) {
                return self.send(link, ServerMessage::Forget { number: 0, ticket });
            }
            // An end of this round that is not committed after all is not to be forgotten: it is decided again.
            let job = round.ends.get(&attempt).copied();
            round.outgoing.push((job, link, ServerMessage::Forget { number: 0, ticket }));
        }
    }

    /// Whether the worker's last word on the attempt is known: it was just said, or is on record. What was said is not
    /// remembered across a batch that was refused.
    fn has_end_of(&mut self, link: LinkId, attempt: AttemptId) -> bool {
        let Some(known) = self.links.get(&link) else { return false };
        if known.ended.contains(&attempt) {
            return true;
        }
        let row = self.store.reader().attempt(attempt).inspect_err(|error| self.cache.missed(error));
        row.is_ok_and(|row| row.is_some_and(|row| row.reported || row.confirmed))
    }

    /// Numbers what must be numbered, and sends. A worker that does not read is cut off; it will come back.
    pub(super) fn send(&mut self, link: LinkId, mut message: ServerMessage) {
        match &message {
            ServerMessage::Go { ticket, .. } => {
                self.hand_over_secrets(link, *ticket);
                pause::at(Point::Granted);
            }
            ServerMessage::Forget { .. } => pause::at(Point::ReportedNotAcknowledged),
            _ => {}
        }
        let heard = self.hearing.clocks(self.tick.now).heard;
        let place = match &message {
            ServerMessage::Offer { spec, .. } => self.roster.place(AttemptId(spec.ticket.attempt)),
            _ => None,
        };
        let Some(known) = self.links.get_mut(&link) else { return };
        notice::in_its_words(&known.words, &mut message);
        notice::said(&mut known.words, &message, place);
        if let ServerMessage::Offer { number, .. }
        | ServerMessage::Go { number, .. }
        | ServerMessage::Forget { number, .. } = &mut message
        {
            known.number += 1;
            *number = known.number;
        }
        match &message {
            ServerMessage::Offer { number, spec } => known.now_has(spec.ticket, *number, heard),
            ServerMessage::Go { number, ticket } => known.now_has(*ticket, *number, heard),
            ServerMessage::Forget { ticket, .. } => drop(known.sent.remove(&AttemptId(ticket.attempt))),
            _ => {}
        }
        if !known.sender.send(message) {
            tracing::warn!(worker = %known.worker, "the worker does not read its messages; its link is closed");
            known.sender.close();
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

pub(super) fn report(end: &End) -> Report {
    Report {
        outcome: outcome(&end.result),
        stopped: end.stopped.map(|reason| match reason {
            StopReason::Cancelled => Stopped::Cancelled,
            StopReason::Timeout => Stopped::Timeout,
            StopReason::LeaseExpired => Stopped::LeaseExpired,
            StopReason::Superseded | StopReason::WorkerStopped => Stopped::Worker,
        }),
        output: Value::Object(end.output.iter().map(|(k, v)| (k.clone(), v.clone())).collect()),
        output_error: end.output_error.clone(),
        artifacts: end.artifacts.as_ref().map(artifacts),
        usage: Usage { duration_ms: Some(end.duration_ms), cpu_ms: end.cpu_ms, memory_bytes_max: end.memory_bytes_max },
        cleanup: end.cleanup.as_ref().map(cleanup),
    }
}

/// Only who has its welcome says this. A newer worker may say more along with its hello, and pings are answered before.
fn follows_a_welcome(message: &WorkerMessage) -> bool {
    match message {
        WorkerMessage::Hello(_) | WorkerMessage::Ping { .. } | WorkerMessage::Pong { .. } | WorkerMessage::Unknown => {
            false
        }
        WorkerMessage::Accept { .. }
        | WorkerMessage::Refuse { .. }
        | WorkerMessage::Started { .. }
        | WorkerMessage::Ended { .. }
        | WorkerMessage::Lost { .. }
        | WorkerMessage::Heartbeat(_)
        | WorkerMessage::Renew { .. } => true,
    }
}

fn cleanup(end: &CleanupEnd) -> Cleanup {
    let cut = end.cut.map(|cut| match cut {
        WireCut::Budget => CleanupCut::Budget,
        WireCut::Killed | WireCut::Other => CleanupCut::Killed,
        WireCut::LeaseExpired => CleanupCut::LeaseExpired,
    });
    Cleanup { outcome: outcome(&end.result), cut, duration_ms: end.duration_ms }
}

fn outcome(result: &EndResult) -> Outcome {
    match result {
        EndResult::Exited { code } => Outcome::Exited(*code),
        EndResult::Signaled { signal, oom } => Outcome::Signaled { signal: *signal, oom: *oom },
        EndResult::SpawnFailed { message } => Outcome::SpawnFailed(message.clone()),
    }
}

/// A name that is none was never stored by any server.
fn artifacts(told: &protocol::attempt::Artifacts) -> Artifacts {
    use protocol::attempt::Artifacts as Told;
    match told {
        Told::Stored(set) => match set.id.parse::<pack::SetId>() {
            Ok(id) => Artifacts::Stored(ArtifactSet { id: id.0, files: set.files, bytes: set.bytes }),
            Err(error) => Artifacts::Failed(format!("the worker names a set `{}`: {error}", set.id)),
        },
        Told::Failed(why) => Artifacts::Failed(why.clone()),
    }
}
