//! Steps that wait for a time.

use std::time::Duration;

use store::rows::AttemptRow;

use super::{SECOND, Scene, over_row, retry};
use crate::workload::{GatePlan, RetryPlan};

/// A step whose first execution fails, and that is to be tried again after eight seconds.
fn failed_once(jitter: bool) -> Scene {
    let policy = retry(3, &["failure"]).map(|plan| RetryPlan { delay: 8 * SECOND, jitter, ..plan });
    let mut scene = Scene::new(|step| step.retry = policy);
    scene.fails(1);
    scene
}

impl Scene {
    fn fails(&mut self, number: u32) -> &mut Scene {
        self.granted(number).runs(number).is_gone(number).turn("waiting", |batch| {
            let (exit_code, error_code) = (Some(1), Some("exit_code"));
            batch.attempts.push(AttemptRow { exit_code, error_code, ..over_row(number, "ended") });
        })
    }
}

#[test]
fn a_delay_that_is_cut_short_is_found() {
    failed_once(false).after(8 * SECOND).turn("queued", |_| {}).is_well();
    failed_once(false).after(7 * SECOND).turn("queued", |_| {}).is_found("wait", "was to wait for 8s");
    failed_once(true).after(5 * SECOND).turn("queued", |_| {}).is_well();
    failed_once(true).after(3 * SECOND).turn("queued", |_| {}).is_found("wait", "was to wait for 4s");
    failed_once(false).after(SECOND).turn("cancelled", |_| {}).is_well();
}

#[test]
fn the_second_delay_is_longer() {
    let mut scene = failed_once(false);
    scene.after(8 * SECOND).turn("queued", |_| {}).fails(2);
    scene.after(15 * SECOND).turn("queued", |_| {}).is_found("wait", "was to wait for 16s");
}

#[test]
fn a_wait_of_an_environment_that_is_cut_short_is_found() {
    let waits_for = |time: Duration| {
        let gate = GatePlan { reviewers: 0, allow_submitter: true, wait: Some(10 * SECOND) };
        let mut scene = Scene::first(|step| step.gate = Some(gate), "waiting");
        scene.after(time).turn("queued", |_| {});
        scene
    };
    waits_for(10 * SECOND).is_well();
    waits_for(9 * SECOND).is_found("wait", "was to wait for 10s");
}
