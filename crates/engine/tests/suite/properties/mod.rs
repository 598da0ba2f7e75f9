//! Random small tasks under random events, legal or not: what must hold after each of them.

mod moves;
mod tasks;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use engine::deadline::Action;
use engine::definition::{Definition, Patience, StepDef};
use engine::event::{Event, Rejection};
use engine::state::{Delegate, Delegated, Held};
use engine::why::{LooseEnd, MatchView, PauseView, Roster, WorkerView, why};
use engine::{State, StateName, StepIx, Time, WorkerId};
use proptest::prelude::*;

use crate::support::script::{child_ended, report};
use crate::support::world::World;
use moves::Move;
use watch::Watch;

const CASES: u32 = 4_000;

/// Long enough for any deadline that the tasks here can have, one after the other.
const DAYS: Duration = Duration::from_secs(7 * 24 * 3600);

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// Whatever comes, in any order: see [`Watch`] for all that is checked after each event.
    #[test]
    fn no_sequence_of_events_breaks_a_promise(definition in tasks::small(), moves in moves::some(60)) {
        play(&definition, &moves);
    }

    /// From wherever events have led: a worker that answers and a person who approves bring any job to its end, with
    /// no more than six events per step (offer, accept, return, end, a check for its timer, an approval) and attempt.
    #[test]
    fn a_job_that_is_answered_ends(definition in tasks::small(), moves in moves::some(40), well in any::<bool>()) {
        let (mut world, mut watch) = play(&definition, &moves);
        let often = |s: &StepDef| s.fan_out.as_ref().map_or(1, |_| tasks::ITEMS_MOST);
        let attempts: usize = definition.steps().iter().map(|s| (s.retry.attempts as usize + 1) * often(s)).sum();
        let mut left = 6 * attempts;
        while !world.job.is_final() {
            prop_assert!(left > 0, "not final after all those answers: {:#?}", world.job);
            left -= 1;
            let event = helpful(&mut world, well);
            let outcome = watch.step(&mut world, &event);
            prop_assert!(outcome.is_ok(), "{event:?} was refused: {outcome:?}");
        }
    }

    /// From wherever events have led: with nobody there any more, checks alone decide everything that has a deadline.
    /// What is left is what was allowed to take for ever, and even that is looked at every hour.
    #[test]
    fn a_job_that_is_left_alone_is_decided(definition in tasks::small(), moves in moves::some(40)) {
        let (mut world, mut watch) = play(&definition, &moves);
        let end = world.now + DAYS;
        let mut checks = 0;
        while let Some(at) = world.next_check().filter(|at| *at < end) {
            world.now = world.now.max(at);
            for event in world.due() {
                alone(&mut world, &mut watch, &event);
            }
            checks += 1;
            prop_assert!(checks < 2_000, "checks that never come to rest: {:#?}", world.job);
        }
        for (index, step) in world.job.steps.iter().enumerate() {
            let def = world.job.def(StepIx::of(index));
            let may_stay = match &step.state {
                State::Running(live) => live.timeout_at.is_none(),
                State::Queued(queued) => queued.offer.is_none() && def.unmatched == Patience::Forever,
                State::Held(held) => held.expires_at.is_none(),
                State::Pending => step.unmet > 0,
                State::Final(_) => true,
                // A job has no deadline here, unless the step has one.
                State::Delegated(Delegated { to: Delegate::Child(_), called_off, .. }) => {
                    called_off.is_none() && def.timeout.is_none()
                }
                // As long as an item may.
                State::Delegated(_) => step.fan.is_some_and(|fan| fan.open > 0),
                State::Recovering(_) | State::Cancelling(_) | State::Waiting(_) => false,
            };
            prop_assert!(may_stay, "step {} is stuck: {step:#?}", def.name);
            prop_assert!(step.check.is_none_or(|check| check.action == Action::LookAgain));
        }
    }

    /// `why` has an answer wherever events have led: an owner, a reason and, unless it is over, what comes next.
    #[test]
    fn every_state_can_be_explained(definition in tasks::small(), moves in moves::some(40)) {
        let (world, _) = play(&definition, &moves);
        let answer = why(&world.job, &Empty, &world.clocks());
        prop_assert!(answer.summary.ends_with('.'));
        for (step, told) in world.job.steps.iter().zip(&answer.steps) {
            prop_assert!(!told.owner.is_empty() && !told.reason.is_empty(), "{told:?}");
            prop_assert_eq!(told.next.is_none(), step.state.is_final());
        }
    }

    /// The same input gives the same answer, and a refusal leaves nothing behind.
    #[test]
    fn apply_is_a_function(definition in tasks::small(), moves in moves::some(30), last in moves::one()) {
        let (mut world, _) = play(&definition, &moves);
        let before = format!("{:?}", world.job);
        let event = last.event(&mut world);
        prop_assert_eq!(world.ask(&event), world.ask(&event));
        prop_assert_eq!(before, format!("{:?}", world.job));
    }
}

/// Nobody is there.
struct Empty;

impl Roster for Empty {
    fn worker(&self, _id: WorkerId) -> Option<WorkerView> {
        None
    }

    fn matching(&self, _tags: &[Arc<str>]) -> MatchView {
        MatchView::default()
    }

    fn loose_ends(&self, _step: StepIx) -> Vec<LooseEnd> {
        Vec::new()
    }

    fn runner_seen(&self, _step: StepIx) -> Option<Time> {
        None
    }

    fn pause(&self) -> Option<PauseView> {
        None
    }
}

fn play(definition: &Arc<Definition>, moves: &[Move]) -> (World, Watch) {
    let (mut world, changes) = World::submit(definition.clone());
    let mut watch = Watch::new(&world, &changes);
    for one in moves {
        one.pass_time(&mut world);
        for event in one.events(&mut world) {
            // Whether it is taken is the engine's business; that promises hold is checked in there.
            let _ = watch.step(&mut world, &event);
        }
    }
    (world, watch)
}

/// What a good worker, a quick dispatcher, a patient clock and a friendly person would do next.
fn helpful(world: &mut World, well: bool) -> Event {
    let open = |s: &&StepIx| match &world.job.step(**s).state {
        State::Final(_) | State::Pending => false,
        State::Delegated(delegated) => delegated.to != Delegate::Items,
        _ => true,
    };
    let all: Vec<StepIx> = (0..world.job.steps.len()).map(StepIx::of).collect();
    let Some(&step) = all.iter().find(open) else {
        panic!("an open job with nothing to do: {:#?}", world.job);
    };
    let (ticket, epoch) = (world.ticket(step), world.epoch_of(step));
    match world.job.step(step).state.clone() {
        State::Queued(queued) => match (queued.offer, queued.not_before) {
            (Some(_), _) => Event::Accepted { ticket, epoch },
            (None, not_before) => {
                world.now = world.now.max(not_before.unwrap_or(world.now));
                world.fresh_offer(step, 1)
            }
        },
        State::Running(_) => Event::Ended { ticket, report: report(if well { "0" } else { "1" }) },
        State::Recovering(_) => Event::Reattached { ticket, epoch: world.new_epoch() },
        State::Held(Held { live: Some(_), .. }) => Event::Reattached { ticket, epoch: world.new_epoch() },
        State::Cancelling(_) => Event::Ended { ticket, report: report("cancelled") },
        State::Held(held) => {
            // Somebody else each time.
            Event::Approve { step, by: format!("person {}", held.approvals.len()), comment: String::new() }
        }
        State::Waiting(waiting) => {
            world.now = world.now.max(waiting.until);
            Event::Check { step }
        }
        State::Delegated(Delegated { to: Delegate::Child(_), called_off: Some(_), .. }) => {
            child_ended(world, step, "cancelled", false)
        }
        State::Delegated(Delegated { to: Delegate::Child(_), .. }) => {
            child_ended(world, step, if well { "ok" } else { "failed" }, false)
        }
        State::Pending | State::Delegated(_) | State::Final(_) => unreachable!("only open steps are looked at"),
    }
}

/// One check, with the server's part of it: where no worker is there, a queued step is unmatched.
fn alone(world: &mut World, watch: &mut Watch, event: &Event) {
    let decide = match event {
        Event::Check { step } => {
            let check = world.job.step(*step).check;
            check.filter(|c| c.action == Action::DecideUnmatched).map(|_| *step)
        }
        _ => None,
    };
    if let Some(step) = decide {
        let unmatched = Event::Unmatched { step, missing: "everything".to_owned() };
        match watch.step(world, &unmatched) {
            Ok(_) => return,
            Err(Rejection::NotNow { state: StateName::Queued, .. }) => {}
            Err(other) => panic!("a queued step cannot be unmatched: {other}"),
        }
    }
    if let Event::Check { step } = event
        && let State::Delegated(Delegated { to: Delegate::Child(_), called_off: Some(_), .. }) =
            world.job.step(*step).state
    {
        // A job that is called off comes to its end.
        let ended = child_ended(world, *step, "cancelled", false);
        assert!(watch.step(world, &ended).is_ok(), "its end is taken");
        return;
    }
    // A check that came due together with one that ended the job or the step is refused, and that is all right.
    let _ = watch.step(world, event);
}
