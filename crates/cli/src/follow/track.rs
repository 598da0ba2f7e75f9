//! Where a followed job is, as far as its changes were heard. Pure.

use std::collections::HashMap;
use std::time::Duration;

use api::job::StepKind;
use api::{Event, EventKind, Job, JobState, StepState, Timestamp};
use uuid::Uuid;

use crate::times::between;

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
    /// The steps of the task in its order, each with its items after it.
    pub(crate) place: (usize, u32),
    pub(crate) state: StepState,
    /// The number of the latest attempt; 0 before the first, and where no worker does it.
    pub(crate) attempt: u32,
    /// Whether a worker does it, in attempts.
    on_worker: bool,
    /// The same of its items.
    items_on_worker: bool,
    /// When the latest attempt began, and when the step ended.
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    /// Its end may be heard of late: the server was away, or its worker was, while it ran.
    cut_off: bool,
    /// How long the latest attempt ran, where its worker has said so.
    pub(crate) ran_for: Option<Duration>,
    /// Why it is where it is, in the server's words.
    pub(crate) reason: String,
    /// The job that does it, or did last.
    child: Option<Uuid>,
    /// Until when it waits, where the server has said so.
    until: Option<Timestamp>,
}

impl Track {
    pub(crate) fn new(job: &Job) -> Track {
        let mut track = Track {
            id: job.id.to_string(),
            task: job.task.clone(),
            state: job.state,
            created_at: job.created_at,
            ended_at: job.ended_at,
            steps: Vec::with_capacity(job.steps.len()),
            by_name: HashMap::with_capacity(job.steps.len()),
        };
        track.absorb(job);
        track
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
                let to = event.to.as_deref().and_then(StepState::from_word)?;
                let index = self.find(event.step.as_deref()?);
                self.steps[index].moved(to, event);
                Some(index)
            }
            EventKind::Offer
            | EventKind::Attempt
            | EventKind::Approved
            | EventKind::CancelAsked
            | EventKind::Continued
            | EventKind::Worker
            | EventKind::Unknown => None,
        }
    }

    /// The place of a step. One that was not there before is an item of a fan-out that came up.
    fn find(&mut self, name: &str) -> usize {
        if let Some(&index) = self.by_name.get(name) {
            return index;
        }
        let index = self.steps.len();
        let place = self.place_of_item(name);
        let on_worker = place.is_none_or(|(of, _)| self.steps[of].items_on_worker);
        self.by_name.insert(name.to_owned(), index);
        self.steps.push(TrackedStep::unseen(name, place.unwrap_or((index, 0)), on_worker));
        index
    }

    /// `each[3]` comes after `each` and its items before.
    fn place_of_item(&self, name: &str) -> Option<(usize, u32)> {
        let (of, number) = name.strip_suffix(']')?.rsplit_once('[')?;
        let of = *self.by_name.get(of)?;
        Some((of, number.parse::<u32>().ok()?.saturating_add(1)))
    }

    /// The server is away: what runs may end meanwhile.
    pub(crate) fn lost(&mut self) {
        let on_way = |step: &&mut TrackedStep| step.started_at.is_some() && !step.state.is_final();
        self.steps.iter_mut().filter(on_way).for_each(|step| step.cut_off = true);
    }

    /// Takes the whole truth in; gives the places of the steps that changed.
    pub(crate) fn absorb(&mut self, job: &Job) -> Vec<usize> {
        self.state = job.state;
        self.ended_at = job.ended_at;
        let mut changed = Vec::new();
        for step in &job.steps {
            let index = self.find(&step.name);
            let known = &mut self.steps[index];
            let mut now = TrackedStep::new(step, known.place);
            now.started_at = now.started_at.or(known.started_at);
            now.ended_at = now.ended_at.or(known.ended_at);
            if (known.state, known.attempt) != (now.state, now.attempt) {
                changed.push(index);
            }
            *known = now;
        }
        changed
    }

    /// Takes in until when steps wait.
    pub(crate) fn hear_waits(&mut self, job: &Job) {
        for known in job.steps.iter().filter(|step| step.waiting.is_some()) {
            if let Some(&index) = self.by_name.get(&known.name) {
                self.steps[index].hear_wait(known.waiting.as_ref());
            }
        }
    }

    /// How many steps satisfy this.
    pub(crate) fn count(&self, is: impl Fn(StepState) -> bool) -> usize {
        self.steps.iter().filter(|step| is(step.state)).count()
    }
}

impl TrackedStep {
    fn unseen(name: &str, place: (usize, u32), on_worker: bool) -> TrackedStep {
        TrackedStep {
            name: name.to_owned(),
            place,
            state: StepState::Pending,
            attempt: 0,
            on_worker,
            items_on_worker: true,
            started_at: None,
            ended_at: None,
            cut_off: false,
            ran_for: None,
            reason: String::new(),
            child: None,
            until: None,
        }
    }

    fn new(step: &api::Step, place: (usize, u32)) -> TrackedStep {
        let latest = step.attempts.last();
        let ended_at = latest.and_then(|attempt| attempt.ended_at).or(step.updated_at);
        TrackedStep {
            name: step.name.clone(),
            place,
            state: step.state,
            attempt: if step.kind == StepKind::Run { step.attempt } else { 0 },
            on_worker: step.kind == StepKind::Run,
            items_on_worker: step.items.is_none_or(|items| items == StepKind::Run),
            started_at: latest.map(|attempt| attempt.started_at).or(step.started_at),
            ended_at: ended_at.filter(|_| step.state.is_final()),
            cut_off: step.state == StepState::Recovering,
            ran_for: ran_for(step),
            reason: step.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
            child: step.child,
            until: step.waiting.as_ref().map(|waiting| waiting.until),
        }
    }

    /// How long it took, once it is over.
    pub(crate) fn took(&self) -> Option<Duration> {
        let (start, end) = (self.started_at?, self.ended_at?);
        Some(self.ran_for.unwrap_or_else(|| between(start, end)))
    }

    /// It ended, but how long it took is not when that was heard.
    pub(crate) fn took_is_in_doubt(&self) -> bool {
        self.state.is_final() && self.on_worker && self.cut_off && self.ran_for.is_none()
    }

    /// The job that does it, where one does.
    pub(crate) fn child(&self) -> Option<Uuid> {
        self.child.filter(|_| !self.state.is_final())
    }

    /// Until when it waits for a time to come, as far as that is known.
    pub(crate) fn waiting_until(&self) -> Option<Timestamp> {
        self.until.filter(|_| self.state == StepState::Waiting)
    }

    /// A change tells that a step waits, but not for how long.
    pub(crate) fn lacks_wait(&self) -> bool {
        self.state == StepState::Waiting && self.until.is_none()
    }

    pub(crate) fn hear_wait(&mut self, waiting: Option<&api::Waiting>) {
        self.until = waiting.map(|waiting| waiting.until);
    }

    /// Takes the worker's word on how long it ran.
    pub(crate) fn hear(&mut self, step: &api::Step) {
        self.ran_for = ran_for(step);
    }

    fn moved(&mut self, to: StepState, event: &Event) {
        // A start without a number is the next one.
        let starts = to == StepState::Running && !matches!(self.state, StepState::Running | StepState::Recovering);
        let next = self.attempt + u32::from(starts && self.on_worker);
        let number = event.attempt.unwrap_or(next);
        if number > self.attempt || (starts && !self.on_worker) {
            self.started_at = Some(event.at);
            self.cut_off = false;
        }
        self.cut_off |= to == StepState::Recovering;
        self.attempt = self.attempt.max(number);
        self.state = to;
        self.ended_at = to.is_final().then_some(event.at);
        self.ran_for = None;
        self.until = None;
        self.reason.clone_from(&event.reason);
        if starts && !self.on_worker {
            self.child = child_in(&event.reason);
        }
    }
}

/// The job that a step was given to, as its history names it: `job … of task `x` does it`.
fn child_in(reason: &str) -> Option<Uuid> {
    reason.strip_prefix("job ")?.split(' ').next()?.parse().ok()
}

fn ran_for(step: &api::Step) -> Option<Duration> {
    step.attempts.last().and_then(|attempt| attempt.duration_ms).map(Duration::from_millis)
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

    /// Nobody has logs of it: its child job does.
    #[test]
    fn an_item_that_is_a_job_of_its_own_has_no_attempts() {
        for (items, attempt) in [(StepKind::Task, 0), (StepKind::Run, 1)] {
            let mut job = job();
            (job.steps[0].kind, job.steps[0].items) = (StepKind::FanOut, Some(items));
            let mut track = Track::new(&job);
            let begins = Event { step: Some("a[0]".to_owned()), ..event(EventKind::Step, "running", None) };
            let index = track.apply(&begins).expect("an item");
            assert_eq!((track.steps[index].state, track.steps[index].attempt), (StepState::Running, attempt));
        }
    }

    /// By what the job says when it is first looked at, and by what is heard later.
    #[test]
    fn the_job_that_does_a_step_is_known() {
        let id = "01930000-0000-7000-8000-0000000000bb";
        let mut job = job();
        job.steps[0].kind = StepKind::Task;
        let mut track = Track::new(&job);
        let reason = format!("job {id} of task `notify` does it");
        track.apply(&Event { reason, ..event(EventKind::Step, "running", None) });
        assert_eq!(track.steps[0].child().map(|child| child.to_string()).as_deref(), Some(id));
        track.apply(&event(EventKind::Step, "success", None));
        assert_eq!(track.steps[0].child(), None, "it is over");
        (job.steps[0].state, job.steps[0].child) = (StepState::Running, id.parse().ok());
        assert_eq!(Track::new(&job).steps[0].child().map(|child| child.to_string()).as_deref(), Some(id));
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
    fn until_when_a_step_waits_is_heard_of_and_forgotten_with_the_wait() {
        let mut job = job();
        let mut track = Track::new(&job);
        track.apply(&event(EventKind::Step, "waiting", Some(1)));
        assert!(track.steps[0].lacks_wait());
        let until = Timestamp::from_micros(9);
        job.steps[0].waiting = Some(api::Waiting { until, reason: api::WaitReason::Retry });
        track.hear_waits(&job);
        assert_eq!((track.steps[0].waiting_until(), track.steps[0].lacks_wait()), (Some(until), false));
        track.apply(&event(EventKind::Step, "queued", None));
        track.apply(&event(EventKind::Step, "waiting", Some(2)));
        assert_eq!(track.steps[0].waiting_until(), None, "that was the wait before");
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let mut track = Track::new(&job());
        assert_eq!(track.apply(&event(EventKind::Step, "levitating", None)), None);
        assert_eq!(track.steps[0].state, StepState::Queued);
    }

    #[test]
    fn items_come_up_and_their_step_has_no_attempts() {
        let mut job = job();
        job.steps[0].kind = StepKind::FanOut;
        let mut track = Track::new(&job);
        track.apply(&event(EventKind::Step, "running", None));
        assert_eq!((track.steps[0].attempt, track.steps[0].started_at.is_some()), (0, true));
        let item = Event { step: Some("a[0]".to_owned()), ..event(EventKind::Step, "running", None) };
        assert_eq!(track.apply(&item), Some(1));
        assert_eq!((track.steps[1].name.as_str(), track.steps[1].attempt), ("a[0]", 1));
    }
}
