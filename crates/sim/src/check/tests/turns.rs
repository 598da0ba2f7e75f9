//! Items of one step, and how many of them are under way.

use engine::StepIx;
use store::rows::StepRow;
use store::{Batch, JobWrite};

use super::{JOB, Scene, event, plan};
use crate::check::Place;
use crate::workload::{Behaviour, FanPlan, Kind};

/// A step of three items, of which two may be under way.
fn two_of_three() -> Scene {
    let Kind::Work(behaviour) = plan().kind else { panic!("it is a program") };
    let items: Vec<Behaviour> = vec![behaviour; 3];
    let mut scene =
        Scene::new(|step| step.fan = Some(FanPlan { max_parallel: Some(2), ..FanPlan::over(items.clone()) }));
    scene.turn("running", |_| {});
    scene
}

impl Scene {
    fn item(&mut self, number: u32, state: &'static str) -> &mut Scene {
        let mut batch = Batch { now: self.time(), ..Batch::default() };
        self.version += 1;
        batch.jobs.push(JobWrite { row: self.job_row(), expected: Some(self.version - 1) });
        let open = !super::is_final(state);
        let ix = StepIx(1 + number);
        let from = self.checks.rows.step(Place { job: JOB, step: ix }).map_or("pending", |step| step.state);
        if from != state {
            batch.events.push(event(Some(ix), "step", from, state));
        }
        batch.steps.push(StepRow {
            job: JOB,
            ix,
            name: format!("s0[{number}]"),
            state,
            owner: open.then_some("worker"),
            check_at: self.check_at(state),
            action: open.then_some("look_again"),
            ..self.step_row()
        });
        self.commit(&batch)
    }
}

#[test]
fn one_more_than_may_be_under_way_is_found() {
    let mut scene = two_of_three();
    scene.item(0, "queued").item(1, "waiting").item(2, "pending").is_well();
    scene.item(2, "queued").is_found("turn", "3 items of s0");
}

#[test]
fn whoever_is_over_leaves_room() {
    let mut scene = two_of_three();
    scene.item(1, "queued").item(2, "queued").item(0, "pending").item(1, "cancelled").item(0, "queued").is_well();
}
