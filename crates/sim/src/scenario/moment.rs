//! Moments of a job's life that a script waits for, as rows and machines show them.

use std::time::Duration;

use engine::state::{State, StateName};
use engine::{Job, StepIx};
use protocol::attempt::Ticket;

use crate::world::World;

use super::recorder::words;
use super::seen::WordEnd;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At this time of the world.
    Time(Duration),
    /// The row of the step that is watched says so.
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
    /// The same of this item of the first step, whichever is watched.
    ItemEnded(u32),
    /// The same of this item: its process lives.
    ItemRuns(u32),
    /// A job does the step, and a process of that lives.
    ChildRuns,
    /// The job that has the slot of the concurrency group runs, and nobody else does.
    HolderRuns,
    /// The end of that is recorded on its machine; the server does not know.
    HolderEnded,
    /// The same of the process of the job that does the step.
    ChildEnded,
    /// The first host has no power.
    Off,
    /// Files of a step that has ended are being stored.
    FilesUnderWay,
    /// The server knows the step's end, and not all of its log.
    LogUnderWay,
    /// The worker was told that it need not keep the attempt any more, and has put it away.
    PutAway,
    /// It was noticed that something takes too long.
    Noticed,
    /// A word about the job to the outside was given up.
    GivenUp,
    /// The job is over.
    Over,
}

impl Moment {
    pub(super) fn has_come(self, world: &World, job: Option<&Job>, watched: StepIx) -> bool {
        let lives = || world.hosts.iter().any(|host| !host.groups.is_empty());
        if let Moment::Time(at) = self {
            return world.agenda.now() >= at;
        }
        if self == Moment::HolderRuns {
            return lives();
        }
        let Some(job) = job else { return false };
        let state = job.state(watched);
        let item = |number: u32| job.state(StepIx::of(job.definition.steps().len() + number as usize));
        match self {
            Moment::Time(_) | Moment::HolderRuns => true,
            Moment::HolderEnded | Moment::ChildEnded => {
                let mut folders = world.hosts.iter().flat_map(|host| host.disk.attempts.values());
                folders.any(|folder| folder.end.is_some())
            }
            Moment::State(name) => state.name() == name,
            Moment::Offered => offered(state).is_some_and(|ticket| !is_prepared(world, ticket)),
            Moment::Accepted => offered(state).is_some_and(|ticket| is_prepared(world, ticket)),
            Moment::Granted => matches!(state, State::Running(_)) && !lives(),
            Moment::Execution(number) => matches!(state, State::Running(live) if live.number == number) && lives(),
            Moment::Ended => has_ended(world, state),
            Moment::ItemEnded(number) => has_ended(world, item(number)),
            Moment::ItemRuns(number) => matches!(item(number), State::Running(_)) && lives(),
            Moment::ChildRuns => state.child().is_some() && lives(),
            Moment::LogUnderWay => {
                let reader = world.database.reader();
                let attempts = reader.attempts(job.id).unwrap_or_default();
                let open = |attempt: &store::read::AttemptView| {
                    reader.log_state(attempt.id).is_ok_and(|state| !state.complete)
                };
                state.is_final() && attempts.iter().any(open)
            }
            Moment::FilesUnderWay => world.files.are_coming(),
            Moment::Off => !world.hosts[0].is_on(),
            Moment::PutAway => world.hosts.iter().any(|host| !host.disk.kept.is_empty()),
            Moment::Noticed => !job.notices().is_empty(),
            Moment::GivenUp => words(world, job.id).iter().any(|word| word.end == WordEnd::GivenUp),
            Moment::Over => job.header.state.is_final(),
        }
    }
}

/// Its process is over and its end recorded; the server does not know.
fn has_ended(world: &World, state: &State) -> bool {
    state.live().is_some_and(|live| {
        let ticket = Ticket { attempt: live.attempt.0, fence: live.fence.0 };
        let mut folders = world.hosts.iter().filter_map(|host| host.disk.attempts.get(&ticket));
        folders.any(|folder| folder.end.is_some())
    })
}

fn offered(state: &State) -> Option<Ticket> {
    match state {
        State::Queued(queued) => {
            queued.offer.as_ref().map(|offer| Ticket { attempt: offer.attempt.0, fence: offer.fence.0 })
        }
        _ => None,
    }
}

fn is_prepared(world: &World, ticket: Ticket) -> bool {
    world.hosts.iter().any(|host| host.disk.attempts.get(&ticket).is_some_and(|folder| folder.runner.is_some()))
}
