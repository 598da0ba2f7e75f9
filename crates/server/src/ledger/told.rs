//! Lines of the server's own log about attempts that were cut off, in the words and fields that operators search for.
//!
//! What is to be said is found from the changes themselves, and said after their commit.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::event::{About, AttemptNews};
use engine::table::Verb;
use engine::{AttemptId, Changes, Event, Job, JobId, State, StateName, StepIx, Time, WorkerId};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub job: JobId,
    step: String,
    attempt: AttemptId,
    worker: WorkerId,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// The worker came back with it. `buffered`: events and log lines that it had kept meanwhile.
    Recovered { away: Duration, buffered: u64 },
    /// The window is over.
    TimedOut { away: Duration, to: StateName },
    /// It was given up, and may still run.
    Unconfirmed { reason: String },
}

/// What these changes of `job` are worth saying. `buffered` has what returning workers said that they had kept.
pub(super) fn lines(
    job: &Job,
    event: &Event,
    changes: &Changes,
    buffered: &BTreeMap<AttemptId, u64>,
    now: Time,
) -> Vec<Told> {
    let line = |step: StepIx, what: What| {
        let live = job.state(step).live()?;
        let name = job.name(step).into_owned();
        Some(Told { job: job.id, step: name, attempt: live.attempt, worker: live.worker, what })
    };
    let of_note = |note: &engine::Note| match note.about {
        About::Step { step, verb, from: StateName::Recovering, to } => {
            let State::Recovering(recovering) = job.state(step) else { return None };
            let away = now.since(recovering.disconnected_at);
            match (verb, event) {
                (Verb::Start, _) => {
                    let buffered = buffered.get(&recovering.live.attempt).copied().unwrap_or(0);
                    line(step, What::Recovered { away, buffered })
                }
                (_, Event::Check { .. }) => line(step, What::TimedOut { away, to }),
                _ => None,
            }
        }
        About::Attempt { step, what: AttemptNews::Unconfirmed, .. } => {
            line(step, What::Unconfirmed { reason: note.reason.clone() })
        }
        _ => None,
    };
    changes.notes.iter().filter_map(of_note).collect()
}

impl Told {
    pub(super) fn say(&self) {
        let Told { job: job_id, step, attempt: run_id, worker: agent_id, what } = self;
        match what {
            What::Recovered { away, buffered } => tracing::info!(
                recovery_duration = millis(*away),
                %agent_id,
                %job_id,
                step,
                %run_id,
                buffered_messages_count = buffered,
                "Job recovered from agent reconnection"
            ),
            What::TimedOut { away, to } => tracing::warn!(
                recovery_duration = millis(*away),
                %agent_id,
                %job_id,
                step,
                %run_id,
                buffered_messages_count = 0,
                verdict = %to,
                "recovery timeout exceeded"
            ),
            What::Unconfirmed { reason } => {
                tracing::warn!(%agent_id, %job_id, step, %run_id, reason, "an attempt is unconfirmed: it may still run");
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
