//! Jobs of one concurrency group, and what one more does to them.

use engine::job::Parent;
use engine::{JobId, Time};
use store::rows::{EventRow, JobRow};
use store::{Batch, JobWrite};
use uuid::Uuid;

use super::{Checks, JobPlan, SECOND, STEP, Scene, Setup, event, plan};
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

/// A job that the first one began, and that its group is said not to take.
impl Scene {
    fn child_turned_away(&mut self, number: u64, code: &'static str) -> &mut Scene {
        let over = JobRow {
            state: "failed",
            parent: Some(Parent { job: id(0), step: STEP }),
            error_code: Some(code),
            owner: None,
            check_at: None,
            action: None,
            ..self.member_row(number)
        };
        let mut batch = Batch { now: self.time(), ..Batch::default() };
        batch.events.push(EventRow { job: over.id, ..event(None, "job", "pending", "failed") });
        batch.jobs.push(JobWrite { row: over, expected: None });
        self.commit(&batch)
    }

    /// What is said of groups; the rest of these histories is nobody's.
    fn said_of_groups(&self) -> Vec<String> {
        let of_groups = self.checks.findings().iter().filter(|finding| finding.checker == "group");
        of_groups.map(|finding| finding.what.clone()).collect()
    }
}

#[test]
fn a_child_that_its_group_takes_and_turns_away() {
    let mut scene = group(WhenFull::Reject);
    scene.joins(0, &[]).joins(1, &[]).child_turned_away(2, "group_full");
    assert_eq!(scene.said_of_groups(), [""; 0]);
    let mut scene = group(WhenFull::Reject);
    scene.joins(0, &[]).child_turned_away(2, "group_full");
    assert!(scene.said_of_groups()[0].contains("which has room"), "{:?}", scene.said_of_groups());
    let mut scene = group(WhenFull::Queue);
    scene.joins(0, &[]).joins(1, &[]).child_turned_away(2, "group_full");
    assert!(scene.said_of_groups()[0].contains("that it would wait for"), "{:?}", scene.said_of_groups());
    // Nobody that it waits for has a slot.
    let mut scene = group(WhenFull::Queue);
    scene.joins(0, &[]).child_turned_away(2, "group_deadlock");
    assert!(scene.said_of_groups()[0].contains("there are none"), "{:?}", scene.said_of_groups());
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
