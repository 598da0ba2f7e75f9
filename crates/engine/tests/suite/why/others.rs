//! Steps that others do: their items, a job of their own, or people who are asked first.

use engine::why::{DoubtView, HolderView, LineView, why};
use engine::{Continuation, JobId, JobState, carry_on};
use expect_test::expect;
use uuid::Uuid;

use super::{Fleet, check, told};
use crate::support::script::{event, world};
use crate::support::world::World;

#[test]
fn items_wait_for_their_turn() {
    check(
        "a[each:3 parallel:1] -> b",
        "go a[0]; end a[0] 0; go a[1]; pass 5s",
        expect![[r#"
        The job is running, 5 steps: 2 pending, 2 running, 1 success. Step `a`: 1 of 3 items are over.
        a is running; owner: its items; seen: never
          1 of 3 items are over
          at 3600s: look again
        b is pending; owner: step `a`; seen: never
          waits for `a` (running)
          at 3600s: look again
        a[0] is success; owner: nobody: it is over; seen: 0s
          it ended well in attempt 1
        a[1] is running; owner: worker build-1; seen: 1s
          attempt 1 has been running on worker build-1 (rack7) for 5s
          at 3600s: look again
        a[2] is pending; owner: step `a`; seen: never
          waits for its turn among the items of `a`, of which 1 run at once
          at 3600s: look again
    "#]],
    );
    let many = world("a[each:101 child:x]", "").job;
    let told = why(&many, &Fleet::default(), &world("a", "").clocks());
    let last = told.steps.last().expect("it has items");
    assert_eq!(last.reason, "waits for its turn among the items of `a`");
}

#[test]
fn items_that_were_called_off() {
    check(
        "a[each:2]",
        "go a[0]; cancel",
        expect![[r#"
        The job is being cancelled by ann, 3 steps: 2 cancelling, 1 cancelled. Step `a`: cancelled by ann; 1 of 2 items are over.
        a is cancelling; owner: its items; seen: never
          cancelled by ann; 1 of 2 items are over
          at 3600s: look again
        a[0] is cancelling; owner: worker build-1; seen: 1s
          cancelled by ann; worker build-1 (rack7) was told to stop attempt 1
          at 40s: end it without the worker's answer
        a[1] is cancelled; owner: nobody: it is over; seen: 0s
          Step `a[1]` was cancelled by ann (cancelled)
    "#]],
    );
    check(
        "a[each:2 fail_fast]",
        "go a[0]; go a[1]; end a[0] 1",
        expect![[r#"
        The job is running, 3 steps: 1 running, 1 cancelling, 1 failed. Step `a[1]`: another item failed; worker build-1 (rack7) was told to stop attempt 1.
        a is running; owner: its items; seen: never
          1 of 2 items are over
          at 3600s: look again
        a[0] is failed; owner: nobody: it is over; seen: 0s
          Step `a[0]` exited with code 1 (exit_code)
        a[1] is cancelling; owner: worker build-1; seen: 1s
          another item failed; worker build-1 (rack7) was told to stop attempt 1
          at 40s: end it without the worker's answer
    "#]],
    );
}

#[test]
fn items_that_ended_well() {
    check(
        "a[each:1]",
        "go a[0]; end a[0] 0",
        expect![[r#"
        The job succeeded after 0s, 2 steps: 2 success.
        a is success; owner: nobody: it is over; seen: 0s
          all of its 1 item ended well
        a[0] is success; owner: nobody: it is over; seen: 0s
          it ended well in attempt 1
    "#]],
    );
}

#[test]
fn a_job_does_it() {
    check(
        "a[child:x timeout:5m]",
        "pass 90s",
        expect![[r#"
        The job is running, 1 step: 1 running. Step `a`: job 00000000-0000-0000-ba7f-58127596bc87 of task `child` has been doing it for 1m 30s.
        a is running; owner: job 00000000-0000-0000-ba7f-58127596bc87; seen: never
          job 00000000-0000-0000-ba7f-58127596bc87 of task `child` has been doing it for 1m 30s
          at 300s: call its job off: its timeout is over
    "#]],
    );
}

/// Whoever asks why nothing moves is sent to the job that knows.
#[test]
fn the_job_that_does_it_waits_itself() {
    let world = world("a[child:x]", "pass 90s");
    let reason = |child| why(&world.job, &Fleet { child, ..Fleet::default() }, &world.clocks()).steps[0].reason.clone();
    let (id, plain) = ("00000000-0000-0000-ba7f-58127596bc87", reason(None));
    assert_eq!(reason(Some(JobState::Running)), plain);
    assert_eq!(reason(Some(JobState::Held)), format!("{plain}, and it waits for a person: see `bowline why {id}`"));
    assert_eq!(reason(Some(JobState::Pending)), format!("{plain}, and it has not started: see `bowline why {id}`"));
}

#[test]
fn the_job_that_did_it_was_called_off() {
    check(
        "a[child:x timeout:5m]",
        "next; pass 5s",
        expect![[r#"
        The job is running, 1 step: 1 cancelling. Step `a`: its timeout is over; job 00000000-0000-0000-ba7f-58127596bc87 of task `child` has been doing it for 5m 5s.
        a is cancelling; owner: job 00000000-0000-0000-ba7f-58127596bc87; seen: never
          its timeout is over; job 00000000-0000-0000-ba7f-58127596bc87 of task `child` has been doing it for 5m 5s
          at 330s: look again
    "#]],
    );
}

#[test]
fn the_job_that_did_it_ended_well() {
    check(
        "a[child:x]",
        "child a ok",
        expect![[r#"
        The job succeeded after 0s, 1 step: 1 success.
        a is success; owner: nobody: it is over; seen: 0s
          its child job ended well
    "#]],
    );
}

/// In a job that goes on for another: no job was begun here.
#[test]
fn the_job_that_did_it_belongs_to_another() {
    let before = world("a[child:x] -> b", "child a ok; go b; end b 1");
    let (id, how) = (JobId(Uuid::from_u128(2)), Continuation::FromFailed);
    let next = carry_on(id, &before.job, &how, false, &|_| None, "bob".into(), &before.ctx()).expect("it has ended").0;
    let told = why(&next, &Fleet::default(), &before.clocks());
    assert_eq!(told.steps[0].reason, "it was taken over, or settled by hand");
}

/// Nothing that its step needs is missing, and its condition is not what kept it from beginning.
#[test]
fn an_item_ends_with_a_step_that_did_not_begin() {
    for graph in ["b[each:2 reviewers:1]", "b[each:2 reviewers:1 if:always()]"] {
        let mut world = world(graph, "approve b; go b[0]; end b[0] 0; go b[1]; end b[1] 1");
        let (id, how) = (JobId(Uuid::from_u128(2)), Continuation::FromFailed);
        let next = carry_on(id, &world.job, &how, false, &|_| None, "bob".into(), &world.ctx());
        world.job = next.expect("it has ended").0;
        let reject = event(&mut world, &["reject", "b"]);
        world.play(&reject).expect("it is held");
        let told = why(&world.job, &Fleet::default(), &world.clocks());
        assert_eq!(told.steps[2].reason, "step `b` ended before it began", "{graph}");
    }
}

#[test]
fn those_who_are_asked_hear_what_for() {
    check(
        "a[env:prod reviewers:3 four_eyes message:release]",
        "approve a bob; approve a eve; pass 60s",
        expect![[r#"
        Only a person can move the job on, 1 step: 1 held. Step `a`: has waited 1m for approval ("release"), as `prod` asks, not by ann; approved by bob, eve.
        a is held; owner: a person; seen: never
          has waited 1m for approval ("release"), as `prod` asks, not by ann; approved by bob, eve
          at 3600s: look again
    "#]],
    );
    check(
        "a[env:prod wait:60s]",
        "",
        expect![[r#"
        The job has not started, 1 step: 1 waiting. Step `a`: `prod` asks for a wait, over in 1m.
        a is waiting; owner: a timer; seen: never
          `prod` asks for a wait, over in 1m
          at 60s: queue it
    "#]],
    );
}

/// It says who has the slots, by what, and how many stand before it.
#[test]
fn a_job_in_line_for_its_group() {
    let world = world("a -> b, group:release", "pass 10s");
    let job = |n: u128| JobId(Uuid::from_u128(n));
    let doubt = DoubtView {
        step: "ship".to_owned(),
        number: 2,
        worker: "build-1".to_owned(),
        given_up_at: Some(world.now - std::time::Duration::from_secs(120)),
        until: world.now + std::time::Duration::from_secs(3600),
    };
    let holders = vec![HolderView { job: job(7), doubt: None }, HolderView { job: job(8), doubt: Some(doubt) }];
    let told_of = |line: Option<LineView>| told(&world, &Fleet { line, ..Fleet::default() });
    expect![[r#"
        The job has not started, 2 steps: 2 pending. It waits for concurrency group `release`, of which 1 job runs at once: held by job 00000000-0000-0000-0000-000000000007 and job 00000000-0000-0000-0000-000000000008, which is over, but attempt 2 of its step `ship` on worker build-1 was given up 2m ago and may still run: `--confirm-dead` says that it does not; free in any case in 1h; 2 jobs are in line before it.
        a is pending; owner: concurrency group `release`; seen: never
          waits for concurrency group `release`, of which 1 job runs at once: held by job 00000000-0000-0000-0000-000000000007 and job 00000000-0000-0000-0000-000000000008, which is over, but attempt 2 of its step `ship` on worker build-1 was given up 2m ago and may still run: `--confirm-dead` says that it does not; free in any case in 1h; 2 jobs are in line before it
          at 3600s: look again
        b is pending; owner: step `a`; seen: never
          waits for `a` (pending)
          at 3600s: look again
    "#]]
    .assert_eq(&told_of(Some(LineView { before: 2, holders })));
    let next = told_of(Some(LineView { before: 0, holders: Vec::new() }));
    assert!(next.contains("nobody has a slot now; it is the next in line"), "{next}");
}

/// Three are enough to see who; of more only the number matters.
#[test]
fn many_who_have_a_slot_are_counted() {
    let world = world("a, group:release", "");
    for (count, more) in [(2, None), (3, None), (4, Some("and 1 more;")), (9, Some("and 6 more;"))] {
        let job = |n: u128| HolderView { job: JobId(Uuid::from_u128(n)), doubt: None };
        let line = Some(LineView { before: 0, holders: (1..=count).map(job).collect() });
        let told = why(&world.job, &Fleet { line, ..Fleet::default() }, &world.clocks()).summary;
        let named = told.matches("job 00000000-").count() as u128;
        assert_eq!(named, count.min(3), "{told}");
        match more {
            Some(more) => assert!(told.contains(more), "{told}"),
            None => assert!(!told.contains(" more;"), "{told}"),
        }
    }
}

/// Files may take long to carry, and the runner is silent then.
#[test]
fn a_worker_that_carries_files_is_said_to() {
    let fleet = Fleet { carries_files: true, ..Fleet::default() };
    let told = |story: &str| {
        let world = world("a", story);
        why(&world.job, &fleet, &world.clocks()).steps[0].reason.contains("its worker is fetching or storing its files")
    };
    assert!(told("go a"));
    assert!(!told("offer a") && !told("go a; lost a") && !told("go a; end a 0"));
}

/// What was noticed is said for as long as it is so.
#[test]
fn what_takes_longer_than_expected_is_said_to() {
    let late = "takes longer than expected: 1m";
    let step = |graph: &str, story: &str| {
        let world = world(graph, story);
        why(&world.job, &Fleet::default(), &world.clocks()).steps[0].reason.contains(late)
    };
    assert!(step("a[expect:60s]", "go a; next"));
    assert!(step("a[expect:60s]", "go a; next; lost a"));
    assert!(step("a[expect:60s child:x]", "next"));
    assert!(!step("a[expect:60s]", "go a; pass 59s"));
    assert!(!step("a[expect:60s]", "go a; next; end a 0"));
    assert!(!step("a[expect:60s retry:2 delay:1s]", "go a; next; end a 1"), "that attempt is over");

    let job = |story: &str| {
        let world = world("a, expect:60s", story);
        why(&world.job, &Fleet::default(), &world.clocks()).summary.ends_with("It takes longer than expected: 1m.")
    };
    assert!(job("go a; next"));
    assert!(!job("go a; pass 59s"));
    assert!(!job("go a; next; end a 0"));
}

#[test]
fn what_waited_too_long_is_said_to() {
    let mut world = world("a[unmatched:wait]", "pass 60s");
    world.rules.queue_notice = Some(std::time::Duration::from_secs(60));
    let told = |world: &World| {
        let reason = why(&world.job, &Fleet::default(), &world.clocks()).steps[0].reason.clone();
        reason.ends_with("; it has waited for longer than the server's limit for notices")
    };
    assert!(!told(&world), "nobody has noticed yet");
    for (words, expected) in [(["check", "a"], true), (["offer", "a"], true), (["accept", "a"], false)] {
        let event = event(&mut world, &words);
        world.play(&event).expect("it may");
        assert_eq!(told(&world), expected, "after {words:?}");
    }
}
