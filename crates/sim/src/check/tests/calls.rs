//! Jobs that somebody outside calls for.

use engine::{JobId, Time};
use store::rows::{IdempotencyRow, JobRow, TriggerRow};
use store::{Batch, JobWrite, TriggerWrite};
use uuid::Uuid;

use super::{Checks, SECOND, Scene, Setup, plan};
use crate::workload::{CallPlan, JobPlan};

const TRIGGER: &str = "call-0:webhook:call-0";

fn called() -> Scene {
    let call = CallPlan { job: JobPlan::plain("call-0", vec![plan()]), at_ms: vec![1_000], rest: None };
    assert_eq!(call.trigger(), TRIGGER);
    let setup = Setup { calls: vec![call], ..Setup::of(1) };
    let checks = Checks::new(&setup, &[]);
    Scene { checks, now: SECOND, version: 0, job: "pending", step: "pending" }
}

fn id(number: u128) -> JobId {
    JobId(Uuid::from_u128(100 + number))
}

impl Scene {
    fn trigger_row(paused_at: Option<Time>) -> TriggerRow {
        TriggerRow {
            id: TRIGGER.to_owned(),
            version: 1,
            task: "call-0".to_owned(),
            kind: "webhook".to_owned(),
            definition: String::new(),
            paused_at,
            paused_by: None,
            planned_at: None,
            next_at: None,
            last_at: None,
            last_job: None,
            last_error: None,
            missed: 0,
            notice: None,
            notice_at: None,
        }
    }

    /// What the trigger's row says, and the job of this number if it makes one.
    fn call(&mut self, made: Option<u128>, paused_at: Option<Time>, more: impl FnOnce(&mut Batch)) -> &mut Scene {
        let mut batch = Batch { now: self.time(), ..Batch::default() };
        let row = Scene::trigger_row(paused_at);
        batch.triggers.push(TriggerWrite { row, expected: None, jobs: made.map(id).into_iter().collect() });
        if let Some(number) = made {
            let submitted_by = format!("trigger:{TRIGGER}");
            let row = JobRow { id: id(number), task: "call-0".to_owned(), version: 1, submitted_by, ..self.job_row() };
            batch.jobs.push(JobWrite { row, expected: None });
            let (key, token, created_at) = (number.to_string(), Uuid::nil(), self.time());
            batch.idempotency.push(IdempotencyRow { key, token, request_hash: [0; 32], job: id(number), created_at });
        }
        more(&mut batch);
        self.commit(&batch)
    }
}

#[test]
fn a_call_is_on_record_with_its_job() {
    let mut scene = called();
    scene.call(None, None, |_| {}).call(Some(1), None, |_| {}).is_well();
    scene.call(Some(2), None, |batch| batch.idempotency.clear()).is_found("call", "no delivery has it");
    let mut scene = called();
    scene.call(None, None, |_| {}).call(Some(1), None, |batch| batch.triggers.clear());
    scene.is_found("call", "does not say so");
}

#[test]
fn a_trigger_that_rests_makes_no_job() {
    let mut scene = called();
    let rests = Some(Time(5));
    scene.call(None, None, |_| {}).call(Some(1), rests, |_| {}).is_well();
    scene.call(Some(2), rests, |_| {}).is_found("call", "rests since");
}

#[test]
fn a_delivery_that_becomes_two_jobs_is_found() {
    let mut scene = called();
    scene.call(None, None, |_| {}).call(Some(1), None, |_| {}).checks.called(0, id(1), id(1));
    scene.is_well();
    scene.checks.called(0, id(2), id(1));
    scene.is_found("call", "became two jobs");
}
