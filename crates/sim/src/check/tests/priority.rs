//! Two steps that want the same of a worker, of jobs with different priorities.

use std::time::Duration;

use engine::{JobId, Time};
use store::rows::{JobRow, StepRow};
use store::{Batch, JobWrite};
use uuid::Uuid;

use super::{Checks, MINUTE, SECOND, STEP, Scene, Setup, attempt, event, plan};
use crate::workload::JobPlan;

fn two(first: i32, second: i32) -> Scene {
    let job = |(number, priority): (usize, i32)| JobPlan {
        priority,
        ..JobPlan::plain(&format!("job-{number}"), vec![plan()])
    };
    let plans: Vec<JobPlan> = [first, second].into_iter().enumerate().map(job).collect();
    let checks = Checks::new(&Setup::of(1), &plans);
    Scene { checks, now: SECOND, version: 0, job: "pending", step: "pending" }
}

fn id(number: u128) -> JobId {
    JobId(Uuid::from_u128((1 + number) << 80))
}

impl Scene {
    /// The step of this job goes into the queue, or is offered there.
    fn queues(&mut self, number: u128, offered: bool) -> &mut Scene {
        let mut batch = Batch { now: self.time(), ..Batch::default() };
        let version = if offered { 2 } else { 1 };
        let task = format!("job-{number}");
        let row = JobRow { id: id(number), task, version, created_at: Time(0), state: "running", ..self.job_row() };
        batch.jobs.push(JobWrite { row, expected: offered.then_some(1) });
        let attempt = offered.then(|| attempt(1 + number as u32));
        let check_at = Some(self.time() + MINUTE);
        batch.steps.push(StepRow {
            job: id(number),
            ix: STEP,
            state: "queued",
            attempt,
            check_at,
            owner: Some("dispatch"),
            action: Some("look_again"),
            ..self.step_row()
        });
        if !offered {
            let told = event(Some(STEP), "step", "pending", "queued");
            batch.events.push(store::rows::EventRow { job: id(number), ..told });
        }
        self.commit(&batch)
    }

    /// The server is awake all the while.
    fn passes(&mut self, time: Duration) -> &mut Scene {
        for _ in 0..time.as_secs() {
            let batch = Batch { now: self.after(SECOND).time(), ..Batch::default() };
            self.commit(&batch);
        }
        self
    }
}

#[test]
fn one_that_is_passed_over_is_found() {
    two(1, 0)
        .queues(0, false)
        .queues(1, false)
        .passes(MINUTE / 2 + SECOND)
        .queues(1, true)
        .is_found("priority", "waits since");
    two(0, 0).queues(0, false).queues(1, false).passes(MINUTE / 2 + SECOND).queues(1, true).is_well();
    two(1, 0).queues(0, false).queues(1, false).passes(MINUTE / 2 + SECOND).queues(0, true).is_well();
}

#[test]
fn one_that_has_just_come_may_not_be_known() {
    two(1, 0).queues(1, false).passes(MINUTE / 2 + SECOND).queues(0, false).queues(1, true).is_well();
}
