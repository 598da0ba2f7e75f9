//! A step and the job that does it.

use engine::JobId;
use engine::job::Parent;
use store::rows::JobRow;
use store::{Batch, JobWrite};

use super::{JOB, MINUTE, SECOND, STEP, Scene, plan, retry};
use crate::workload::{ChildPlan, JobPlan, StepPlan};

/// A step that a job of one step does, which is given a 7.
fn waiting(change: impl FnOnce(&mut StepPlan)) -> Scene {
    Scene::new(|step| {
        let job = JobPlan { at: MINUTE, ..JobPlan::plain("job-0-s0", vec![plan()]) };
        step.child = Some(Box::new(ChildPlan { job, given: 7 }));
        change(step);
    })
}

impl Scene {
    /// The so-manieth job that the step began, in this state.
    fn child_row(&self, number: u32, version: u64, state: &'static str) -> JobRow {
        let open = !super::is_final(state);
        JobRow {
            parent: Some(Parent { job: JOB, step: STEP }),
            id: JOB.child(STEP, number),
            version,
            state,
            task: "job-0-s0".to_owned(),
            input: r#"{"n":7}"#.to_owned(),
            owner: open.then_some("steps"),
            check_at: self.check_at(state),
            action: open.then_some("look_again"),
            ..self.job_row()
        }
    }

    fn begins(&mut self, number: u32) -> &mut Scene {
        let row = self.child_row(number, 1, "pending");
        self.turn("running", |batch| batch.jobs.push(JobWrite { row, expected: None }))
    }

    /// The job ends in the commit in which its step comes to this state.
    fn child_ends(&mut self, number: u32, state: &'static str, step: &'static str) -> &mut Scene {
        let row = self.child_row(number, 2, state);
        self.turn(step, |batch| batch.jobs.push(JobWrite { row, expected: Some(1) }))
    }

    fn alone(&mut self, row: JobRow) -> &mut Scene {
        let batch = Batch { now: self.time(), jobs: vec![JobWrite { row, expected: None }], ..Batch::default() };
        self.commit(&batch)
    }
}

#[test]
fn a_job_that_comes_and_goes_with_its_step_is_well() {
    let mut scene = waiting(|step| step.retry = retry(2, &["failure"]));
    scene.begins(1).child_ends(1, "failed", "waiting").after(SECOND);
    scene.begins(2).child_ends(2, "success", "success").is_well();
}

#[test]
fn a_job_without_its_step() {
    let mut scene = waiting(|_| {});
    let row = scene.child_row(1, 1, "pending");
    scene.alone(row).is_found("kin", "was not told in the same commit");
}

#[test]
fn an_end_that_its_step_does_not_hear_of() {
    let mut scene = waiting(|_| {});
    scene.begins(1);
    let row = scene.child_row(1, 2, "success");
    scene.alone(row).is_found("kin", "still waits for it");
}

#[test]
fn two_at_once_and_too_many() {
    let mut scene = waiting(|step| step.retry = retry(2, &["failure"]));
    scene.begins(1).begins(2).is_found("kin", "is not over");
    let mut scene = waiting(|_| {});
    scene.begins(1).child_ends(1, "failed", "waiting").begins(2).is_found("kin", "1 are allowed");
}

#[test]
fn a_job_that_is_given_something_else() {
    let mut scene = waiting(|_| {});
    let row = JobRow { input: r#"{"n":8}"#.to_owned(), ..scene.child_row(1, 1, "pending") };
    scene.turn("running", |batch| batch.jobs.push(JobWrite { row, expected: None }));
    scene.is_found("kin", r#"with {"n":8}, and not {"n":7}"#);
}

#[test]
fn a_job_whose_child_waits_for_a_person_and_that_is_not_held() {
    let mut scene = waiting(|_| {});
    scene.begins(1);
    let child = scene.child_row(1, 2, "held");
    scene.alone(child).is_found("kin", "only a person can move it on");
}

#[test]
fn a_job_that_is_held_though_its_child_goes_on() {
    let mut scene = waiting(|_| {});
    scene.begins(1).is_well();
    let version = scene.version + 1;
    let held = JobRow { state: "held", version, ..scene.job_row() };
    scene.alone(held).is_found("kin", "something of it moves by itself");
}

#[test]
fn both_are_of_one_family() {
    let mut scene = waiting(|step| step.retry = retry(2, &["failure"]));
    scene.begins(1).child_ends(1, "failed", "waiting").begins(2);
    let rows = &scene.checks.rows;
    let [first, second]: [JobId; 2] = [1, 2].map(|number| JOB.child(STEP, number));
    assert_eq!((rows.root(second), rows.outermost(second)), (first, JOB));
}
