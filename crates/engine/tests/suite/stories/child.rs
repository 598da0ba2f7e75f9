//! Steps that another job does.

use std::time::Duration;

use engine::event::{ChildEnd, ChildOrder, Event};
use engine::job::Parent;
use engine::{FailureKind, Job, JobId, StateName, StepIx};
use expect_test::expect;
use serde_json::{Value, json};
use uuid::{Uuid, Variant};

use crate::support::script::{changes_of, check, event, world};
use crate::support::task::task;
use crate::support::world::START;

#[test]
fn a_job_begins_with_its_step_and_its_outputs_are_the_steps() {
    check(
        "a -> b[child:x] -> c",
        "go a; end a 0; child b ok",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; b: pending -start-> running; a#1 is ended, confirmed; * begin a job for b with "x"; ! forget a
        child b ok   | b: running -succeed-> success; c: pending -enqueue-> queued
        = job running, a success, b success, c queued
    "#]],
    );
    let after = world("b[child:x] -> c", "child b ok");
    assert_eq!(after.job.step(StepIx(0)).output, json!({ "work": { "sha": "abc" } }));
}

/// A job of its own, or items: each time that they are to do it, also after that is over.
#[test]
fn since_when_others_do_a_step_is_kept() {
    let since = |graph: &str, story: &str| {
        let after = world(graph, story);
        after.job.step(StepIx(0)).delegated_at.map(|at| at.since(START).as_secs())
    };
    assert_eq!(since("a[child:x]", "pass 5s; child a ok"), Some(0));
    assert_eq!(since("a -> b[child:x]", "go a; pass 5s; end a 0"), None);
    assert_eq!(since("a[child:x retry:2 delay:5s]", "child a failed; next; child a ok"), Some(5));
    assert_eq!(since("a[each:1 unmatched:wait]", "go a[0]; pass 5s; end a[0] 0"), Some(0));
}

/// Who waits for a job that waits for a person waits for the person, too, and the clock stands still.
#[test]
fn a_job_whose_child_is_held_is_held() {
    check(
        "a[child:x], timeout:60s",
        "pass 30s; child a held; child a held; pass 1000s; check job; child a moves; pass 20s; check job; next",
        expect![[r#"
            submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
            pass 30s
            child a held | job: running -> held
            child a held | refused: the step knows how its child job stands
            pass 1000s
            check job
            child a moves | job: held -> running
            pass 20s
            check job
            +10s check job | job: cancel the job's timeout is over; a: running -cancel_graceful-> cancelling; job: running -> cancelling; * call a job off
            = job cancelling, a cancelling
        "#]],
    );
    check(
        "a[child:x], b[child:x], c",
        "child a held; child b held; go c; end c 0; child a cancelled; child b moves; child b ok",
        expect![[r#"
            submit       | a: pending -start-> running; b: pending -start-> running; c: pending -enqueue-> queued; job: pending -> running; * begin a job for a with "x"; * begin a job for b with "x"
            child a held
            child b held
            go c
            end c 0      | c: running -succeed-> success; job: running -> held; c#1 is ended, confirmed; ! forget c
            child a cancelled | a: running -cancel-> cancelled
            child b moves | job: held -> running
            child b ok   | b: running -succeed-> success; job: running -> cancelled
            = job cancelled (cancelled), a cancelled (cancelled), b success, c success
        "#]],
    );
    check(
        "a[each:2 child:x]",
        "child a[0] held; child a[1] held; child a[1] moves; cancel; child a[0] moves; child a[0] cancelled; child a[1] ok",
        expect![[r#"
            submit       | a: pending -start-> running; a[0]: pending -start-> running; a[1]: pending -start-> running; job: pending -> running; * begin a job for a[0] with "x"; * begin a job for a[1] with "x"
            child a[0] held
            child a[1] held | job: running -> held
            child a[1] moves | job: held -> running
            cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; a[0]: running -cancel_graceful-> cancelling; a[1]: running -cancel_graceful-> cancelling; job: running -> cancelling; * call a job off; * call a job off
            child a[0] moves
            child a[0] cancelled | a[0]: cancelling -complete-> cancelled
            child a[1] ok | a[1]: cancelling -succeed-> cancelled; a: cancelling -complete-> cancelled; job: cancelling -> cancelled
            = job cancelled (cancelled), a cancelled (cancelled), a[0] cancelled (cancelled), a[1] cancelled (cancelled)
        "#]],
    );
}

#[test]
fn what_cannot_begin_fails() {
    check(
        "a[child:none]",
        "",
        expect![[r#"
        submit       | a: pending -fail-> failed; job: pending -> failed
        = job failed (unknown_task), a failed (unknown_task)
    "#]],
    );
    check(
        "a[child:refused]",
        "",
        expect![[r#"
        submit       | a: pending -fail-> failed; job: pending -> failed
        = job failed (invalid_input), a failed (invalid_input)
    "#]],
    );
    check(
        "a[child:{bad}]",
        "",
        expect![[r#"
        submit       | a: pending -fail-> failed; job: pending -> failed
        = job failed (template), a failed (template)
    "#]],
    );
}

#[test]
fn a_failure_is_tried_again_by_another_job() {
    check(
        "a[child:x retry:2 delay:5s]",
        "child a failed; next; child a failed",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        child a failed | a: running -retry-> waiting
        +5s check a  | a: waiting -timer_done-> queued; a: queued -start-> running; * begin a job for a with "x"
        child a failed | a: running -fail-> failed; job: running -> failed
        = job failed (exit_code), a failed (exit_code)
    "#]],
    );
    check(
        "a[child:x retry:2 on:timeout]",
        "child a timeout; next; child a failed",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        child a timeout | a: running -retry-> waiting
        +0s check a  | a: waiting -timer_done-> queued; a: queued -start-> running; * begin a job for a with "x"
        child a failed | a: running -fail-> failed; job: running -> failed
        = job failed (exit_code), a failed (exit_code)
    "#]],
    );
}

/// A second job beside what may be left of the first would be two copies at once.
#[test]
fn nothing_follows_on_what_may_still_run() {
    check(
        "a[child:x retry:2]",
        "child a failed stray",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        child a failed stray | a: running -fail-> failed; job: running -> failed
        = job failed (exit_code), a failed (exit_code)
    "#]],
    );
    check(
        "a[child:x retry:2 timeout:10s]",
        "next; child a cancelled stray",
        expect![[r#"
            submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
            +10s check a | a: running -stop-> cancelling; * call a job off
            child a cancelled stray | a: cancelling -complete-> failed; job: running -> failed
            = job failed (step_timeout), a failed (step_timeout)
        "#]],
    );
}

#[test]
fn a_cancel_travels_down() {
    check(
        "a[child:x]",
        "cancel; force; child a cancelled",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; * call a job off
        force        | job: cancel asked by ann, by force; * call a job off by force
        child a cancelled | a: cancelling -complete-> cancelled; job: cancelling -> cancelled
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
    check(
        "a[child:x]",
        "cancel; child a ok",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; * call a job off
        child a ok   | a: cancelling -succeed-> cancelled; job: cancelling -> cancelled
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
    check(
        "timeout:60s, a[child:x]",
        "next; child a cancelled",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        +60s check job | job: cancel the job's timeout is over; a: running -cancel_graceful-> cancelling; job: running -> cancelling; * call a job off
        child a cancelled | a: cancelling -complete-> cancelled; job: cancelling -> cancelled
        = job cancelled (job_timeout), a cancelled (job_timeout)
    "#]],
    );
}

#[test]
fn a_job_that_is_cancelled_by_hand_cancels_its_step() {
    check(
        "a[child:x retry:3] -> b",
        "child a cancelled",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        child a cancelled | a: running -cancel-> cancelled; b: pending -skip-> skipped; job: running -> cancelled
        = job cancelled (cancelled), a cancelled (cancelled), b skipped
    "#]],
    );
}

#[test]
fn a_step_has_a_timeout_of_its_own() {
    check(
        "a[child:x timeout:10s]",
        "pass 9s; check a; next; child a cancelled",
        expect![[r#"
            submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
            pass 9s
            check a
            +1s check a  | a: running -stop-> cancelling; * call a job off
            child a cancelled | a: cancelling -complete-> failed; job: running -> failed
            = job failed (step_timeout), a failed (step_timeout)
        "#]],
    );
    check(
        "a[child:x timeout:10s]",
        "next; child a ok",
        expect![[r#"
            submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
            +10s check a | a: running -stop-> cancelling; * call a job off
            child a ok   | a: cancelling -complete-> success; job: running -> success
            = job success, a success
        "#]],
    );
    check(
        "a[child:x timeout:10s retry:2]",
        "next; child a cancelled; next",
        expect![[r#"
            submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
            +10s check a | a: running -stop-> cancelling; * call a job off
            child a cancelled | a: cancelling -complete-> waiting
            +0s check a  | a: waiting -timer_done-> queued; a: queued -start-> running; * begin a job for a with "x"
            = job running, a running
        "#]],
    );
}

/// Nobody may have told it: the order is given again, and a job that is not on record is made again.
#[test]
fn a_word_that_was_lost_is_given_again() {
    check(
        "a[child:x]",
        "cancel; next; missing a",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; * call a job off
        +30s check a | * call a job off
        missing a    | a: cancelling -complete-> cancelled; job: cancelling -> cancelled
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
    check(
        "a[child:x]",
        "force; next",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        force        | job: cancel asked by ann, by force; a: running -cancel_graceful-> cancelling; job: running -> cancelling; * call a job off by force
        +30s check a | * call a job off by force
        = job cancelling, a cancelling
    "#]],
    );
    check(
        "a[child:x]",
        "missing a; child a ok; missing a",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        missing a    | * begin a job for a with "x"
        child a ok   | a: running -succeed-> success; job: running -> success
        missing a    | refused: the job is already success
        = job success, a success
    "#]],
    );
}

/// Its task may be unreadable to a server of another version, which then must not leave the step waiting.
#[test]
fn what_can_no_longer_begin_fails_when_it_is_to() {
    let told = |graph: &str, command: &[&str]| {
        let mut world = world(graph, "");
        world.job.definition = task(&graph.replace("child:x", "child:none"));
        let event = event(&mut world, command);
        world.pass(Duration::from_secs(60));
        world.play(&event).expect("it is decided");
        let step = world.job.step(StepIx(0));
        (step.state.name(), step.error.as_ref().map(|error| error.kind))
    };
    let failed = (StateName::Failed, Some(FailureKind::UnknownTask));
    assert_eq!(told("a[child:x reviewers:1]", &["approve", "a"]), failed);
    assert_eq!(told("a[child:x wait:60s]", &["check", "a"]), failed);
    assert_eq!(told("a[child:x]", &["missing", "a"]), failed);
}

#[test]
fn each_item_is_a_job() {
    check(
        "a[each:3 parallel:2 fail_fast child:{item}]",
        "child a[0] ok; child a[1] failed; child a[2] cancelled",
        expect![[r#"
            submit       | a: pending -start-> running; a[0]: pending -start-> running; a[1]: pending -start-> running; job: pending -> running; * begin a job for a[0] with "0"; * begin a job for a[1] with "1"
            child a[0] ok | a[0]: running -succeed-> success; a[2]: pending -start-> running; * begin a job for a[2] with "2"
            child a[1] failed | a[1]: running -fail-> failed; a[2]: running -cancel_graceful-> cancelling; * call a job off
            child a[2] cancelled | a[2]: cancelling -complete-> cancelled; a: running -fail-> failed; job: running -> failed
            = job failed (exit_code), a failed (exit_code), a[0] success, a[1] failed (exit_code), a[2] cancelled (cancelled)
        "#]],
    );
}

#[test]
fn rules_come_first() {
    check(
        "a[child:x wait:60s reviewers:1]",
        "next; approve a; child a ok",
        expect![[r#"
        submit       | a: pending -wait-> waiting
        +60s check a | a: waiting -timer_done-> held; job: pending -> held
        approve a    | a: held -approve-> queued; a: queued -start-> running; job: held -> running; * begin a job for a with "x"
        child a ok   | a: running -succeed-> success; job: running -> success
        = job success, a success
    "#]],
    );
}

#[test]
fn an_error_of_ours_leaves_no_job_behind() {
    check(
        "a[child:x] -> b",
        "poison a; child a ok",
        expect![[r#"
        submit       | a: pending -start-> running; job: pending -> running; * begin a job for a with "x"
        poison a     | a: running -fail-> failed; b: pending -skip-> skipped; job: running -> failed; * call a job off
        child a ok   | refused: the job is already failed
        = job failed (internal), a failed (internal), b skipped
    "#]],
    );
}

fn born(graph: &str) -> (engine::event::Birth, Job) {
    let parent = world(graph, "").job;
    let changes = changes_of(graph, "missing a");
    let Some(ChildOrder::Begin(birth)) = changes.children.into_iter().next() else { panic!("a job begins") };
    (birth, parent)
}

/// Whoever decides it, and whenever: it is the same job.
#[test]
fn a_job_is_named_after_whom_it_is_for() {
    let (birth, parent) = born("a[child:x], b[child:x]");
    assert_eq!(Some(birth.id), parent.child_of(StepIx(0)));
    assert_ne!(Some(birth.id), parent.child_of(StepIx(1)));
    let again: Vec<JobId> = (1..=3).map(|attempt| parent.id.child(StepIx(0), attempt)).collect();
    assert_eq!(again[0], birth.id);
    assert!(again[1] != again[0] && again[2] != again[1]);
    assert!(again.iter().all(|id| id.may_be_kin(parent.id) && id.0.get_variant() == Variant::RFC4122));
}

#[test]
fn only_what_was_begun_has_a_job() {
    let job = world("a[child:x], b -> c[child:x]", "go b").job;
    assert!(job.child_of(StepIx(0)).is_some());
    assert_eq!([1, 2].map(|step| job.child_of(StepIx(step))), [None; 2]);
}

/// Another server, of another version, finds the same job under it.
#[test]
fn the_name_of_a_job_never_changes() {
    let parent = JobId(Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001));
    let names = [(0, 1), (0, 2), (1, 1), (19_999, 3)].map(|(step, attempt)| parent.child(StepIx(step), attempt));
    assert_eq!(
        names.map(|name| name.to_string()),
        [
            "01920000-0000-7000-aae1-00b98ea33061",
            "01920000-0000-7000-b6fb-039ccf83766d",
            "01920000-0000-7000-86a0-290066615197",
            "01920000-0000-7000-9711-f0153474e6e5",
        ]
    );
}

#[test]
fn strangers_are_no_kin() {
    let (parent, stranger) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(1 << 64)));
    let grandchild = parent.child(StepIx(3), 1).child(StepIx(0), 2);
    assert!(grandchild.may_be_kin(parent) && parent.may_be_kin(grandchild));
    assert!(!grandchild.may_be_kin(stranger));
}

#[test]
fn a_job_knows_for_whom_it_is_and_what_it_was_given() {
    let world = world("a[child:x]", "");
    let (birth, parent) = born("a[child:x]");
    let (child, changes) = engine::bear(&birth, None, &world.ctx());
    assert_eq!(Some(child.id), parent.child_of(StepIx(0)));
    assert_eq!(child.parent, Some(Parent { job: parent.id, step: StepIx(0) }));
    assert_eq!((&*child.input, &child.submitted_by), (&json!("x"), &parent.submitted_by));
    assert_eq!(child.step(StepIx(0)).state.name(), StateName::Queued);
    assert_eq!(changes.steps.len(), 1, "each of its rows is new");
}

#[test]
fn a_parent_hears_how_its_job_ended() {
    let (birth, parent) = born("a[child:x]");
    let mut child = world("work -> other", "go work; end work 0; go other; end other 0").job;
    assert_eq!(child.word_for_parent(), None, "it has no parent");
    child.parent = birth.parent;
    let (told, word) = child.word_for_parent().expect("it is over");
    assert_eq!(told, parent.id);
    let output = json!({ "work": { "sha": "abc" }, "other": { "sha": "abc" } });
    let end = ChildEnd::Success { output };
    assert_eq!(word, Event::ChildEnded { step: StepIx(0), child: child.id, end, strays: false });
}

/// What a job of this graph tells its parent after `story`.
fn word_after(graph: &str, story: &str) -> Option<ChildEnd> {
    let mut child = world(graph, story).job;
    child.parent = Some(Parent { job: JobId(Uuid::from_u128(9)), step: StepIx(0) });
    match child.word_for_parent() {
        Some((_, Event::ChildEnded { end, .. })) => Some(end),
        Some((_, Event::ChildHeld { .. })) => None,
        other => panic!("a child has word of its end, or of its being held: {other:?}"),
    }
}

#[test]
fn a_parent_hears_how_its_child_ends() {
    let kind = |graph: &str, story: &str| match word_after(graph, story) {
        Some(ChildEnd::Failed(failure)) => ("failed", failure.kind.code()),
        Some(ChildEnd::Cancelled(failure)) => ("cancelled", failure.kind.code()),
        Some(ChildEnd::Success { .. }) => ("success", ""),
        None => ("open", ""),
    };
    assert_eq!(kind("w", "go w"), ("open", ""));
    assert_eq!(kind("w", "go w; cancel"), ("open", ""));
    assert_eq!(kind("w", "go w; end w 0"), ("success", ""));
    assert_eq!(kind("w", "go w; end w 1"), ("failed", "exit_code"));
    assert_eq!(kind("w", "cancel"), ("cancelled", "cancelled"));
    // Its own timeout is nobody's wish: a policy may try it again.
    assert_eq!(kind("w[unmatched:wait], timeout:60s", "next"), ("failed", "job_timeout"));
}

#[test]
fn what_a_job_hands_to_its_parent_has_a_limit() {
    let told = |bytes: [usize; 2]| {
        let mut child = world("v, w", "go v; end v 0; go w; end w 0").job;
        child.parent = Some(Parent { job: JobId(Uuid::from_u128(9)), step: StepIx(0) });
        for (step, bytes) in child.steps.iter_mut().zip(bytes) {
            // With its quotes.
            step.output = Value::from("x".repeat(bytes - 2));
        }
        let Some((_, Event::ChildEnded { end, .. })) = child.word_for_parent() else { panic!("it is over") };
        end
    };
    let half = 4 * 1024 * 1024;
    assert!(matches!(told([half, half]), ChildEnd::Success { .. }));
    for too_much in [[half, half + 1], [2, half * 2]] {
        assert!(matches!(told(too_much), ChildEnd::Failed(failure) if failure.kind == FailureKind::BadOutput));
    }
}

#[test]
fn a_parent_hears_of_what_may_still_run() {
    let (birth, _) = born("a[child:x]");
    for (story, strays) in [("go w; lost w; next", true), ("go w; gone w runner", false)] {
        let mut child = world("w", story).job;
        child.parent = birth.parent;
        let Some((_, Event::ChildEnded { strays: told, .. })) = child.word_for_parent() else { panic!("it is over") };
        assert_eq!(told, strays, "{story}");
    }
}

/// Each is made in the transaction that gives it its turn, which would grow with the list.
#[test]
fn only_so_many_jobs_begin_at_once() {
    let begun = |graph: &str| world(graph, "").job.header.counts.get(StateName::Running);
    assert_eq!(begun("a[each:150 child:x]"), 1 + 100);
    assert_eq!(begun("a[each:150 parallel:120 child:x]"), 1 + 100);
    assert_eq!(begun("a[each:150 parallel:30 child:x]"), 1 + 30);
}

/// Whatever comes after it: nothing may follow on the job either.
#[test]
fn what_may_still_run_of_a_child_may_still_run_of_its_parent() {
    let strays = |story: &str| world("a[child:x], b[child:x], c", story).job.header.strays;
    assert!(!strays("child a ok; child b failed"));
    assert!(strays("child a failed stray; child b ok"));
    assert!(strays("child a failed stray; child b failed stray"));
    // A child that is told to end has some time for it, and a job that cannot be written does not wait.
    assert!(strays("poison a"));
    assert!(!strays("poison c"));
}
