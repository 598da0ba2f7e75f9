//! Concurrency groups with many jobs in them, and with jobs that come to them by another way than a submit.

use engine::{Event, JobId, JobState, StepIx};
use serde_json::json;
use server::ledger::{Again, RetryOrder};

use crate::children::start;
use crate::desk::Desk;

/// A job that begins a task once for each of so many items.
fn fan_out(items: usize, rest: &str) -> String {
    let list: Vec<String> = (0..items).map(|n| n.to_string()).collect();
    format!("name: many\n{rest}steps:\n  each: {{ for_each: [{}], task: one }}\n", list.join(", "))
}

fn state(desk: &Desk, job: JobId) -> JobState {
    let stored = desk.stored(job);
    JobState::from_word(&stored.job.state).expect("a state")
}

/// Each that is turned away lets the next one begin: in the same round, and not inside one another.
#[test]
fn a_long_list_of_children_that_are_over_at_once_is_no_deep_one() {
    let skipped = "name: one\nsteps:\n  a: { if: 'false', run: 'true' }\n";
    let refused =
        "name: one\nconcurrency: { group: g, when_full: reject }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
    let newest = refused.replace("reject", "cancel_oldest");
    for (child, expected) in [(skipped, JobState::Success), (refused, JobState::Running), (&*newest, JobState::Running)]
    {
        let mut desk = Desk::new();
        let job = desk.submit_with(&fan_out(2_000, ""), &[("one", child)]);
        assert_eq!(state(&desk, job), expected, "{child}");
        let ended = desk.stored(job).steps.iter().filter(|step| step.check_at.is_none()).count();
        assert!(ended >= 1_999, "{ended} are over: {child}");
    }
}

/// More wait than are looked at closely, and none of them can ever be admitted.
#[test]
fn a_crowd_whose_jobs_wait_for_each_other_is_not_left_alone() {
    let mut desk = Desk::new();
    let many = fan_out(60, "concurrency: { group: ci, limit: 20 }\n");
    let many = format!("{}  wait: {{ approve: {{}} }}\n", many.replace("each: {", "each: { needs: [wait],"));
    let one = "name: one\nconcurrency: { group: ci, limit: 20 }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
    let jobs: Vec<JobId> = (0..20).map(|_| desk.submit_with(&many, &[("one", one)])).collect();
    let turned_away = |desk: &Desk| {
        let all = desk.reader.jobs(&store::JobFilter { limit: 2_000, ..store::JobFilter::default() }).expect("a look");
        all.items.iter().filter(|job| job.error_code.as_deref() == Some("group_deadlock")).count()
    };
    for job in &jobs {
        let step = desk.stored(*job).steps.iter().position(|step| step.state == "held").expect("it waits for a person");
        let approve = Event::Approve { step: StepIx::of(step), by: "ann".to_owned(), comment: String::new() };
        desk.event(*job, approve).expect("it waits for that");
    }
    assert!(turned_away(&desk) > 0, "somebody must give way");
    assert!(turned_away(&desk) < 1_200, "and as soon as one can go on, the others need not");
}

#[test]
fn who_is_run_again_with_other_inputs_is_in_their_group() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 4);
    let by_region = "name: release\ninput: { region: { type: string } }\nconcurrency: { group: \"release {{ input.region | default('north') }}\" }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
    let south = "name: south\nconcurrency: { group: release south }\nsteps:\n  a: { run: 'true', unmatched: wait }\n";
    let north = desk.submit(by_region);
    let spec = start(&mut desk, &mut w);
    desk.ends(&w, spec.ticket, 1);
    desk.check(north, "failed: failed");
    let holder = desk.submit(south);
    start(&mut desk, &mut w);
    desk.check(holder, "running: running");
    let input = Some(json!({ "region": "south" }));
    let retry = RetryOrder { job: north, from_failed: false, confirm_dead: false, by: "ann".to_owned(), input };
    let next = desk.again(Again::Retry(retry)).expect("it is over").job;
    desk.check(next, "pending: pending");
    assert_eq!(desk.stored(next).job.group.as_deref(), Some("release south"));
}
