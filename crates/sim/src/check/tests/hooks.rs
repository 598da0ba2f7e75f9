//! What follows on a job's end, counted.

use engine::JobId;
use store::rows::{JobRow, OutboxRow};
use store::{Batch, JobWrite};
use uuid::Uuid;

use super::{JOB, SECOND, STEP, Scene, attempt_row, event, over_row, plan};
use crate::check::{Checks, post};
use crate::setup::Setup;
use crate::workload::{HookPlan, HookWork, JobPlan, On};

const FOLLOWER: &str = "job-0-h0";

/// A job that this follows on, with what the checkers say when it is over.
fn hooked(on: On, work: HookWork) -> Scene {
    let mut job = JobPlan { at: SECOND, ..JobPlan::plain("job-0", vec![plan()]) };
    job.hooks.push(HookPlan { on, work });
    let checks = Checks::new(&Setup::of(1), &[job]);
    let mut scene = Scene { checks, now: SECOND, version: 0, job: "pending", step: "pending" };
    scene.turn("queued", |_| {});
    scene
}

fn follower() -> HookWork {
    HookWork::Job(Box::new(JobPlan { at: SECOND, ..JobPlan::plain(FOLLOWER, vec![plan()]) }))
}

fn letter(number: u128, on: &str) -> OutboxRow {
    let body = format!(r#"{{"url":"http://outside/x","on":"{on}","text":""}}"#);
    OutboxRow { id: Uuid::from_u128(number), job: JOB, kind: "webhook", body, created_at: engine::Time(0) }
}

impl Scene {
    fn followed_by(&mut self, number: u128) -> &mut Scene {
        let id = JobId(Uuid::from_u128(number));
        let task = FOLLOWER.to_owned();
        let row = JobRow { id, task, hook_of: Some(JOB), version: 1, ..self.job_row() };
        let batch = Batch { now: self.time(), jobs: vec![JobWrite { row, expected: None }], ..Batch::default() };
        self.commit(&batch)
    }

    fn succeeds(&mut self, letters: Vec<OutboxRow>) -> &mut Scene {
        self.granted(1).runs(1).after(SECOND).is_gone(1).turn("success", |batch| {
            batch.attempts.push(over_row(1, "ended"));
            batch.outbox = letters;
        })
    }

    fn counted(&mut self) -> &mut Scene {
        let Checks { rows, plans, finals, notices, found, .. } = &mut self.checks;
        post::count(rows, plans, (finals, notices), found);
        self
    }
}

#[test]
fn one_job_follows_whatever_its_id_is() {
    hooked(On::Success, follower()).succeeds(vec![]).followed_by(7).counted().is_well();
    hooked(On::Success, follower()).succeeds(vec![]).counted().is_found("hook", "0 jobs of job-0-h0 followed");
    let mut scene = hooked(On::Success, follower());
    scene.succeeds(vec![]).followed_by(7).followed_by(8).counted().is_found("hook", "2 jobs of job-0-h0 followed");
    hooked(On::Error, follower()).succeeds(vec![]).followed_by(7).counted().is_found("hook", "and 0 were to");
}

#[test]
fn one_word_follows_whatever_its_id_is() {
    let told = |letters| {
        let mut scene = hooked(On::Success, HookWork::Word);
        scene.succeeds(letters).counted();
        scene
    };
    told(vec![letter(7, "on_success")]).is_well();
    told(vec![]).is_found("hook", "0 words of on_success");
    told(vec![letter(7, "on_success"), letter(8, "on_success")]).is_found("hook", "2 words of on_success");
    told(vec![letter(7, "on_success"), letter(8, "on_error")]).is_found("hook", "1 words of on_error");
}

#[test]
fn what_follows_on_a_recovery_follows_on_that() {
    let of = |is_cut: bool, letters: Vec<OutboxRow>| {
        let mut scene = hooked(On::Recovered, HookWork::Word);
        scene.granted(1).runs(1).after(SECOND);
        if is_cut {
            // It may be back before the batch is written: its history has both.
            scene.turn("running", |batch| {
                batch.events.push(event(Some(STEP), "step", "running", "recovering"));
                batch.events.push(event(Some(STEP), "step", "recovering", "running"));
                batch.attempts.push(attempt_row(1, "running"));
            });
        }
        scene.is_gone(1).turn("success", |batch| {
            batch.attempts.push(over_row(1, "ended"));
            batch.outbox = letters;
        });
        scene.counted();
        scene
    };
    of(true, vec![letter(7, "on_recovered")]).is_well();
    of(false, vec![]).is_well();
    of(true, vec![]).is_found("hook", "0 words of on_recovered");
    of(false, vec![letter(7, "on_recovered")]).is_found("hook", "1 words of on_recovered");
}
