//! Jobs of one concurrency group, and what one more does to them.

use engine::{JobId, Time};
use store::rows::{EventRow, JobRow};
use store::{Batch, JobWrite};
use uuid::Uuid;

use super::{Checks, JobPlan, SECOND, Scene, Setup, plan};
use crate::workload::{GroupPlan, WhenFull};

const LIMIT: u32 = 2;

/// The jobs of a group of two that nobody has joined yet.
fn group(when_full: WhenFull) -> Scene {
    let job = |number: u128| JobPlan {
        at: SECOND,
        group: Some(GroupPlan { name: "ga".to_owned(), limit: LIMIT, when_full }),
        ..JobPlan::plain(&format!("job-{number}"), vec![plan()])
    };
    let plans: Vec<JobPlan> = (0..4).map(job).collect();
    let setup = Setup { servers: 1, ..Setup::of(1) };
    let checks = Checks::new(&setup, &plans);
    Scene { checks, now: SECOND, version: 0, job: "pending", step: "pending" }
}

fn id(number: u64) -> JobId {
    JobId(Uuid::from_u128(100 + u128::from(number)))
}

impl Scene {
    fn member_row(&self, number: u64) -> JobRow {
        JobRow {
            id: id(number),
            version: 1,
            task: format!("job-{number}"),
            group: Some("ga".to_owned()),
            created_at: Time(i64::try_from(number).expect("small")),
            ..self.job_row()
        }
    }

    /// The job of this number is made, and these are cancelled for it.
    fn joins(&mut self, number: u64, cancelled: &[u64]) -> &mut Scene {
        let mut batch = Batch { now: self.time(), ..Batch::default() };
        batch.jobs.push(JobWrite { row: self.member_row(number), expected: None });
        for other in cancelled {
            let reason = format!("cancelled by job {} of the same concurrency group", id(number));
            let (from, to) = (None, None);
            let job = id(*other);
            let (at, kind) = (Time(0), "cancel_asked");
            batch.events.push(EventRow { job, ix: None, at, kind, verb: None, from, to, worker: None, reason });
        }
        self.commit(&batch)
    }
}

#[test]
fn the_oldest_goes_for_the_newest() {
    let mut scene = group(WhenFull::CancelOldest);
    scene.joins(0, &[]).joins(1, &[]).joins(2, &[0]).is_well();
    scene.joins(3, &[2]).is_found("group", "is cancelled as the oldest");
    let mut scene = group(WhenFull::CancelOldest);
    scene.joins(0, &[]).joins(1, &[]).joins(2, &[]).is_found("group", "nobody is cancelled for it");
    let mut scene = group(WhenFull::Queue);
    scene.joins(0, &[]).joins(1, &[]).joins(2, &[0]).is_found("group", "and there is none");
}

#[test]
fn a_full_group_takes_nobody() {
    let mut scene = group(WhenFull::Reject);
    scene.joins(0, &[]).joins(1, &[]).checks.turned_away(2);
    scene.is_well();
    scene.joins(2, &[]).is_found("group", "is full, and job");
}

#[test]
fn a_refusal_that_was_none() {
    let mut scene = group(WhenFull::Reject);
    scene.joins(0, &[]).checks.turned_away(1);
    scene.is_found("group", "has room");
    let mut scene = group(WhenFull::Reject);
    scene.joins(0, &[]).joins(1, &[]).checks.turned_away(1);
    scene.is_found("group", "is there as job");
    let mut scene = group(WhenFull::Queue);
    scene.joins(0, &[]).joins(1, &[]).checks.turned_away(2);
    scene.is_found("group", "that it would wait for");
}
