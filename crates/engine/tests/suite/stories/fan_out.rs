//! Steps that are done once for each item of a list.

use engine::attempt::Report;
use engine::definition::FETCHED_MAX;
use engine::{Event, StateName, StepIx};
use expect_test::expect;
use serde_json::Value;

use crate::support::script::{check, report, world};

#[test]
fn each_item_is_a_step_and_their_outputs_come_together() {
    check(
        "a[each:3] -> b",
        "go a[1]; end a[1] 0; go a[0]; end a[0] 0; go a[2]; end a[2] 0",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued; a[2]: pending -enqueue-> queued
        go a[1]
        end a[1] 0   | a[1]: running -succeed-> success; a[1]#1 is ended, confirmed; ! forget a[1]
        go a[0]
        end a[0] 0   | a[0]: running -succeed-> success; a[0]#1 is ended, confirmed; ! forget a[0]
        go a[2]
        end a[2] 0   | a[2]: running -succeed-> success; a: running -succeed-> success; b: pending -enqueue-> queued; a[2]#1 is ended, confirmed; ! forget a[2]
        = job running, a success, b queued, a[0] success, a[1] success, a[2] success
    "#]],
    );
}

#[test]
fn a_list_without_items_is_done() {
    check(
        "a[each:0] -> b",
        "",
        expect![[r#"
        submit       | a: pending -complete-> success; b: pending -enqueue-> queued
        = job pending, a success, b queued
    "#]],
    );
}

#[test]
fn a_list_without_items_behind_a_reviewer_is_done_once_he_agrees() {
    check(
        "a[each:0 reviewers:1] -> b",
        "approve a",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: held -approve-> queued; a: queued -start-> running; a: running -succeed-> success; b: pending -enqueue-> queued; job: held -> pending
        = job pending, a success, b queued
    "#]],
    );
}

#[test]
fn one_after_another() {
    check(
        "a[each:3 parallel:1]",
        "go a[0]; end a[0] 0; go a[1]; end a[1] 1; go a[2]; end a[2] 0",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued
        go a[0]
        end a[0] 0   | a[0]: running -succeed-> success; a[1]: pending -enqueue-> queued; a[0]#1 is ended, confirmed; ! forget a[0]
        go a[1]
        end a[1] 1   | a[1]: running -fail-> failed; a[2]: pending -enqueue-> queued; a[1]#1 is ended, confirmed; ! forget a[1]
        go a[2]
        end a[2] 0   | a[2]: running -succeed-> success; a: running -fail-> failed; job: running -> failed; a[2]#1 is ended, confirmed; ! forget a[2]
        = job failed (exit_code), a failed (exit_code), a[0] success, a[1] failed (exit_code), a[2] success
    "#]],
    );
}

#[test]
fn the_failure_of_one_lets_the_others_go_on() {
    check(
        "a[each:3] -> b",
        "go a[0]; end a[0] 3; go a[1]; end a[1] 0; go a[2]; end a[2] 0",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued; a[2]: pending -enqueue-> queued
        go a[0]
        end a[0] 3   | a[0]: running -fail-> failed; a[0]#1 is ended, confirmed; ! forget a[0]
        go a[1]
        end a[1] 0   | a[1]: running -succeed-> success; a[1]#1 is ended, confirmed; ! forget a[1]
        go a[2]
        end a[2] 0   | a[2]: running -succeed-> success; a: running -fail-> failed; b: pending -skip-> skipped; job: running -> failed; a[2]#1 is ended, confirmed; ! forget a[2]
        = job failed (exit_code), a failed (exit_code), b skipped, a[0] failed (exit_code), a[1] success, a[2] success
    "#]],
    );
}

#[test]
fn fail_fast_calls_off_the_others() {
    check(
        "a[each:4 parallel:3 fail_fast] -> b",
        "go a[0]; go a[1]; end a[0] 3; end a[1] cancelled",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued; a[2]: pending -enqueue-> queued
        go a[0]
        go a[1]
        end a[0] 3   | a[0]: running -fail-> failed; a[1]: running -cancel_graceful-> cancelling; a[2]: queued -cancel-> cancelled; a[3]: pending -cancel-> cancelled; a[0]#1 is ended, confirmed; ! forget a[0]; ! stop a[1] (Graceful, Sibling)
        end a[1] cancelled | a[1]: cancelling -complete-> cancelled; a: running -fail-> failed; b: pending -skip-> skipped; job: running -> failed; a[1]#1 is ended, confirmed; ! forget a[1]
        = job failed (exit_code), a failed (exit_code), b skipped, a[0] failed (exit_code), a[1] cancelled (cancelled), a[2] cancelled (cancelled), a[3] cancelled (cancelled)
    "#]],
    );
}

#[test]
fn fail_fast_lets_nobody_be_tried_again() {
    check(
        "a[each:2 fail_fast retry:2 on:timeout timeout:10s]",
        "go a[0]; go a[1]; pass 11s; check a[1]; end a[0] 3; end a[1] timeout",
        expect![[r#"
            submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued
            go a[0]
            go a[1]
            pass 11s
            check a[1]   | a[1]: running -stop-> cancelling; ! stop a[1] (Graceful, StepTimeout)
            end a[0] 3   | a[0]: running -fail-> failed; a[0]#1 is ended, confirmed; ! forget a[0]
            end a[1] timeout | a[1]: cancelling -complete-> failed; a: running -fail-> failed; job: running -> failed; a[1]#1 is ended, confirmed; ! forget a[1]
            = job failed (exit_code), a failed (exit_code), a[0] failed (exit_code), a[1] failed (step_timeout)
        "#]],
    );
}

#[test]
fn an_allowed_failure_of_an_item_is_one_of_the_step() {
    check(
        "a[each:2 allow_failure] -> b",
        "go a[0]; end a[0] 3; go a[1]; end a[1] 0",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued
        go a[0]
        end a[0] 3   | a[0]: running -fail-> failed; a[0]#1 is ended, confirmed; ! forget a[0]
        go a[1]
        end a[1] 0   | a[1]: running -succeed-> success; a: running -fail-> failed; b: pending -enqueue-> queued; a[1]#1 is ended, confirmed; ! forget a[1]
        = job running, a failed (exit_code), b queued, a[0] failed (exit_code), a[1] success
    "#]],
    );
}

#[test]
fn each_item_has_its_own_timeout() {
    check(
        "a[each:2 parallel:1 timeout:40m]",
        "go a[0]; pass 30m; end a[0] 0; go a[1]; pass 20m; check a",
        expect![[r#"
            submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued
            go a[0]
            pass 30m
            end a[0] 0   | a[0]: running -succeed-> success; a[1]: pending -enqueue-> queued; a[0]#1 is ended, confirmed; ! forget a[0]
            go a[1]
            pass 20m
            check a
            = job running, a running, a[0] success, a[1] running
        "#]],
    );
}

#[test]
fn each_item_has_its_own_retries() {
    check(
        "a[each:2 retry:2]",
        "go a[0]; end a[0] 1; go a[1]; end a[1] 0; check a[0]; go a[0]; end a[0] 0",
        expect![[r#"
            submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued
            go a[0]
            end a[0] 1   | a[0]: running -retry-> waiting; a[0]#1 is ended, confirmed; ! forget a[0]
            go a[1]
            end a[1] 0   | a[1]: running -succeed-> success; a[1]#1 is ended, confirmed; ! forget a[1]
            check a[0]   | a[0]: waiting -timer_done-> queued
            go a[0]
            end a[0] 0   | a[0]: running -succeed-> success; a: running -succeed-> success; job: running -> success; a[0]#2 is ended, confirmed; ! forget a[0]
            = job success, a success, a[0] success, a[1] success
        "#]],
    );
}

#[test]
fn cancel_reaches_every_item() {
    check(
        "a[each:3 parallel:2] -> b",
        "go a[0]; cancel; end a[0] cancelled",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued
        go a[0]
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; b: pending -cancel-> cancelled; a[0]: running -cancel_graceful-> cancelling; a[1]: queued -cancel-> cancelled; a[2]: pending -cancel-> cancelled; job: running -> cancelling; ! stop a[0] (Graceful, Cancel)
        end a[0] cancelled | a[0]: cancelling -complete-> cancelled; a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a[0]#1 is ended, confirmed; ! forget a[0]
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled), a[0] cancelled (cancelled), a[1] cancelled (cancelled), a[2] cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_cut_off_item_makes_the_job_recovering() {
    check(
        "a[each:1]",
        "go a[0]; lost a[0]; back a[0]; end a[0] 0",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued
        go a[0]
        lost a[0]    | a[0]: running -recover-> recovering; job: running -> recovering; a[0]#1 is recovering
        back a[0]    | a[0]: recovering -start-> running; job: recovering -> running; a[0]#1 is running
        end a[0] 0   | a[0]: running -succeed-> success; a: running -succeed-> success; job: running -> success; a[0]#1 is ended, confirmed; ! forget a[0]
        = job success, a success, a[0] success
    "#]],
    );
}

#[test]
fn a_list_that_is_none_fails_the_step() {
    check(
        "a[each:nonsense] -> b",
        "",
        expect![[r#"
        submit       | a: pending -fail-> failed; b: pending -skip-> skipped; job: pending -> failed
        = job failed (template), a failed (template), b skipped
    "#]],
    );
}

#[test]
fn an_item_whose_template_fails_fails_alone() {
    check(
        "a[argv:{odd} each:2]",
        "go a[0]; end a[0] 0",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -fail-> failed
        go a[0]
        end a[0] 0   | a[0]: running -succeed-> success; a: running -fail-> failed; job: running -> failed; a[0]#1 is ended, confirmed; ! forget a[0]
        = job failed (template), a failed (template), a[0] success, a[1] failed (template)
    "#]],
    );
}

#[test]
fn a_reviewer_is_asked_once_for_all_items() {
    check(
        "a[each:2 reviewers:1]",
        "approve a; go a[0]; end a[0] 0; go a[1]; end a[1] 0",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: held -approve-> queued; a: queued -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued; job: held -> pending
        go a[0]
        end a[0] 0   | a[0]: running -succeed-> success; a[0]#1 is ended, confirmed; ! forget a[0]
        go a[1]
        end a[1] 0   | a[1]: running -succeed-> success; a: running -succeed-> success; job: running -> success; a[1]#1 is ended, confirmed; ! forget a[1]
        = job success, a success, a[0] success, a[1] success
    "#]],
    );
}

#[test]
fn a_poisoned_fan_out_ends_with_its_items() {
    check(
        "a[each:3 parallel:1]",
        "go a[0]; poison a",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued
        go a[0]
        poison a     | a[0]: unconfirmed; a[0]: running -fail-> failed; a[1]: pending -fail-> failed; a[2]: pending -fail-> failed; a: running -fail-> failed; job: running -> failed; a[0]#1 is lost; ! stop a[0] (Graceful, Cancel)
        = job failed (internal), a failed (internal), a[0] failed (internal), a[1] failed (internal), a[2] failed (internal)
    "#]],
    );
}

#[test]
fn items_expire_with_the_job() {
    check(
        "a[each:2 unmatched:wait], expires:60s",
        "pass 60s; check job",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued; a[1]: pending -enqueue-> queued
        pass 60s
        check job    | a[0]: queued -fail-> failed; a[1]: queued -fail-> failed; a: running -fail-> failed; job: pending -> failed
        = job failed (expired), a failed (expired), a[0] failed (expired), a[1] failed (expired)
    "#]],
    );
}

#[test]
fn what_follows_the_items_moves_the_job() {
    check(
        "a[each:1] -> b, c[approve]",
        "go a[0]; end a[0] 0; go b",
        expect![[r#"
            submit       | a: pending -start-> running; c: pending -hold-> held; a[0]: pending -enqueue-> queued
            go a[0]
            end a[0] 0   | a[0]: running -succeed-> success; a: running -succeed-> success; b: pending -enqueue-> queued; a[0]#1 is ended, confirmed; ! forget a[0]
            go b
            = job running, a success, b running, c held, a[0] success
        "#]],
    );
}

#[test]
fn items_are_found_by_their_place_in_the_list() {
    let job = world("a[each:2], b", "").job;
    assert_eq!(["a[0]", "a[1]"].map(|name| job.find(name)), [Some(StepIx(2)), Some(StepIx(3))]);
    assert_eq!(["a[2]", "a[01]", "b[0]", "c[0]"].map(|name| job.find(name)), [None; 4]);
}

#[test]
fn lists_do_not_make_a_job_too_large_together() {
    let job = world("a[each:10000 parallel:1], b[each:9997 parallel:1], c[each:1]", "").job;
    let states = [0, 1, 2].map(|ix| job.step(StepIx(ix)).state.name());
    assert_eq!(states, [StateName::Running, StateName::Running, StateName::Failed]);
    assert_eq!(job.steps.len(), 20_000);
    let told = job.step(StepIx(2)).error.as_ref().expect("it failed").to_string();
    assert_eq!(told, "Step failed: with its 1 items the job would have 20001 steps, more than 20000 (template)");
}

/// The end of a fan-out whose items write so many bytes each, as JSON text.
fn after_outputs_of(bytes: [usize; 2]) -> StateName {
    let mut world = world("a[each:2]", "go a[0]; go a[1]");
    for (item, bytes) in [StepIx(1), StepIx(2)].into_iter().zip(bytes) {
        let report = Report { output: text_of(bytes), ..report("0") };
        world.play(&Event::Ended { ticket: world.ticket(item), report }).expect("it ends");
    }
    world.job.step(StepIx(0)).state.name()
}

/// A text that is so many bytes long with its quotes.
fn text_of(bytes: usize) -> Value {
    Value::from("x".repeat(bytes - 2))
}

#[test]
fn what_the_items_write_has_a_limit_together() {
    let half = 4 * 1024 * 1024;
    assert_eq!(after_outputs_of([half, half]), StateName::Success);
    assert_eq!(after_outputs_of([half, half + 1]), StateName::Failed);
    assert_eq!(after_outputs_of([half * 2 + 2, 2]), StateName::Failed);
}

#[test]
fn an_item_that_was_cancelled_by_hand_cancels_the_step() {
    check(
        "a[each:2 child:x] -> b",
        "child a[0] cancelled; child a[1] ok",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -start-> running; a[1]: pending -start-> running; job: pending -> running; * begin a job for a[0] with "x"; * begin a job for a[1] with "x"
        child a[0] cancelled | a[0]: running -cancel-> cancelled
        child a[1] ok | a[1]: running -succeed-> success; a: running -cancel-> cancelled; b: pending -skip-> skipped; job: running -> cancelled
        = job cancelled (cancelled), a cancelled (cancelled), b skipped, a[0] cancelled (cancelled), a[1] success
    "#]],
    );
    check(
        "a[each:2 child:x]",
        "child a[0] cancelled; child a[1] failed",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -start-> running; a[1]: pending -start-> running; job: pending -> running; * begin a job for a[0] with "x"; * begin a job for a[1] with "x"
        child a[0] cancelled | a[0]: running -cancel-> cancelled
        child a[1] failed | a[1]: running -fail-> failed; a: running -fail-> failed; job: running -> failed
        = job failed (exit_code), a failed (exit_code), a[0] cancelled (cancelled), a[1] failed (exit_code)
    "#]],
    );
}

/// All that a step fetches travels in one message; each item of a list counts.
#[test]
fn a_step_fetches_the_files_of_only_so_many() {
    let fetching = |items: usize| {
        let world = world(
            &format!("a[each:{items} argv:{{bad}}], c -> b, a -failed-> b[if:always() fetch:a fetch:c]"),
            "go c; end c 0",
        );
        let step = world.job.step(world.step_named("b"));
        (step.state.name(), step.error.as_ref().map(ToString::to_string))
    };
    assert_eq!(fetching(FETCHED_MAX - 1), (StateName::Queued, None));
    let told = "Step failed: it fetches the artifacts of 2001 steps, and the most is 2000 (artifacts)";
    assert_eq!(fetching(FETCHED_MAX), (StateName::Failed, Some(told.to_owned())));
}
