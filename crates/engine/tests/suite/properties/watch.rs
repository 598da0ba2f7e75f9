//! A second opinion: watches events and changes, and knows the promises without knowing how the engine keeps them.

use std::collections::{BTreeMap, BTreeSet};

use engine::attempt::{AttemptState, Stopped};
use engine::deadline::LOOK_AGAIN;
use engine::definition::{Condition, Effects, OnDisconnect, StepDef, Work};
use engine::event::{About, Changes, Effect, Event, Rejection};
use engine::job::{Counts, Item};
use engine::state::{End, State};
use engine::table::{self, Verb};
use engine::{AttemptId, Heard, Job, JobState, StateName, StepIx};

use crate::support::world::World;

pub(super) struct Watch {
    attempts: BTreeMap<AttemptId, Seen>,
    steps: Vec<Tally>,
    finalised: u32,
    /// They may have run in a time that is not on record, and nobody has said since that they may run.
    in_doubt: BTreeSet<StepIx>,
}

/// What was seen of one attempt.
struct Seen {
    step: StepIx,
    /// It got leave to start.
    granted: bool,
    /// An agent said that it ended, or is gone.
    over: bool,
    /// Since when its link is lost.
    cut: Option<Heard>,
    /// Its runner was silent for a whole window.
    silent: bool,
    /// Its row was closed.
    closed: bool,
}

#[derive(Default)]
struct Tally {
    ends: u32,
    grants: u32,
    /// Grants that were taken back, by proof that they never started or by effects.
    requeues: u32,
    /// Repeats by effects since it last ended by itself.
    losses_in_a_row: u32,
}

impl Watch {
    pub(super) fn new(world: &World, first: &Changes) -> Watch {
        let steps = world.job.steps.iter().map(|_| Tally::default()).collect();
        let mut watch = Watch { attempts: BTreeMap::new(), steps, finalised: 0, in_doubt: BTreeSet::new() };
        watch.count_ends(first);
        watch.check_shape(world);
        watch
    }

    /// Plays one event and checks everything that must hold after it.
    pub(super) fn step(&mut self, world: &mut World, event: &Event) -> Result<Changes, Rejection> {
        let before = world.job.clone();
        let outcome = world.play(event);
        let Ok(changes) = &outcome else { return outcome };
        assert!(!before.is_final(), "a final job was changed by {event:?}");
        self.take_in_doubt(&before, world, event);
        self.hear(world, event);
        self.count_ends(changes);
        self.check_moves(&before, world, event, changes);
        self.check_rows(world, changes);
        self.check_effects(world, changes);
        check_final_steps(&before, &world.job);
        check_progress(&before, world, event);
        self.check_shape(world);
        outcome
    }

    /// After a restore nothing with effects is handed out before a person has said so.
    fn take_in_doubt(&mut self, before: &Job, world: &World, event: &Event) {
        match event {
            Event::Restored { .. } => {
                let doubtful = |ix: &StepIx| {
                    let def = before.def(*ix);
                    let asks = matches!(def.work, Work::Approve);
                    !asks && (def.effects != Effects::None || matches!(def.work, Work::Child(_)))
                };
                self.in_doubt.extend(each(before).map(|(ix, _)| ix).filter(doubtful));
            }
            Event::Approve { step, .. } => drop(self.in_doubt.remove(step)),
            Event::Resolve(order) => drop(self.in_doubt.remove(&order.step)),
            Event::Offer { ticket, .. } => assert!(!self.in_doubt.contains(&ticket.step), "it may have run before"),
            _ => {}
        }
        for &ix in &self.in_doubt {
            let (old, new) = (&before.step(ix).state, &world.job.step(ix).state);
            assert!(old == new || !matches!(new, State::Queued(_)), "nobody said that it may run");
            assert!(old.child() == new.child() || new.child().is_none(), "nobody said that its job may run");
        }
    }

    /// Takes in what an accepted event says of an attempt, by itself.
    fn hear(&mut self, world: &World, event: &Event) {
        if let Event::Offer { ticket, .. } = event {
            self.may_follow(world, ticket.step, ticket.attempt);
            let seen = Seen { step: ticket.step, granted: false, over: false, cut: None, silent: false, closed: false };
            assert!(self.attempts.insert(ticket.attempt, seen).is_none(), "an attempt was offered twice");
        }
        if let Event::Resolve(order) = event
            && order.confirm_dead
        {
            let of_step = self.attempts.values_mut().filter(|seen| seen.step == order.step);
            of_step.filter(|seen| !seen.closed).for_each(|seen| seen.over = true);
        }
        let Some(ticket) = event.ticket() else { return };
        if let Event::Accepted { .. } = event {
            self.may_follow(world, ticket.step, ticket.attempt);
        }
        let seen = self.attempts.get_mut(&ticket.attempt).expect("only what was offered is heard");
        assert_eq!(seen.step, ticket.step, "an attempt spoke for another step");
        match event {
            Event::Accepted { .. } => {
                if !seen.granted {
                    self.steps[ticket.step.get()].grants += 1;
                }
                seen.granted = true;
            }
            Event::Ended { report, .. } => {
                seen.over = true;
                if matches!(report.stopped, None | Some(Stopped::Timeout)) {
                    self.steps[ticket.step.get()].losses_in_a_row = 0;
                }
            }
            Event::Gone { .. } => seen.over = true,
            Event::LinkLost { .. } => seen.cut = Some(world.heard()),
            Event::ServerLost { since, .. } => seen.cut = Some(*since),
            // It may have been cut off before; a running one is from now on.
            Event::WorkerRemoved { .. } => seen.cut = seen.cut.or(Some(world.heard())),
            Event::NoReturn { .. } => {
                seen.cut = seen.cut.or(Some(world.heard()));
                seen.silent = true;
            }
            Event::Reattached { .. } => seen.cut = None,
            Event::FellSilent { silent, .. } => seen.silent |= *silent >= world.rules.recovery_window,
            _ => {}
        }
    }

    /// The successor rule, from what was heard alone.
    fn may_follow(&self, world: &World, step: StepIx, next: AttemptId) {
        let def = world.job.def(step);
        for (id, seen) in self.attempts.iter().filter(|(id, seen)| seen.step == step && **id != next) {
            let window_over = seen.cut.is_some_and(|cut| cut + world.rules.recovery_window <= world.heard());
            let lease_over = window_over && def.on_disconnect == OnDisconnect::Stop;
            let may_repeat =
                (window_over || seen.silent) && def.on_disconnect == OnDisconnect::Keep && def.effects.may_repeat();
            let fine = !seen.granted || seen.over || lease_over || may_repeat;
            assert!(fine, "{next} follows {id}, which may still run");
        }
    }

    /// Every move is in the table, and who leaves `pending` was allowed to.
    fn check_moves(&mut self, before: &Job, world: &World, event: &Event, changes: &Changes) {
        for note in &changes.notes {
            let About::Step { step, verb, from, to } = note.about else { continue };
            assert!(table::check(from, verb, to).is_ok(), "{from} by {verb} to {to} is not in the table");
            let stopped = from == StateName::Cancelling && to == StateName::Queued;
            if verb == Verb::Requeue || stopped {
                self.steps[step.get()].requeues += 1;
                self.steps[step.get()].losses_in_a_row += u32::from(!is_void(event) && !is_resolved(event));
            }
            // A person's word after a restore is neither an execution of the policy nor a loss.
            let tally = &mut self.steps[step.get()];
            if verb == Verb::Approve && tally.grants > tally.requeues {
                tally.requeues += 1;
            }
            if from == StateName::Pending && !to.is_final() {
                check_needs(world, step);
            }
        }
        assert_eq!(world.job.header.version, before.header.version + 1);
        if before.header.started_at.is_some() {
            assert_eq!(world.job.header.started_at, before.header.started_at, "a job starts once");
        }
        assert!(changes.steps.iter().all(|(_, step)| step.updated_at == world.now));
    }

    fn count_ends(&mut self, changes: &Changes) {
        // Items come to be.
        let last = changes.steps.last().map_or(0, |(ix, _)| ix.get() + 1);
        self.steps.resize_with(last.max(self.steps.len()), Tally::default);
        for note in &changes.notes {
            match note.about {
                About::Step { step, to, .. } if to.is_final() => self.steps[step.get()].ends += 1,
                About::Job { to, .. } if to.is_final() => self.finalised += 1,
                _ => {}
            }
        }
        assert!(self.finalised <= 1, "a job was finalised twice");
        assert!(self.steps.iter().all(|tally| tally.ends <= 1), "a step was finalised twice");
    }

    /// Rows of attempts: only granted ones, never reopened.
    fn check_rows(&mut self, world: &World, changes: &Changes) {
        let written: BTreeSet<AttemptId> = changes.attempts.iter().map(|row| row.live.attempt).collect();
        assert_eq!(written.len(), changes.attempts.len(), "one event writes a row once");
        for row in &changes.attempts {
            let seen = self.attempts.get_mut(&row.live.attempt).expect("only what was offered has a row");
            assert!(seen.granted, "an attempt without leave has a row");
            match row.state {
                AttemptState::Running | AttemptState::Recovering => assert!(!seen.closed, "a row was reopened"),
                AttemptState::Ended | AttemptState::Lost | AttemptState::Superseded => {
                    assert!(!seen.closed, "a row was closed twice");
                    seen.closed = true;
                    assert!(!row.confirmed || seen.over || is_leased(world.job.def(row.step)));
                }
            }
        }
        for (ix, step) in each(&world.job) {
            let live = step.state.live().map(|live| live.attempt);
            for (id, seen) in self.attempts.iter().filter(|(_, seen)| seen.step == ix && seen.granted) {
                assert_eq!(seen.closed, live != Some(*id), "exactly the live attempt has an open row");
            }
        }
    }

    /// Leave is given only to what runs now, and an offer is sent only if it stands.
    fn check_effects(&self, world: &World, changes: &Changes) {
        for effect in &changes.effects {
            match effect {
                Effect::Go { ticket, .. } => {
                    let State::Running(live) = &world.job.step(ticket.step).state else {
                        panic!("leave was given to a step that does not run");
                    };
                    assert_eq!((live.attempt, live.fence), (ticket.attempt, ticket.fence));
                }
                Effect::Offer { step, offer } => assert_eq!(world.job.step(*step).state.offer(), Some(offer)),
                Effect::Withdraw { ticket, .. } => {
                    assert_ne!(world.job.step(ticket.step).state.ticket().map(|t| t.0), Some(ticket.attempt));
                    assert!(!self.attempts[&ticket.attempt].granted, "leave cannot be withdrawn");
                }
                Effect::Stop { ticket, .. } => assert!(self.attempts[&ticket.attempt].granted),
                Effect::Forget { ticket, .. } => assert!(self.attempts[&ticket.attempt].over),
            }
        }
    }

    /// What holds of every job at any time.
    fn check_shape(&self, world: &World) {
        let job = &world.job;
        assert_eq!(job.header.counts, Counts::of(&job.steps), "counts are those of the steps");
        let latest = world.now + LOOK_AGAIN;
        for (ix, step) in each(job) {
            let def = job.def(ix);
            assert_eq!(step.check.is_none(), step.state.is_final(), "an owner and a time, unless final: {step:?}");
            assert!(step.check.is_none_or(|check| check.at <= latest), "looked at within the hour: {step:?}");
            if let Some(item) = &step.item {
                check_item(job, item, step);
            } else if step.state == State::Pending {
                let unmet = def.needs.iter().filter(|n| !job.step(n.step).state.is_final()).count();
                assert_eq!(step.unmet as usize, unmet, "unmet needs of {}", def.name);
                assert!(unmet > 0, "nobody is left pending with its needs met");
            }
            let tally = &self.steps[ix.get()];
            assert!(tally.grants - tally.requeues <= def.retry.attempts, "executed more often than the policy says");
            assert!(tally.losses_in_a_row < world.rules.max_losses, "repeated more often than losses allow");
        }
        assert_eq!(job.header.check.is_none(), job.is_final());
        assert!(job.header.check.is_none_or(|check| check.at <= latest));
        assert_eq!(job.header.ended_at.is_some(), job.is_final());
        assert_eq!(job.header.state.is_final(), job.steps.iter().all(|s| s.state.is_final()));
        assert_eq!(job.header.held_since.is_some(), job.header.state == JobState::Held);
        assert_eq!(job.header.error.is_some(), matches!(job.header.state, JobState::Failed | JobState::Cancelled));
        assert!(job.header.state != JobState::Success || nothing_went_wrong(job));
    }
}

/// Items get their turns in order, no more at once than the step says, and it is open as long as one of them is.
fn check_item(job: &Job, item: &Item, step: &engine::Step) {
    let (node, def) = (job.step(item.of), job.def(item.of));
    let fan = node.fan.expect("who has items knows them");
    let open = fan.items().filter(|ix| !job.step(*ix).state.is_final()).count();
    assert_eq!(open, fan.open as usize, "open items of {}", def.name);
    assert!(open == 0 || !node.state.is_final(), "{} ended before its items", def.name);
    assert!(open > 0 || node.state.is_final(), "{} goes on without an item", def.name);
    assert_eq!(step.state == State::Pending, item.number >= fan.begun && !step.state.is_final());
    let fan_out = def.fan_out.as_ref().expect("who has items has a list");
    let under_way = fan.items().filter(|ix| !matches!(job.step(*ix).state, State::Pending | State::Final(_))).count();
    assert_eq!(under_way, fan.under_way as usize);
    assert!(
        fan_out.max_parallel.is_none_or(|most| under_way <= most as usize),
        "too many items of {} at once",
        def.name
    );
}

fn check_final_steps(before: &Job, after: &Job) {
    for (ix, step) in each(before).filter(|(_, step)| step.state.is_final()) {
        assert_eq!(step, after.step(ix), "a final step was changed");
    }
}

/// A check that found nothing to do is not due again in the same moment: that would be a loop.
fn check_progress(before: &Job, world: &World, event: &Event) {
    let Event::Check { step } = event else { return };
    let (old, new) = (before.step(*step), world.job.step(*step));
    if old.state == new.state {
        let later = new.check.is_some_and(|check| check.at > world.now);
        assert!(later, "looked at again at once: {new:?}");
    }
}

/// A step that was admitted: its needs are final and, where it has no condition of its own, as it asks.
fn check_needs(world: &World, step: StepIx) {
    let job = &world.job;
    let def = job.def(step);
    for need in &def.needs {
        let State::Final(end) = job.step(need.step).state else { panic!("{} did not wait for its needs", def.name) };
        let met = match end {
            End::Success => need.on.success,
            End::Failed if job.def(need.step).allow_failure => need.on.success || need.on.failed,
            End::Failed => need.on.failed,
            End::Cancelled => need.on.cancelled,
            End::Skipped(_) => need.on.skipped,
        };
        assert!(met || def.condition != Condition::Success, "{} ran although its needs are not met", def.name);
    }
    let cancelled = job.header.cancel.is_some();
    let asks_for_success = match &def.condition {
        Condition::Success => true,
        Condition::Expression(text) => &**text == "success()",
    };
    assert!(!(cancelled && asks_for_success), "{} was started in a cancelled job", def.name);
}

fn nothing_went_wrong(job: &Job) -> bool {
    each(job).all(|(ix, step)| {
        let bad = matches!(step.state, State::Final(End::Failed | End::Cancelled));
        !bad || job.def(ix).allow_failure
    })
}

fn each(job: &Job) -> impl Iterator<Item = (StepIx, &engine::Step)> {
    job.steps.iter().enumerate().map(|(index, step)| (StepIx::of(index), step))
}

fn is_leased(def: &StepDef) -> bool {
    def.on_disconnect == OnDisconnect::Stop
}

fn is_void(event: &Event) -> bool {
    matches!(event, Event::Gone { loss: engine::attempt::Loss::Void, .. })
}

/// A person's repeat spends nothing.
fn is_resolved(event: &Event) -> bool {
    matches!(event, Event::Resolve(_))
}
