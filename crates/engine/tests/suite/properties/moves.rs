//! Moves: numbers that become events once the job's state is known, so that most make sense and some are stale.

use std::time::Duration;

use engine::attempt::Loss;
use engine::event::{Event, NoReturn, Ticket};
use engine::state::Delegate;
use engine::{Epoch, Fence, State, StepIx};
use proptest::prelude::*;

use crate::support::script::{child_ended, child_of, report, resolve};
use crate::support::world::World;

#[derive(Debug, Clone)]
pub(super) struct Move {
    kind: u8,
    step: u8,
    /// Which variant of the event.
    form: u8,
    voice: Voice,
    wait: u8,
}

/// Who speaks.
#[derive(Debug, Clone, Copy)]
enum Voice {
    Current,
    /// An earlier attempt of any step.
    OldTicket(u8),
    OldFence,
    OldLink,
    /// A link that the attempt is not on yet.
    NewLink,
}

pub(super) fn some(most: usize) -> impl Strategy<Value = Vec<Move>> {
    prop::collection::vec(one(), 0..most)
}

pub(super) fn one() -> impl Strategy<Value = Move> {
    let voice = prop_oneof![
        8 => Just(Voice::Current),
        1 => any::<u8>().prop_map(Voice::OldTicket),
        1 => Just(Voice::OldFence),
        1 => Just(Voice::OldLink),
        1 => Just(Voice::NewLink),
    ];
    (0..40u8, 0..5u8, any::<u8>(), voice, 0..17u8).prop_map(|(kind, step, form, voice, wait)| Move {
        kind,
        step,
        form,
        voice,
        wait,
    })
}

impl Move {
    pub(super) fn pass_time(&self, world: &mut World) {
        world.random = u64::from(self.form) << 56;
        if self.wait == 16 {
            return world.pass_deaf(Duration::from_secs(1_000), Duration::from_secs(90));
        }
        let seconds = match self.wait {
            0..=7 => 0.0,
            8 | 9 => 0.5,
            10 | 11 => 3.0,
            12 => 12.0,
            13 => 40.0,
            14 => 130.0,
            _ => 4_000.0,
        };
        world.pass(Duration::from_secs_f64(seconds));
    }

    /// One event, or all checks that are due.
    pub(super) fn events(&self, world: &mut World) -> Vec<Event> {
        match self.kind {
            36..=37 => world.due(),
            38..=39 => {
                world.now = world.now.max(world.next_check().unwrap_or(world.now));
                world.due()
            }
            _ => vec![self.event(world)],
        }
    }

    pub(super) fn event(&self, world: &mut World) -> Event {
        let step = StepIx(u32::from(self.step) % u32::try_from(world.job.steps.len()).expect("a few steps"));
        let (ticket, epoch) = self.speak(world, step);
        match self.kind {
            0 => Event::Refused { ticket, reason: "busy".to_owned() },
            1 => Event::OfferLost { ticket, epoch },
            2 => Event::Accepted { ticket, epoch },
            3..=4 => Event::Ended { ticket, report: report(self.pick(&REPORTS)) },
            5..=7 => Event::LinkLost { ticket, epoch },
            8 => Event::ServerLost {
                ticket,
                epoch,
                since: engine::Heard(world.heard().0 - i64::from(self.form) * 100_000),
            },
            9 => Event::Reattached { ticket, epoch: self.hello(world, epoch) },
            10..=11 => Event::Gone { ticket, epoch, loss: self.loss() },
            12 => Event::Unmatched { step, missing: "gpu".to_owned() },
            13 => Event::Cancel { by: "ann".to_owned(), force: self.form.is_multiple_of(4) },
            14 => Event::Approve { step, by: "ann".to_owned(), comment: String::new() },
            16 if self.form < 60 => {
                world.remove_worker_of(step);
                Event::WorkerRemoved { ticket, by: "ann".to_owned() }
            }
            16 if self.form < 120 => {
                let by = (self.form < 90).then(|| "ann".to_owned());
                Event::FellSilent { ticket, silent: Duration::from_secs(u64::from(self.form) * 3), by }
            }
            16 if self.form < 140 => Event::NoReturn { ticket, epoch, why: NoReturn::SaidSo },
            16 if self.form < 160 => Event::MoreTime { ticket, epoch, reason: "many".to_owned() },
            16 if self.form < 180 => Event::HeardAgain { ticket },
            16 => Event::CheckJob,
            15 if self.form < 100 => {
                let how = self.pick(&["succeeded", "failed", "rerun", "rerun", "late"]);
                Event::Resolve(resolve(step, ticket.attempt, how, self.form.is_multiple_of(2)))
            }
            15 => Event::Reject { step, by: "ann".to_owned(), reason: "no".to_owned() },
            17 if self.form < 40 => self.poison(step),
            18 if self.form > 240 => Event::ChildMissing { step, child: child_of(world, step) },
            18 if self.form > 200 => child_ended(world, step, self.pick(&CHILD_ENDS), self.form.is_multiple_of(2)),
            18 if self.form > 160 && self.form <= 180 => {
                Event::ChildHeld { step, child: child_of(world, step), held: self.form.is_multiple_of(2) }
            }
            18 if self.form < 20 => Event::Check { step: StepIx(99) },
            18 if self.form > 190 => Event::Restored { at: world.now },
            18 if self.form > 180 => Event::SecretMissing { ticket, epoch, why: "it is not set".to_owned() },
            19 => world.fresh_offer(step, u128::from(self.form % 3)),
            17..=20 => Event::Check { step },
            _ => self.natural(world, step, ticket, epoch),
        }
    }

    /// What would come next if all went its usual way; without it most jobs would never get far.
    fn natural(&self, world: &mut World, step: StepIx, ticket: Ticket, epoch: Epoch) -> Event {
        match &world.job.step(step).state {
            State::Queued(queued) if queued.offer.is_none() => world.fresh_offer(step, u128::from(self.form % 3)),
            State::Queued(_) => Event::Accepted { ticket, epoch },
            State::Running(_) | State::Cancelling(_) => Event::Ended { ticket, report: report(self.pick(&REPORTS)) },
            State::Recovering(_) => Event::Reattached { ticket, epoch: self.hello(world, epoch) },
            State::Held(held) if held.live.is_some() && self.form.is_multiple_of(2) => {
                Event::Reattached { ticket, epoch: self.hello(world, epoch) }
            }
            State::Held(_) => Event::Approve { step, by: "bob".to_owned(), comment: String::new() },
            State::Delegated(delegated) if delegated.to != Delegate::Items && self.form.is_multiple_of(3) => {
                Event::ChildHeld { step, child: child_of(world, step), held: !delegated.held }
            }
            State::Delegated(delegated) if delegated.to != Delegate::Items => {
                child_ended(world, step, self.pick(&CHILD_ENDS), self.form.is_multiple_of(8))
            }
            State::Pending | State::Delegated(_) | State::Waiting(_) | State::Final(_) => Event::Check { step },
        }
    }

    fn speak(&self, world: &World, step: StepIx) -> (Ticket, Epoch) {
        let (ticket, epoch) = (world.ticket(step), world.epoch_of(step));
        match self.voice {
            Voice::Current => (ticket, epoch),
            Voice::OldTicket(n) => match world.tickets.len() {
                0 => (ticket, epoch),
                count => (world.tickets[usize::from(n) % count], epoch),
            },
            Voice::OldFence => (Ticket { fence: Fence(ticket.fence.0.saturating_sub(1)), ..ticket }, epoch),
            Voice::OldLink => (ticket, Epoch(epoch.0.saturating_sub(1))),
            Voice::NewLink => (ticket, Epoch(epoch.0 + 1)),
        }
    }

    /// A return is on a new link, unless an old word comes again.
    fn hello(&self, world: &mut World, epoch: Epoch) -> Epoch {
        match self.voice {
            Voice::OldLink | Voice::OldTicket(_) => epoch,
            Voice::Current | Voice::OldFence | Voice::NewLink => world.new_epoch(),
        }
    }

    fn loss(&self) -> Loss {
        match self.form % 7 {
            0 => Loss::Void,
            1 => Loss::RunnerLost,
            2 => Loss::ResultNotAvailable,
            3 => Loss::MachineRebooted,
            4 => Loss::NotReported,
            5 => Loss::StartForgotten,
            _ => Loss::LeaseExpired,
        }
    }

    fn poison(&self, step: StepIx) -> Event {
        let step = (!self.form.is_multiple_of(4)).then_some(step);
        Event::Poisoned { step, message: "a bug".to_owned() }
    }

    fn pick<'a>(&self, from: &[&'a str]) -> &'a str {
        from[usize::from(self.form) % from.len()]
    }
}

const CHILD_ENDS: [&str; 5] = ["ok", "ok", "failed", "timeout", "cancelled"];

const REPORTS: [&str; 10] = ["0", "0", "0", "1", "1", "badout", "timeout", "cancelled", "lease", "worker"];
