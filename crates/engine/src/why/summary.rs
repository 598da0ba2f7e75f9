//! The whole job in one or two sentences.

use crate::job::JobState;
use crate::state::StateName;

use super::words::{count, span};
use super::{StepWhy, View};

/// The steps in these states, in this order, say most about why a job is not further.
const TELLING: [StateName; 6] = [
    StateName::Recovering,
    StateName::Cancelling,
    StateName::Held,
    StateName::Running,
    StateName::Queued,
    StateName::Waiting,
];

impl View<'_> {
    pub(super) fn summary(&self, steps: &[StepWhy]) -> String {
        let header = &self.job.header;
        let told = match header.state {
            JobState::Success => format!("The job succeeded after {}, {}.", self.age(), self.tally()),
            JobState::Failed => format!("The job failed after {}{}.", self.age(), self.error()),
            JobState::Cancelled => format!("The job was cancelled after {}{}.", self.age(), self.error()),
            JobState::Pending if self.job.awaits_slot() => {
                format!("The job has not started, {}. It {}.", self.tally(), self.awaits_slot())
            }
            JobState::Pending => format!("The job has not started, {}.{}", self.tally(), telling(steps)),
            JobState::Running => format!("The job is running, {}.{}", self.tally(), telling(steps)),
            JobState::Held => format!("Only a person can move the job on, {}.{}", self.tally(), telling(steps)),
            JobState::Recovering => {
                format!("The job waits for a worker that is cut off, {}.{}", self.tally(), telling(steps))
            }
            JobState::Cancelling => {
                let by = header.cancel.as_ref().map_or("an operator", |order| order.by.as_str());
                format!("The job is being cancelled by {by}, {}.{}", self.tally(), telling(steps))
            }
        };
        match self.job.definition.expect.filter(|_| header.late_at.is_some() && !header.state.is_final()) {
            Some(expect) => format!("{told} It takes longer than expected: {}.", span(expect)),
            None => told,
        }
    }

    /// How long it took: from its start, or, where it never had one, from its submit.
    fn age(&self) -> String {
        let header = &self.job.header;
        let end = header.ended_at.unwrap_or(self.now);
        span(end.since(header.started_at.unwrap_or(self.job.created_at)))
    }

    fn error(&self) -> String {
        match &self.job.header.error {
            Some(error) => match error.step {
                Some(ix) => format!(" in step {}: {}", self.name(ix), error.failure),
                None => format!(": {}", error.failure),
            },
            None => String::new(),
        }
    }

    /// `3 steps: 1 pending, 2 running`.
    fn tally(&self) -> String {
        let counts = &self.job.header.counts;
        let some = StateName::ALL.into_iter().filter(|state| counts.get(*state) > 0);
        let told: Vec<String> = some.map(|state| format!("{} {state}", counts.get(state))).collect();
        let all: u32 = StateName::ALL.into_iter().map(|state| counts.get(state)).sum();
        format!("{}: {}", count(all, "step"), told.join(", "))
    }
}

/// The step that says most, in its own words.
fn telling(steps: &[StepWhy]) -> String {
    let first = TELLING.into_iter().find_map(|state| steps.iter().find(|step| step.state == state));
    first.map(|step| format!(" Step `{}`: {}.", step.name, step.reason)).unwrap_or_default()
}
