//! The database was put back to an earlier state: what may have run since waits for a person, or for a worker's word.

use expect_test::expect;

use engine::{StateName, StepIx};

use crate::support::script::{check, world};

#[test]
fn what_was_to_run_waits_for_a_person() {
    check(
        "a, b[effects:none], c[effects:idempotent]",
        "offer a; restored; approve a; go a; end a 0; restored",
        expect![[r#"
            submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued; c: pending -enqueue-> queued
            offer a      | a: offer made; ! offer a
            restored     | job: restored; a: queued -hold-> held; c: queued -hold-> held; ! withdraw a
            approve a    | a: held -approve-> queued
            go a
            end a 0      | a: running -succeed-> success; a#1 is ended, confirmed; ! forget a
            restored     | refused: the job was told before that the database was restored
            = job running, a success, b queued, c held
        "#]],
    );
    check(
        "a",
        "restored; reject a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        restored     | job: restored; a: queued -hold-> held; job: pending -> held
        reject a     | a: held -reject-> cancelled; job: held -> cancelled
        = job cancelled (rejected), a cancelled (rejected)
    "#]],
    );
    check(
        "a[reviewers:2]",
        "approve a; restored; approve a",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: approved by ann (1 of 2)
        restored     | job: restored; a: held -hold-> held
        approve a    | a: approved by ann (1 of 2)
        = job held, a held
    "#]],
    );
}

/// Which of them ran is not on record, so each is asked about when its turn comes.
#[test]
fn what_comes_later_is_asked_about_then() {
    check(
        "a -> b -> c[effects:none]",
        "go a; restored; back a; end a 0; approve b; go b; end b 0",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
            back a       | a: held -start-> running; job: held -> running; a#1 is running
            end a 0      | a: running -succeed-> success; b: pending -hold-> held; job: running -> held; a#1 is ended, confirmed; ! forget a
            approve b    | b: held -approve-> queued; job: held -> running
            go b
            end b 0      | b: running -succeed-> success; c: pending -enqueue-> queued; b#1 is ended, confirmed; ! forget b
            = job running, a success, b success, c queued
        "#]],
    );
    check(
        "a[effects:none] -> b[child]",
        "restored; go a; end a 0; approve b",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        restored     | job: restored
        go a
        end a 0      | a: running -succeed-> success; b: pending -hold-> held; job: running -> held; a#1 is ended, confirmed; ! forget a
        approve b    | b: held -approve-> queued; b: queued -start-> running; job: held -> running; * begin a job for b with ""
        = job running, a success, b running
    "#]],
    );
    check(
        "a[each:2 parallel:1]",
        "restored; approve a[1]; approve a[0]; go a[0]; end a[0] 0",
        expect![[r#"
        submit       | a: pending -start-> running; a[0]: pending -enqueue-> queued
        restored     | job: restored; a[0]: queued -hold-> held; job: pending -> held
        approve a[1] | refused: the step is pending, so there is nothing to approve
        approve a[0] | a[0]: held -approve-> queued; job: held -> pending
        go a[0]
        end a[0] 0   | a[0]: running -succeed-> success; a[1]: pending -hold-> held; job: running -> held; a[0]#1 is ended, confirmed; ! forget a[0]
        = job held, a running, a[0] success, a[1] held
    "#]],
    );
    check(
        "a[effects:none] -> b[each:2]",
        "restored; go a; end a 0; approve b",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        restored     | job: restored
        go a
        end a 0      | a: running -succeed-> success; b: pending -hold-> held; job: running -> held; a#1 is ended, confirmed; ! forget a
        approve b    | b: held -approve-> queued; b: queued -start-> running; b[0]: pending -enqueue-> queued; b[1]: pending -enqueue-> queued; job: held -> running
        = job running, a success, b running, b[0] queued, b[1] queued
    "#]],
    );
    check(
        "a[wait:5s]",
        "restored; next; approve a",
        expect![[r#"
        submit       | a: pending -wait-> waiting
        restored     | job: restored
        +5s check a  | a: waiting -hold-> held; job: pending -> held
        approve a    | a: held -approve-> queued; job: held -> pending
        = job pending, a queued
    "#]],
    );
    check(
        "a[approve]",
        "restored; approve a",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        restored     | job: restored
        approve a    | a: held -approve-> success; job: held -> success
        = job success, a success
    "#]],
    );
}

/// By the record it is under way: its worker's word settles it, and nothing follows on it before that, or before a person's.
#[test]
fn what_ran_is_taken_up_where_its_worker_has_it() {
    check(
        "a",
        "go a; restored; back a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        back a       | a: held -start-> running; job: held -> running; a#1 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a",
        "go a; lost a; restored; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        restored     | job: restored; a: recovering -hold-> held; job: recovering -> held; a#1 is recovering
        end a 1      | a: held -fail-> failed; job: held -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (exit_code), a failed (exit_code)
    "#]],
    );
    check(
        "a",
        "go a; restored; gone a missing; approve a; go a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        gone a missing | a: held -hold-> held; a#1 is lost, confirmed
        approve a    | a: held -approve-> queued; job: held -> running
        go a
        = job running, a running
    "#]],
    );
    check(
        "a",
        "go a; restored; gone a void; approve a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        gone a void  | a: held -hold-> held; a#1 is lost, confirmed
        approve a    | a: held -approve-> queued; job: held -> running
        = job running, a queued
    "#]],
    );
    check(
        "a",
        "go a; restored; adopt a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        adopt a      | a: unconfirmed; a: held -approve-> queued; a: queued -start-> running; job: held -> running; a#1 is lost; a#2 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn nobody_starts_another_beside_what_may_still_run() {
    check(
        "a",
        "go a; restored; approve a; resolve a rerun; resolve a rerun dead; go a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        approve a    | refused: an attempt before it may still run
        resolve a rerun | refused: an attempt before it may still run
        resolve a rerun dead | a: confirmed; a: held -approve-> queued; job: held -> running; a#1 is lost, confirmed
        go a
        = job running, a running
    "#]],
    );
    check(
        "a",
        "go a; restored; cancel",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        cancel       | job: cancel asked by ann; a: unconfirmed; a: held -cancel-> cancelled; job: held -> cancelled; a#1 is lost
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
    check(
        "a",
        "go a; restored; reject a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        reject a     | a: unconfirmed; a: held -reject-> cancelled; job: held -> cancelled; a#1 is lost
        = job cancelled (rejected), a cancelled (rejected)
    "#]],
    );
    check(
        "a[reviewers:1 hold:5s]",
        "approve a; go a; restored; next",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: held -approve-> queued; job: held -> pending
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        +5s check a  | a: unconfirmed; a: held -expire-> cancelled; job: held -> cancelled; a#1 is lost
        = job cancelled (hold_expired), a cancelled (hold_expired)
    "#]],
    );
}

#[test]
fn whoever_knows_what_became_of_it_says_so() {
    check(
        "a -> b[effects:none]",
        "restored; resolve a succeeded",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        restored     | job: restored; a: queued -hold-> held; job: pending -> held
        resolve a succeeded | a: held -succeed-> success; b: pending -enqueue-> queued; job: held -> pending
        = job pending, a success, b queued
    "#]],
    );
    check(
        "a",
        "go a; restored; resolve a failed",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        resolve a failed | a: unconfirmed; a: held -fail-> failed; job: held -> failed; a#1 is lost
        = job failed (resolved), a failed (resolved)
    "#]],
    );
    check(
        "a[approve]",
        "resolve a succeeded",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        resolve a succeeded | refused: the step is held, so there is nothing to resolve
        = job held, a held
    "#]],
    );
}

/// The next attempt may have run as well.
#[test]
fn nothing_is_tried_again_without_a_person() {
    check(
        "a[retry:3 delay:5s]",
        "go a; restored; back a; end a 1; approve a; go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        back a       | a: held -start-> running; job: held -> running; a#1 is running
        end a 1      | a: running -hold-> held; job: running -> held; a#1 is ended, confirmed; ! forget a
        approve a    | a: held -approve-> queued; job: held -> running
        go a
        end a 1      | a: running -retry-> waiting; a#2 is ended, confirmed; ! forget a
        = job running, a waiting (exit_code) after 2 executions
    "#]],
    );
    check(
        "a[retry:3 delay:5s]",
        "go a; end a 1; restored; approve a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        restored     | job: restored; a: waiting -hold-> held; job: running -> held
        approve a    | a: held -approve-> queued; job: held -> running
        = job running, a queued (exit_code) after 1 executions
    "#]],
    );
    check(
        "a[effects:idempotent]",
        "go a; restored; back a; lost a; next 3",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        back a       | a: held -start-> running; job: held -> running; a#1 is running
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        +120s check a | a: unconfirmed; a: recovering -hold-> held; job: recovering -> held; a#1 is lost
        +3600s check a
        +3600s check job
        +3600s check a
        +3600s check job
        = job held, a held (worker_lost)
    "#]],
    );
    check(
        "a",
        "go a; restored; back a; lost a; next 3",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
        back a       | a: held -start-> running; job: held -> running; a#1 is running
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        +120s check a | a: unconfirmed; a: recovering -fail-> failed; job: recovering -> failed; a#1 is lost
        = job failed (worker_lost), a failed (worker_lost)
    "#]],
    );
    check(
        "a[timeout:5s retry:2 on:timeout]",
        "go a; restored; back a; pass 10s; check a; end a timeout",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            restored     | job: restored; a: running -hold-> held; job: running -> held; a#1 is recovering
            back a       | a: held -start-> running; job: held -> running; a#1 is running
            pass 10s
            check a      | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            end a timeout | a: cancelling -hold-> held; job: running -> held; a#1 is ended, confirmed; ! forget a
            = job held, a held (step_timeout)
        "#]],
    );
}

/// Only what ends by itself is an execution of the policy.
#[test]
fn what_a_person_makes_of_a_loss_spends_no_execution() {
    for story in [
        "go a; restored; resolve a rerun dead; go a; end a 1",
        "go a; restored; back a; lost a; next; resolve a rerun dead; go a; end a 1",
    ] {
        let world = world("a[effects:idempotent retry:2 delay:5s]", story);
        assert_eq!(world.job.step(StepIx(0)).executions, 1, "{story}");
        assert_eq!(world.job.state(StepIx(0)).name(), StateName::Waiting, "{story}");
    }
}
