//! Who must move a step or a job, when it is looked at next without any outside event, and what happens then.
//!
//! Every state that is not final has one: the functions here are total, so nothing can be left without.

use std::time::Duration;

use planted::Bug;

use crate::definition::{Patience, StepDef};
use crate::ids::WorkerId;
use crate::job::{Header, Step};
use crate::state::{Delegate, Delegated, Live, Queued, State};
use crate::time::{Clocks, Heard, Time};

/// Nothing is left unlooked at for longer.
pub const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// The runner enforces the step's timeout; the server looks this much later, as the second guard.
pub const TIMEOUT_SLACK: Duration = Duration::from_secs(1);

/// However short a step's patience, it is not looked at more often: workers that match may be busy for long.
const UNMATCHED_AGAIN_MIN: Duration = Duration::from_secs(1);

/// A child job that was called off is asked again after this whether it has heard of it.
const CALLED_OFF_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    pub owner: Owner,
    pub at: Time,
    pub action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The steps that it needs.
    Needs,
    /// The job's own steps.
    Steps,
    /// The job that it began.
    Child,
    /// The other jobs of its concurrency group.
    Group,
    Dispatcher,
    Worker(WorkerId),
    Timer,
    Person,
    Operator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    LookAgain,
    /// The offer was not answered: take it back.
    WithdrawOffer,
    /// Fail it as `unmatched` unless a worker that matches is there.
    DecideUnmatched,
    StopForTimeout,
    DecideLoss,
    ForceCancel,
    ExpireHold,
    TimerDone,
    /// The whole job.
    CancelForTimeout,
    Expire,
    /// It takes longer than it should: say so.
    GiveNotice,
}

/// The rules of the installation that deadlines and verdicts follow from.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Twice the longest reconnect delay.
    pub recovery_window: Duration,
    pub dispatch_ack: Duration,
    pub unmatched: Duration,
    pub max_dispatch_attempts: u32,
    pub max_losses: u32,
    /// Whether offers of a silent worker are taken back, and attempts of a silent runner given up, without asking.
    pub auto_requeue_stale_claimed: bool,
    pub auto_fail_stale_running: bool,
    /// A step that waits for a worker for longer is worth a notice; none: never.
    pub queue_notice: Option<Duration>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            recovery_window: Duration::from_secs(120),
            dispatch_ack: Duration::from_secs(10),
            unmatched: Duration::from_secs(30),
            max_dispatch_attempts: 5,
            max_losses: 3,
            auto_requeue_stale_claimed: true,
            auto_fail_stale_running: true,
            queue_notice: None,
        }
    }
}

impl Rules {
    /// How long an answer to a runner holds: well below the window, after which somebody else may get the step.
    pub fn lease(&self) -> Duration {
        let share = if planted::is(Bug::LeaseOutlastsWindow) { 3.0 } else { 0.8 };
        self.recovery_window.mul_f64(share)
    }
}

/// The deadline of a step in this state; none exactly when it is final.
pub(crate) fn of_step(step: &Step, def: &StepDef, rules: &Rules, clocks: &Clocks) -> Option<Deadline> {
    let (owner, due) = due_of_step(&step.state, def, rules, clocks)?;
    let notice = match planted::is(Bug::ExpectedAndForgotten) {
        true => None,
        false => step_expects(step, def).or_else(|| queue_old_at(step, rules, clocks)),
    };
    let notice = notice.map(|at| (at, Action::GiveNotice));
    let first = due.into_iter().chain(notice).min_by_key(|(at, _)| *at);
    Some(bounded(owner, first, clocks.now))
}

/// When a notice is due for the attempt that is under way; none if nothing is expected, or the notice was given. One that is cut
/// off is noticed when it is back: until then its check time is that of its window.
pub(crate) fn step_expects(step: &Step, def: &StepDef) -> Option<Time> {
    let expect = def.expect.filter(|_| step.late_at.is_none())?;
    let since = match &step.state {
        State::Running(live) => live.started_at,
        State::Delegated(Delegated { since, to: Delegate::Child(_), called_off: None, .. }) => *since,
        _ => return None,
    };
    Some(since + expect)
}

/// When a step that could be offered has waited for too long. Time in which nobody could have come for it does not count.
pub(crate) fn queue_old_at(step: &Step, rules: &Rules, clocks: &Clocks) -> Option<Time> {
    old_when_heard(step, rules, clocks).map(|at| clocks.verdict_at(at))
}

pub(crate) fn is_queue_old(step: &Step, rules: &Rules, clocks: &Clocks) -> bool {
    old_when_heard(step, rules, clocks).is_some_and(|at| clocks.may_judge(at))
}

fn old_when_heard(step: &Step, rules: &Rules, clocks: &Clocks) -> Option<Heard> {
    let limit = rules.queue_notice.filter(|_| step.queue_old_at.is_none())?;
    match &step.state {
        State::Queued(queued) if queued.offer.is_none() && queued.not_before.is_none_or(|at| at <= clocks.now) => {
            Some(queued.heard_since + limit)
        }
        _ => None,
    }
}

/// When a notice is due for the job; like its timeout it stands still while only a person can move the job on.
pub(crate) fn job_expects(header: &Header) -> Option<Time> {
    match (header.held_since, &header.cancel) {
        (None, None) => header.expect_at,
        (Some(_), _) | (_, Some(_)) => None,
    }
}

type Due = Option<(Time, Action)>;

fn due_of_step(state: &State, def: &StepDef, rules: &Rules, clocks: &Clocks) -> Option<(Owner, Due)> {
    let now = clocks.now;
    let (owner, due) = match state {
        State::Pending => (Owner::Needs, None),
        State::Queued(queued) => match (&queued.offer, queued.not_before) {
            (Some(offer), _) if planted::is(Bug::OfferWithoutDeadline) => (Owner::Worker(offer.worker), None),
            (Some(offer), _) => {
                (Owner::Worker(offer.worker), Some((clocks.wall(offer.answer_by), Action::WithdrawOffer)))
            }
            (None, Some(at)) if at > now => (Owner::Dispatcher, Some((at, Action::LookAgain))),
            (None, _) => {
                let due = patience(def, rules).map(|p| next_decision(queued, p, clocks));
                (Owner::Dispatcher, due.map(|at| (at, Action::DecideUnmatched)))
            }
        },
        State::Running(live) if planted::is(Bug::OfferTimerOutlivesGrant) => {
            (Owner::Worker(live.worker), Some((offer_over(live, rules), Action::WithdrawOffer)))
        }
        State::Running(live) => {
            (Owner::Worker(live.worker), live.timeout_at.map(|at| (at + TIMEOUT_SLACK, Action::StopForTimeout)))
        }
        State::Delegated(Delegated { to: Delegate::Items, .. }) => (Owner::Steps, None),
        State::Delegated(Delegated { to: Delegate::Child(_), called_off: Some(_), .. }) => {
            (Owner::Child, Some((now + CALLED_OFF_AGAIN, Action::LookAgain)))
        }
        State::Delegated(Delegated { to: Delegate::Child(_), called_off: None, since, .. }) => {
            (Owner::Child, def.timeout.map(|limit| (*since + limit, Action::StopForTimeout)))
        }
        State::Recovering(r) => {
            (Owner::Worker(r.live.worker), Some((clocks.verdict_at(r.deadline), Action::DecideLoss)))
        }
        State::Cancelling(c) if planted::is(Bug::CancelAwaitsTheLost) && c.cut.is_some() => {
            (Owner::Worker(c.live.worker), None)
        }
        State::Cancelling(c) => (Owner::Worker(c.live.worker), Some((c.deadline, Action::ForceCancel))),
        State::Held(held) => (Owner::Person, held.expires_at.map(|at| (at, Action::ExpireHold))),
        State::Waiting(waiting) => (Owner::Timer, Some((waiting.until, Action::TimerDone))),
        State::Final(_) => return None,
    };
    Some((owner, due))
}

/// When the offer would be over that this attempt was: a planted bug still looks at it.
pub(crate) fn offer_over(live: &Live, rules: &Rules) -> Time {
    live.started_at + rules.dispatch_ack
}

/// The deadline of a job that is not final.
pub(crate) fn of_job(header: &Header, created_at: Time, expires: Option<Duration>, now: Time) -> Deadline {
    let expiry = match header.started_at {
        None => expires.map(|d| (created_at + d, Action::Expire)),
        Some(_) => None,
    };
    // A hold stops the job's clock, and an order that was given is not given again.
    let timeout = match (header.held_since, &header.cancel) {
        (None, None) => header.timeout_at.map(|at| (at, Action::CancelForTimeout)),
        (Some(_), _) | (_, Some(_)) => None,
    };
    let notice = job_expects(header).filter(|_| !planted::is(Bug::ExpectedAndForgotten));
    let notice = notice.map(|at| (at, Action::GiveNotice));
    let due = [expiry, timeout, notice].into_iter().flatten().min_by_key(|(at, _)| *at);
    bounded(Owner::Steps, due, now)
}

pub(crate) fn patience(def: &StepDef, rules: &Rules) -> Option<Duration> {
    match def.unmatched {
        Patience::Default => Some(rules.unmatched),
        Patience::For(d) => Some(d),
        Patience::Forever => None,
    }
}

/// When a queued step is looked at for want of a worker: once its patience is over, and then again and again.
fn next_decision(queued: &Queued, patience: Duration, clocks: &Clocks) -> Time {
    let first = clocks.verdict_at(queued.heard_since + patience);
    if first > clocks.now { first } else { clocks.now + patience.clamp(UNMATCHED_AGAIN_MIN, LOOK_AGAIN) }
}

impl Step {
    /// The step's next check as it stands now: a time that was foreseen when the row was written moves with the deaf
    /// time since. It never comes sooner: nobody looks before the row's own time, which another server may have written
    /// that had to listen for longer.
    pub fn check_at(&self, clocks: &Clocks) -> Option<Deadline> {
        let check = self.check?;
        let moved = match (&self.state, check.action) {
            (State::Recovering(r), Action::DecideLoss) => clocks.verdict_at(r.deadline),
            (State::Queued(queued), Action::WithdrawOffer) => {
                queued.offer.map_or(check.at, |offer| clocks.wall(offer.answer_by))
            }
            (State::Queued(_), Action::DecideUnmatched | Action::GiveNotice) => clocks.wall(clocks.verdicts_from),
            _ => check.at,
        };
        Some(Deadline { at: check.at.max(moved), ..check })
    }
}

fn bounded(owner: Owner, due: Option<(Time, Action)>, now: Time) -> Deadline {
    let latest = now + LOOK_AGAIN;
    match due {
        Some((at, action)) if at <= latest => Deadline { owner, at, action },
        Some(_) | None => Deadline { owner, at: latest, action: Action::LookAgain },
    }
}

impl Owner {
    pub fn word(self) -> &'static str {
        match self {
            Owner::Needs => "needs",
            Owner::Steps => "steps",
            Owner::Child => "child",
            Owner::Group => "group",
            Owner::Dispatcher => "dispatcher",
            Owner::Worker(_) => "worker",
            Owner::Timer => "timer",
            Owner::Person => "person",
            Owner::Operator => "operator",
        }
    }

    pub fn from_word(word: &str, worker: Option<WorkerId>) -> Option<Owner> {
        Some(match word {
            "needs" => Owner::Needs,
            "steps" => Owner::Steps,
            "child" => Owner::Child,
            "group" => Owner::Group,
            "dispatcher" => Owner::Dispatcher,
            "worker" => Owner::Worker(worker?),
            "timer" => Owner::Timer,
            "person" => Owner::Person,
            "operator" => Owner::Operator,
            _ => return None,
        })
    }

    pub fn worker(self) -> Option<WorkerId> {
        match self {
            Owner::Worker(id) => Some(id),
            _ => None,
        }
    }
}

impl Action {
    pub const ALL: [Action; 11] = [
        Action::LookAgain,
        Action::WithdrawOffer,
        Action::DecideUnmatched,
        Action::StopForTimeout,
        Action::DecideLoss,
        Action::ForceCancel,
        Action::ExpireHold,
        Action::TimerDone,
        Action::CancelForTimeout,
        Action::Expire,
        Action::GiveNotice,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Action::LookAgain => "look_again",
            Action::WithdrawOffer => "withdraw_offer",
            Action::DecideUnmatched => "decide_unmatched",
            Action::StopForTimeout => "stop_for_timeout",
            Action::DecideLoss => "decide_loss",
            Action::ForceCancel => "force_cancel",
            Action::ExpireHold => "expire_hold",
            Action::TimerDone => "timer_done",
            Action::CancelForTimeout => "cancel_for_timeout",
            Action::Expire => "expire",
            Action::GiveNotice => "give_notice",
        }
    }

    pub fn from_word(word: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.word() == word)
    }
}
