//! Where a followed job is, as far as its changes were heard. Pure.

use std::collections::HashMap;

use api::{Event, EventKind, Job, JobState, StepState, Timestamp};

#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) id: String,
    pub(crate) task: String,
    pub(crate) state: JobState,
    pub(crate) created_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// In the job's order.
    pub(crate) steps: Vec<TrackedStep>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct TrackedStep {
    pub(crate) name: String,
    pub(crate) state: StepState,
    /// The number of the latest attempt; 0 before the first.
    pub(crate) attempt: u32,
    /// When the latest attempt began, and when the step ended.
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    /// Why it is where it is, in the server's words.
    pub(crate) reason: String,
}

impl Track {
    pub(crate) fn new(job: &Job) -> Track {
        let steps: Vec<TrackedStep> = job.steps.iter().map(TrackedStep::new).collect();
        let by_name = steps.iter().enumerate().map(|(index, step)| (step.name.clone(), index)).collect();
        Track {
            id: job.id.to_string(),
            task: job.task.clone(),
            state: job.state,
            created_at: job.created_at,
            ended_at: job.ended_at,
            steps,
            by_name,
        }
    }

    pub(crate) fn step(&self, name: &str) -> Option<&TrackedStep> {
        self.by_name.get(name).map(|&index| &self.steps[index])
    }

    /// Takes a change in; gives the place of the step that changed, if one did.
    pub(crate) fn apply(&mut self, event: &Event) -> Option<usize> {
        match event.kind {
            EventKind::Job => {
                if let Some(state) = event.to.as_deref().and_then(JobState::from_word) {
                    self.state = state;
                    self.ended_at = state.is_final().then_some(event.at);
                }
                None
            }
            EventKind::Step => {
                let index = *self.by_name.get(event.step.as_deref()?)?;
                let to = event.to.as_deref().and_then(StepState::from_word)?;
                self.steps[index].moved(to, event);
                Some(index)
            }
            EventKind::Offer
            | EventKind::Attempt
            | EventKind::CancelAsked
            | EventKind::Continued
            | EventKind::Worker
            | EventKind::Unknown => None,
        }
    }

    /// Takes the whole truth in; gives the places of the steps that changed.
    pub(crate) fn absorb(&mut self, job: &Job) -> Vec<usize> {
        self.state = job.state;
        self.ended_at = job.ended_at;
        let mut changed = Vec::new();
        for step in &job.steps {
            let Some(&index) = self.by_name.get(&step.name) else { continue };
            let known = &mut self.steps[index];
            let mut now = TrackedStep::new(step);
            now.started_at = now.started_at.or(known.started_at);
            now.ended_at = now.ended_at.or(known.ended_at);
            if (known.state, known.attempt) != (now.state, now.attempt) {
                changed.push(index);
            }
            *known = now;
        }
        changed
    }

    /// How many steps satisfy this.
    pub(crate) fn count(&self, is: impl Fn(StepState) -> bool) -> usize {
        self.steps.iter().filter(|step| is(step.state)).count()
    }
}

impl TrackedStep {
    fn new(step: &api::Step) -> TrackedStep {
        let latest = step.attempts.last();
        let ended_at = latest.and_then(|attempt| attempt.ended_at).or(step.updated_at);
        TrackedStep {
            name: step.name.clone(),
            state: step.state,
            attempt: step.attempt,
            started_at: latest.map(|attempt| attempt.started_at),
            ended_at: ended_at.filter(|_| step.state.is_final()),
            reason: step.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
        }
    }

    fn moved(&mut self, to: StepState, event: &Event) {
        // A start without a number is the next one.
        let starts = to == StepState::Running && !matches!(self.state, StepState::Running | StepState::Recovering);
        let number = event.attempt.unwrap_or(if starts { self.attempt + 1 } else { self.attempt });
        if number > self.attempt {
            self.attempt = number;
            self.started_at = Some(event.at);
        }
        self.state = to;
        self.ended_at = to.is_final().then_some(event.at);
        self.reason.clone_from(&event.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        serde_json::from_str(
            r#"{"id":"01930000-0000-7000-8000-0000000000aa","task":"t","state":"pending","created_at":"2026-01-01T00:00:00Z",
                "steps":[{"name":"a","state":"queued","attempt":0,"dispatch_attempts":0}]}"#,
        )
        .expect("a job")
    }

    fn event(kind: EventKind, to: &str, attempt: Option<u32>) -> Event {
        Event {
            id: 1,
            at: Timestamp::from_micros(5),
            job: None,
            step: Some("a".to_owned()),
            attempt,
            worker: None,
            verb: None,
            kind,
            from: None,
            to: Some(to.to_owned()),
            reason: "because".to_owned(),
        }
    }

    #[test]
    fn a_step_starts_is_retried_and_ends() {
        let mut track = Track::new(&job());
        assert_eq!(track.apply(&event(EventKind::Step, "running", Some(1))), Some(0));
        assert_eq!((track.steps[0].attempt, track.steps[0].state), (1, StepState::Running));
        track.apply(&event(EventKind::Step, "waiting", Some(1)));
        track.apply(&event(EventKind::Step, "queued", None));
        assert_eq!(track.steps[0].attempt, 1);
        track.apply(&event(EventKind::Step, "running", None));
        assert_eq!(track.steps[0].attempt, 2);
        track.apply(&event(EventKind::Step, "recovering", None));
        track.apply(&event(EventKind::Step, "running", None));
        assert_eq!(track.steps[0].attempt, 2, "a reconnect is no new attempt");
        track.apply(&event(EventKind::Step, "success", Some(2)));
        assert!(track.steps[0].state.is_final() && track.steps[0].ended_at.is_some());
        assert!(!track.state.is_final());
        assert_eq!(track.apply(&event(EventKind::Job, "success", None)), None);
        assert_eq!(track.state, JobState::Success);
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let mut track = Track::new(&job());
        assert_eq!(track.apply(&event(EventKind::Step, "levitating", None)), None);
        let mut other = event(EventKind::Step, "running", None);
        other.step = Some("b".to_owned());
        assert_eq!(track.apply(&other), None);
        assert_eq!(track.steps[0].state, StepState::Queued);
    }
}
