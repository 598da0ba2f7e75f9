//! One step's explanation, state by state.

use std::time::Duration;

use crate::apply::{Origin, grace_ends};
use crate::deadline::{Action, Owner};
use crate::definition::{Ability, Condition, Need, OnDisconnect, StepDef, Work};
use crate::failure::FailureKind;
use crate::ids::{JobId, StepIx, WorkerId};
use crate::job::{Item, JobState, Step};
use crate::state::{
    Cancelling, Delegate, Delegated, End, Ground, Held, Live, Queued, Recovering, State, StopCause, StopMode,
    WaitReason, Waiting,
};
use crate::time::Time;
use crate::workers;

use super::words::{ago, count, list, shell_word, span, until};
use super::{MatchView, NextCheck, Refusal, StepWhy, View};

/// How an end that came late is taken, in the history.
const LATE: &str = "accept_late";

impl View<'_> {
    pub(super) fn step(&self, ix: StepIx) -> StepWhy {
        let (def, step) = (self.job.def(ix), self.job.step(ix));
        StepWhy {
            name: self.job.name(ix).into(),
            state: step.state.name(),
            owner: self.owner(def, step),
            last_sign_of_life: self.last_sign_of_life(step).max(self.runner_seen(ix)),
            reason: self.reason(ix, step) + self.files(ix) + &lateness(def, step) + &self.loose_ends(ix),
            next: step
                .check_at(&self.clocks)
                .map(|check| NextCheck { at: check.at, action: self.action(def, step, check.action) }),
        }
    }

    fn owner(&self, def: &StepDef, step: &Step) -> String {
        let Some(check) = step.check else { return "nobody: it is over".to_owned() };
        match check.owner {
            Owner::Needs if let Some(item) = &step.item => format!("step {}", self.name(item.of)),
            Owner::Needs => {
                let names: Vec<String> = self.open_needs(def).map(|need| self.name(need.step)).collect();
                format!("{} {}", if names.len() == 1 { "step" } else { "steps" }, list(&names))
            }
            Owner::Steps => "its items".to_owned(),
            Owner::Child => step.state.child().map_or_else(String::new, |job| format!("job {job}")),
            Owner::Group => self.group(),
            Owner::Dispatcher => "the dispatcher".to_owned(),
            Owner::Worker(id) => match self.roster.worker(id) {
                Some(worker) => format!("worker {}", worker.name),
                None => format!("worker {id}"),
            },
            Owner::Timer => "a timer".to_owned(),
            Owner::Person => "a person".to_owned(),
            Owner::Operator => "an operator".to_owned(),
        }
    }

    /// While no runner speaks for it.
    fn files(&self, ix: StepIx) -> &'static str {
        let running = matches!(self.job.step(ix).state, State::Running(_));
        if running && self.roster.carries_files(ix) { "; its worker is fetching or storing its files" } else { "" }
    }

    /// Only of a running attempt: of one that is cut off nobody has heard since.
    fn runner_seen(&self, ix: StepIx) -> Option<Time> {
        let running = matches!(self.job.step(ix).state, State::Running(_));
        self.roster.runner_seen(ix).filter(|_| running)
    }

    /// Attempts that may still run, and ends that came late; each with what a person can do about it.
    fn loose_ends(&self, ix: StepIx) -> String {
        let told = self.roster.loose_ends(ix).into_iter().map(|end| {
            let who = format!("attempt {} on worker {}", end.number, end.worker);
            match (&end.late, end.confirmed, end.given_up_at) {
                (Some(late), ..) => {
                    format!("; {who} reported its end late: {late}; `bowline resolve --accept-late` takes it")
                }
                (None, false, at) => {
                    let when = at.map(|at| format!(" {}", ago(at, self.now))).unwrap_or_default();
                    format!("; {who} was given up{when} and may still run: `--confirm-dead` says that it does not")
                }
                (None, true, _) => String::new(),
            }
        });
        told.collect()
    }

    /// When the world last heard of what the step is about: its worker, or its own end.
    fn last_sign_of_life(&self, step: &Step) -> Option<Time> {
        let seen = |id: WorkerId| self.roster.worker(id).and_then(|worker| worker.last_seen);
        match &step.state {
            State::Pending | State::Delegated(_) | State::Held(_) | State::Waiting(_) => None,
            State::Queued(queued) => queued.offer.and_then(|offer| seen(offer.worker)),
            State::Running(live) => seen(live.worker).or(Some(live.started_at)),
            // Its worker may be back without it, so only what was before the cut counts for the attempt.
            State::Recovering(r) => Some(r.disconnected_at),
            State::Cancelling(c) => c.cut.map(|cut| cut.at).or_else(|| seen(c.live.worker)).or(Some(c.live.started_at)),
            State::Final(_) => Some(step.updated_at),
        }
    }

    fn reason(&self, ix: StepIx, step: &Step) -> String {
        let reason = self.stands(ix, step).unwrap_or_else(|| self.reason_of_state(ix, step));
        if !step.for_operator {
            return reason;
        }
        let order = if step.state.live().is_some() { "fail" } else { "requeue" };
        format!("{reason}; no sign of life for too long, and here an operator decides: `bowline recover {order}`")
    }

    /// Where the end of a step comes from that never ran in this job, if that is known.
    fn stands(&self, ix: StepIx, step: &Step) -> Option<String> {
        let ended = matches!(step.state, State::Final(End::Success | End::Failed)) && step.attempts == 0;
        let whence = match self.roster.origin(ix).filter(|_| ended)? {
            // Its error says who did that, and why.
            Origin::Settled { .. } if step.state == State::Final(End::Failed) => return None,
            Origin::TakenOver(job) => format!("it was taken over from job {job}"),
            Origin::Settled { how, by } if how == LATE => format!("it was settled by hand: {by} took its late end"),
            Origin::Settled { how, by } => format!("it was settled by hand: {by} resolved it as {how}"),
        };
        let error = step.error.as_ref().map(|error| format!("{error}; ")).unwrap_or_default();
        Some(error + &whence)
    }

    fn reason_of_state(&self, ix: StepIx, step: &Step) -> String {
        let def = self.job.def(ix);
        match &step.state {
            State::Pending if let Some(item) = &step.item => self.awaits_turn(def, item),
            State::Pending if self.job.awaits_slot() && step.unmet == 0 => self.awaits_slot(),
            State::Pending => self.pending(def),
            State::Queued(queued) => self.queued(def, step, queued),
            State::Running(live) => self.running(def, live),
            State::Delegated(delegated) => self.delegated(ix, step, delegated),
            State::Recovering(recovering) => self.recovering(recovering),
            State::Cancelling(cancelling) => self.cancelling(def, cancelling),
            State::Held(held) if step.in_doubt => self.in_doubt(ix, held),
            State::Held(held) => self.held(def, held),
            State::Waiting(waiting) => self.waiting(def, step, waiting),
            State::Final(end) => self.ended(def, step, *end),
        }
    }

    fn pending(&self, def: &StepDef) -> String {
        let open: Vec<String> = self
            .open_needs(def)
            .map(|need| format!("{} ({})", self.name(need.step), self.job.step(need.step).state.name()))
            .collect();
        let waits = format!("waits for {}", list(&open));
        match (&self.job.header.cancel, &def.condition) {
            (Some(_), Condition::Expression(text)) => {
                format!("{waits}; then `if: {text}` decides, although the job is cancelled")
            }
            _ => waits,
        }
    }

    fn awaits_turn(&self, def: &StepDef, item: &Item) -> String {
        let of = self.name(item.of);
        match def.fan_out.as_ref().and_then(|fan_out| fan_out.max_parallel) {
            Some(most) => format!("waits for its turn among the items of {of}, of which {most} run at once"),
            None => format!("waits for its turn among the items of {of}"),
        }
    }

    fn delegated(&self, ix: StepIx, step: &Step, delegated: &Delegated) -> String {
        let def = self.job.def(ix);
        let told = match (delegated.to, step.fan, &def.work) {
            (Delegate::Child(job), _, Work::Child(body)) => {
                let since = span(self.now.since(delegated.since));
                let told = format!("job {job} of task `{}` has been doing it for {since}", body.task);
                told + &self.child_waits(ix, job)
            }
            (_, Some(fan), _) => {
                format!("{} of {} are over", fan.count - fan.open, count(fan.count, "item"))
            }
            (_, None, _) => String::new(),
        };
        match delegated.called_off {
            Some(cause) => format!("{}; {told}", self.cause(cause)),
            None => told,
        }
    }

    /// Where the job that does a step does not just run, whoever looks is sent there.
    fn child_waits(&self, ix: StepIx, job: JobId) -> String {
        let waits = match self.roster.child(ix) {
            Some(JobState::Held) => "it waits for a person",
            Some(JobState::Pending) => "it has not started",
            Some(JobState::Recovering) => "its worker is cut off",
            Some(JobState::Cancelling) => "it is being cancelled",
            Some(JobState::Running | JobState::Success | JobState::Failed | JobState::Cancelled) | None => {
                return String::new();
            }
        };
        format!(", and {waits}: see `bowline why {job}`")
    }

    fn queued(&self, def: &StepDef, step: &Step, queued: &Queued) -> String {
        let waits = match (queued.offer, queued.not_before) {
            (Some(offer), _) => format!("offered to {} {}", self.worker(offer.worker), ago(offer.at, self.now)),
            (None, Some(at)) if at > self.now => {
                let offers = count(step.unanswered_offers, "offer");
                format!("{offers} in a row stayed unanswered; offered again {}", until(at, self.now))
            }
            (None, _) => self.wants_a_worker(def, step),
        };
        match &step.error {
            Some(error) => format!(
                "{waits}; execution {} of {}, after: {}",
                step.executions + 1,
                def.retry.attempts,
                error.message
            ),
            None if step.losses > 0 => format!("{waits}; its worker was lost {} before", count(step.losses, "time")),
            None => waits,
        }
    }

    fn wants_a_worker(&self, def: &StepDef, step: &Step) -> String {
        let found = self.roster.matching(&def.wanted());
        let told = supply(def, &found);
        if let Some(pause) = self.roster.pause() {
            let since = ago(pause.since, self.now);
            return format!("dispatch was paused by {} {since}: nothing new is handed out; {told}", pause.by);
        }
        let decided = step.check_at(&self.clocks).filter(|check| check.action == Action::DecideUnmatched);
        match decided {
            Some(check) if found.matching == 0 && found.away.is_empty() => {
                format!("{told}; fails as unmatched {}{}", until(check.at, self.now), self.quiet_stretch())
            }
            Some(_) | None => told,
        }
    }

    fn running(&self, def: &StepDef, live: &Live) -> String {
        let mut told = format!(
            "attempt {} has been running on {} for {}",
            live.number,
            self.worker(live.worker),
            span(self.now.since(live.started_at))
        );
        if let (Some(limit), Some(at)) = (def.timeout, live.timeout_at) {
            told += &format!("; its timeout of {} is over {}", span(limit), until(at, self.now));
        }
        match self.roster.worker(live.worker) {
            Some(worker) if !worker.connected => told + "; the worker's link is gone",
            Some(_) | None => told,
        }
    }

    fn recovering(&self, recovering: &Recovering) -> String {
        let worker = self.worker(recovering.live.worker);
        let lost = ago(recovering.disconnected_at, self.now);
        let left = until(self.clocks.wall(recovering.deadline), self.now);
        format!(
            "the link to {worker} was lost {lost} and attempt {} may still run there; the recovery window is over {left}{}{}",
            recovering.live.number,
            if recovering.extended { ", longer than usual since most workers were lost at once" } else { "" },
            self.quiet_stretch()
        )
    }

    /// Why a verdict on silence waits longer than its own deadline, if it does.
    fn quiet_stretch(&self) -> String {
        if !self.clocks.is_quiet_stretch() {
            return String::new();
        }
        let from = until(self.clocks.wall(self.clocks.verdicts_from), self.now);
        format!("; the server could not hear for a while, so it judges no silence before it has listened again, {from}")
    }

    fn cancelling(&self, def: &StepDef, cancelling: &Cancelling) -> String {
        let cause = self.cause(cancelling.cause);
        let told = format!(
            "{cause}; {} was told to stop attempt {}",
            self.worker(cancelling.live.worker),
            cancelling.live.number
        );
        match cancelling.cut {
            Some(cut) => format!("{told}, but its link was lost {}", ago(cut.at, self.now)),
            None => told + &self.times_to_stop(def, cancelling),
        }
    }

    /// What a step that was told to stop has time for; the rest goes without saying. Only its worker knows when a cleanup
    /// begins, and says so in the log: here it is told when it begins at the latest.
    fn times_to_stop(&self, def: &StepDef, cancelling: &Cancelling) -> String {
        let (grace, ends) = (span(def.stop.grace), grace_ends(def, cancelling));
        match (cancelling.mode, def.cleanup()) {
            (StopMode::Kill, _) => ", at once".to_owned(),
            (StopMode::Graceful, None) => String::new(),
            (StopMode::Graceful, Some(budget)) if ends > self.now => format!(
                ": it has {grace} to end ({} left); as soon as it is gone its cleanup runs, for {} at most, and the log says \
                 when it begins",
                span(ends.since(self.now)),
                span(budget)
            ),
            (StopMode::Graceful, Some(budget)) => format!(
                ": its {grace} to end are over, so by now its cleanup should be running, for {} at most; the log says when \
                 it began",
                span(budget)
            ),
        }
    }

    /// Why something was told to stop.
    fn cause(&self, cause: StopCause) -> String {
        match cause {
            StopCause::Cancel => {
                let by = self.job.header.cancel.as_ref().map_or("an operator", |order| order.by.as_str());
                format!("cancelled by {by}")
            }
            StopCause::JobTimeout => "the job's timeout is over".to_owned(),
            StopCause::StepTimeout => "its timeout is over".to_owned(),
            StopCause::Sibling => "another item failed".to_owned(),
            StopCause::RunnerStale { silent_ms } => {
                format!("its runner gave no sign of life for {}", span(Duration::from_millis(silent_ms)))
            }
        }
    }

    /// It may have run already, and only somebody who looks can know.
    fn in_doubt(&self, ix: StepIx, held: &Held) -> String {
        let waits = self.held(self.job.def(ix), held);
        let step = format!("{} {}", self.job.id, shell_word(&self.job.name(ix)));
        let (what, run) = match held.live {
            Some(live) => {
                let who = self.worker(live.worker);
                let what = format!("attempt {} was under way on {who}, and may still be", live.number);
                (what, format!("`bowline resolve {step} --rerun --confirm-dead`"))
            }
            None => ("it may have run in the time that is lost".to_owned(), format!("`bowline approve {step}`")),
        };
        format!(
            "{waits}; the database was restored: {what}. {run} runs it, `bowline resolve {step} --succeeded` or \
             `--failed` says what became of it"
        )
    }

    fn held(&self, def: &StepDef, held: &Held) -> String {
        let since = span(self.now.since(held.since));
        let mut text = match held.missing() {
            0 | 1 => format!("has waited {since} for approval"),
            more => format!("has waited {since} for {more} approvals"),
        };
        let protection = &def.protection;
        if let Some(message) = &protection.message {
            text += &format!(" (\"{message}\")");
        }
        if let Some(environment) = &protection.environment {
            text += &format!(", as `{environment}` asks");
        }
        if protection.four_eyes {
            text += &format!(", not by {}", self.job.submitted_by);
        }
        if !held.approvals.is_empty() {
            let by: Vec<&str> = held.approvals.iter().map(|approval| approval.by.as_str()).collect();
            text += &format!("; approved by {}", by.join(", "));
        }
        text
    }

    /// It may be further off than the next look.
    pub(super) fn hold_expires(&self, ix: StepIx) -> String {
        match &self.job.step(ix).state {
            State::Held(Held { expires_at: Some(at), .. }) => format!("; the hold expires {}", until(*at, self.now)),
            _ => String::new(),
        }
    }

    fn waiting(&self, def: &StepDef, step: &Step, waiting: &Waiting) -> String {
        let left = until(waiting.until, self.now);
        match waiting.reason {
            WaitReason::Protection => {
                let whose = def.protection.environment.as_ref().map(|name| format!("`{name}`"));
                format!("{} asks for a wait, over {left}", whose.as_deref().unwrap_or("its environment"))
            }
            WaitReason::Retry => {
                let after = step.error.as_ref().map(|error| format!(", after: {}", error.message)).unwrap_or_default();
                format!("execution {} of {} is due {left}{after}", step.executions + 1, def.retry.attempts)
            }
        }
    }

    fn ended(&self, def: &StepDef, step: &Step, end: End) -> String {
        let attempts = count(step.attempts, "attempt");
        match end {
            End::Success if step.attempts == 0 && matches!(def.work, Work::Approve) => "it was approved".to_owned(),
            End::Success if let Some(fan) = step.fan => format!("all of its {} ended well", count(fan.count, "item")),
            End::Success if step.attempts > 0 && matches!(def.work, Work::Child(_)) => {
                "its child job ended well".to_owned()
            }
            End::Success if step.attempts == 0 => "it was taken over, or settled by hand".to_owned(),
            End::Success => format!("it ended well in attempt {}", step.attempts),
            End::Failed | End::Cancelled => {
                let why = step.error.as_ref().map_or_else(|| "no reason was kept".to_owned(), ToString::to_string);
                let forgiven = if end == End::Failed && def.allow_failure { "; its failure is allowed" } else { "" };
                if step.attempts > 1 {
                    format!("{why}; {attempts} were made{forgiven}")
                } else {
                    format!("{why}{forgiven}")
                }
            }
            End::Skipped(_) => self.skipped(def, step),
        }
    }

    fn skipped(&self, def: &StepDef, step: &Step) -> String {
        if self.expired && self.job.header.ended_at == Some(step.updated_at) {
            return "the job expired before it".to_owned();
        }
        // Its step's needs and condition say nothing of it where that was rejected or called off.
        if let Some(item) = &step.item
            && !matches!(self.job.step(item.of).state, State::Final(End::Skipped(_)))
        {
            return format!("step {} ended before it began", self.name(item.of));
        }
        let unmet = def.needs.iter().filter(|need| !self.is_met(need));
        let told: Vec<String> =
            unmet.map(|need| format!("{} {}", self.name(need.step), self.ended_as(need.step))).collect();
        match (&def.condition, told.as_slice()) {
            // Nothing of its own speaks against it.
            (_, []) if self.was_turned_away() => "the job never began".to_owned(),
            (Condition::Success, unmet) => list(unmet),
            (Condition::Expression(text), []) => format!("its condition `{text}` is false"),
            (Condition::Expression(text), unmet) => format!("its condition `{text}` is false: {}", list(unmet)),
        }
    }

    /// Its group had no room for the job, or never would have.
    fn was_turned_away(&self) -> bool {
        let error = self.job.header.error.as_ref().filter(|error| error.step.is_none());
        error.is_some_and(|error| matches!(error.failure.kind, FailureKind::GroupFull | FailureKind::GroupDeadlock))
    }

    /// What the check will do, said as it would turn out now.
    fn action(&self, def: &StepDef, step: &Step, action: Action) -> String {
        match action {
            Action::LookAgain => "look again".to_owned(),
            Action::WithdrawOffer => "take the offer back and find another worker".to_owned(),
            Action::DecideUnmatched => "fail it as unmatched, unless a worker has its tags".to_owned(),
            Action::StopForTimeout if step.state.child().is_some() => {
                "call its job off: its timeout is over".to_owned()
            }
            Action::StopForTimeout => "tell the worker to stop it: its timeout is over".to_owned(),
            Action::DecideLoss => verdict_of_loss(def, step).to_owned(),
            Action::ForceCancel => "end it without the worker's answer".to_owned(),
            Action::ExpireHold => "cancel it: nobody approved it in time".to_owned(),
            Action::TimerDone if def.protection.reviewers > 0 && step.attempts == 0 => "ask for approval".to_owned(),
            Action::TimerDone => "queue it".to_owned(),
            Action::CancelForTimeout => "cancel the job: its timeout is over".to_owned(),
            Action::Expire => "fail the job: it did not start in time".to_owned(),
            Action::GiveNotice => "give notice that it takes too long".to_owned(),
        }
    }

    fn open_needs<'d>(&self, def: &'d StepDef) -> impl Iterator<Item = &'d Need> {
        def.needs.iter().filter(|need| !self.job.step(need.step).state.is_final())
    }

    fn is_met(&self, need: &Need) -> bool {
        let forgiven = self.job.def(need.step).allow_failure;
        match &self.job.step(need.step).state {
            State::Final(end) => need.on.meet(*end, forgiven),
            _ => false,
        }
    }

    /// `failed`, `was skipped`.
    fn ended_as(&self, ix: StepIx) -> String {
        match &self.job.step(ix).state {
            State::Final(End::Success) => "succeeded".to_owned(),
            State::Final(End::Failed) => "failed".to_owned(),
            state => format!("was {}", state.name()),
        }
    }

    pub(super) fn name(&self, ix: StepIx) -> String {
        format!("`{}`", self.job.name(ix))
    }

    fn worker(&self, id: WorkerId) -> String {
        match self.roster.worker(id) {
            Some(worker) if worker.host == worker.name || worker.host.is_empty() => format!("worker {}", worker.name),
            Some(worker) => format!("worker {} ({})", worker.name, worker.host),
            None => format!("worker {id} (removed)"),
        }
    }
}

/// What was noticed of it, while that may still be so.
fn lateness(def: &StepDef, step: &Step) -> String {
    match (&step.state, def.expect) {
        (State::Queued(_), _) if step.queue_old_at.is_some() => {
            "; it has waited for longer than the server's limit for notices".to_owned()
        }
        (State::Running(_) | State::Recovering(_) | State::Delegated(_), Some(expect)) if step.late_at.is_some() => {
            let what = if def.fan_out.is_some() && step.item.is_none() { "has items that take" } else { "takes" };
            format!("; {what} longer than expected: {}", span(expect))
        }
        _ => String::new(),
    }
}

/// Why no worker has the step yet.
fn supply(def: &StepDef, found: &MatchView) -> String {
    let wanted = def.wanted();
    let tags = Ability::told(wanted.iter().map(AsRef::as_ref));
    if found.matching > 0 {
        let who = match (found.matching, found.busy) {
            (1, 1) => "1 matches, and it is busy".to_owned(),
            (2, 2) => "2 match, both busy".to_owned(),
            (all, busy) if all == busy => format!("{all} match, all busy"),
            (1, _) => "1 matches".to_owned(),
            (all, 0) => format!("{all} match"),
            (all, busy) => format!("{all} match, {busy} of them busy"),
        };
        let slots = format!("{} of {} slots taken", found.slots_taken, found.slots);
        let refused: Vec<String> = found.refusals.iter().map(refused_by).collect();
        return match refused.len() {
            0 => format!("waits for a worker with tags {tags}: {who} ({slots})"),
            _ => format!(
                "waits for a worker with tags {tags}: {who} ({slots}); an offer was refused by {}, to be asked again \
                 after a heartbeat",
                list(&refused)
            ),
        };
    }
    if !found.away.is_empty() {
        let who =
            if found.away.len() == 1 { "the worker that has them takes" } else { "the workers that have them take" };
        return format!("waits for a worker with tags {tags}: {who} no new work: {}", workers::told(&found.away));
    }
    let (missing, cannot) = Ability::parted(found.missing.iter().map(AsRef::as_ref));
    let missing: Vec<String> = missing.iter().map(|tag| format!("`{tag}`")).collect();
    let lacks = match missing.len() {
        0 if !cannot.is_empty() => {
            return format!("no worker can {}: those that are here are of an earlier version", cannot.join(" and "));
        }
        0 if found.connected == 0 => format!("no worker is connected; it needs tags {tags}"),
        0 => format!("no single worker has all of the tags {tags}"),
        1 => format!("no worker has tag {}", list(&missing)),
        _ => format!("no worker has tags {}", list(&missing)),
    };
    if cannot.is_empty() { lacks } else { format!("{lacks}, and none can {}", cannot.join(" and ")) }
}

fn refused_by(refusal: &Refusal) -> String {
    match &refusal.why {
        Some(why) => format!("worker {} ({why})", refusal.worker),
        None => format!("worker {}", refusal.worker),
    }
}

/// What the end of the window will bring, by the same rules that decide it.
fn verdict_of_loss(def: &StepDef, step: &Step) -> &'static str {
    let ground = Ground::of_silence(def.effects, def.on_disconnect == OnDisconnect::Stop);
    if ground.is_none() {
        return "fail it as `worker_lost`: it may have run, and its effects forbid a repeat";
    }
    if def.retry.on.worker_lost {
        return if step.executions < def.retry.attempts {
            "try it again: its policy names `worker_lost`"
        } else {
            "fail it as `worker_lost`: its policy has no attempt left"
        };
    }
    if def.effects.may_repeat() {
        "queue it again: its effects allow a repeat, unless it lost too many workers"
    } else {
        "fail it as `worker_lost`: its effects forbid a repeat"
    }
}
