//! Why steps that never ran in a job stand there as they do: the job was made to go on for another. `why` tells of it, and so
//! does every view of the job.

use std::collections::HashMap;

use engine::state::End;
use engine::{Job, Origin, State, StepIx};
use store::{Reader, StoreError};

/// Events that are read at once.
const EVENTS_PAGE: usize = 1_000;

/// By step; none in a job that goes on for no other. They are told of before anything else, at the moment that the job is made.
pub(crate) fn of_steps(reader: &dyn Reader, job: &Job, continues: bool) -> Result<HashMap<StepIx, Origin>, StoreError> {
    let mut found = HashMap::new();
    let stands = |state: &State| matches!(state, State::Final(End::Success | End::Failed));
    if !continues || !job.steps.iter().any(|step| step.attempts == 0 && stands(&step.state)) {
        return Ok(found);
    }
    let mut after = 0;
    loop {
        let events = reader.events(Some(job.id), after, EVENTS_PAGE)?;
        for event in events.iter().take_while(|event| event.at <= job.created_at) {
            found.extend(event.ix.zip(Origin::of_reason(&event.reason)));
        }
        match events.last() {
            Some(last) if last.at <= job.created_at => after = last.id,
            Some(_) | None => return Ok(found),
        }
    }
}
