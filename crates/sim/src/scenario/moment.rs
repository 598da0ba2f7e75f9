//! Moments of a job's life that a script waits for, as rows and machines show them.

use std::time::Duration;

use engine::Job;
use engine::state::{State, StateName};
use protocol::attempt::Ticket;

use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At this time of the world.
    Time(Duration),
    /// The first step's row says so.
    State(StateName),
    /// Offered; the worker has not got the offer yet.
    Offered,
    /// The worker has made everything ready and asks for leave; the server has not answered.
    Accepted,
    /// The start is committed; the step's process does not exist yet.
    Granted,
    /// The step's process lives, for the so-manieth time.
    Execution(u32),
    /// The step's process is over and its end recorded; the server does not know.
    Ended,
    /// The first host has no power.
    Off,
    /// The server knows the step's end, and not all of its log.
    LogUnderWay,
    /// The worker was told that it need not keep the attempt any more, and has put it away.
    PutAway,
    /// The job is over.
    Over,
}

impl Moment {
    pub(super) fn has_come(self, world: &World, job: Option<&Job>) -> bool {
        if let Moment::Time(at) = self {
            return world.agenda.now() >= at;
        }
        let Some(job) = job else { return false };
        let step = &job.steps[0];
        let lives = || world.hosts.iter().any(|host| !host.groups.is_empty());
        match self {
            Moment::Time(_) => true,
            Moment::State(state) => step.state.name() == state,
            Moment::Offered => offered(job).is_some_and(|ticket| !is_prepared(world, ticket)),
            Moment::Accepted => offered(job).is_some_and(|ticket| is_prepared(world, ticket)),
            Moment::Granted => matches!(step.state, State::Running(_)) && !lives(),
            Moment::Execution(number) => {
                matches!(&step.state, State::Running(live) if live.number == number) && lives()
            }
            Moment::Ended => {
                let live = step.state.live();
                live.is_some_and(|live| {
                    let ticket = Ticket { attempt: live.attempt.0, fence: live.fence.0 };
                    let folders = || world.hosts.iter().filter_map(|host| host.disk.attempts.get(&ticket));
                    folders().any(|folder| folder.end.is_some())
                })
            }
            Moment::LogUnderWay => {
                let reader = world.database.reader();
                let attempts = reader.attempts(job.id).unwrap_or_default();
                let open = |attempt: &store::read::AttemptView| {
                    reader.log_state(attempt.id).is_ok_and(|state| !state.complete)
                };
                step.state.is_final() && attempts.iter().any(open)
            }
            Moment::Off => !world.hosts[0].is_on(),
            Moment::PutAway => world.hosts.iter().any(|host| !host.disk.kept.is_empty()),
            Moment::Over => job.header.state.is_final(),
        }
    }
}

fn offered(job: &Job) -> Option<Ticket> {
    match &job.steps[0].state {
        State::Queued(queued) => {
            queued.offer.as_ref().map(|offer| Ticket { attempt: offer.attempt.0, fence: offer.fence.0 })
        }
        _ => None,
    }
}

fn is_prepared(world: &World, ticket: Ticket) -> bool {
    world.hosts.iter().any(|host| host.disk.attempts.get(&ticket).is_some_and(|folder| folder.runner.is_some()))
}
