//! How often a step may run: by policy, by effects, by offers.

use expect_test::expect;

use crate::support::script::check;

#[test]
fn attempts_counts_executions() {
    check(
        "a[retry:3 delay:5s]",
        "go a; end a 1; next; go a; end a 1; next; go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        +5s check a  | a: waiting -timer_done-> queued
        go a
        end a 1      | a: running -retry-> waiting; a#2 is ended, confirmed; ! forget a
        +5s check a  | a: waiting -timer_done-> queued
        go a
        end a 1      | a: running -fail-> failed; job: running -> failed; a#3 is ended, confirmed; ! forget a
        = job failed (exit_code), a failed (exit_code)
    "#]],
    );
}

#[test]
fn success_ends_the_retries() {
    check(
        "a[retry:3]",
        "go a; end a 1; next; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn a_timer_before_its_time_does_nothing() {
    check(
        "a[retry:2 delay:5s]",
        "go a; end a 1; pass 4s; check a; offer a; pass 1s; check a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        pass 4s
        check a
        offer a      | refused: the step is waiting, so there is nothing to offer
        pass 1s
        check a      | a: waiting -timer_done-> queued
        = job running, a queued (exit_code) after 1 executions
    "#]],
    );
}

#[test]
fn losses_have_a_budget_of_their_own() {
    check(
        "a[effects:none retry:2]",
        "go a; gone a runner; go a; gone a runner; go a; end a 1; next; go a; gone a runner",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            gone a runner | a: running -requeue-> queued; a#1 is lost, confirmed
            go a
            gone a runner | a: running -requeue-> queued; a#2 is lost, confirmed
            go a
            end a 1      | a: running -retry-> waiting; a#3 is ended, confirmed; ! forget a
            +0s check a  | a: waiting -timer_done-> queued
            go a
            gone a runner | a: running -requeue-> queued; a#4 is lost, confirmed
            = job running, a queued after 1 executions
        "#]],
    );
}

#[test]
fn a_policy_that_names_losses_wins_over_effects() {
    check(
        "a[effects:none retry:2 on:worker_lost]",
        "go a; gone a runner; next; go a; gone a runner",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        gone a runner | a: running -retry-> waiting; a#1 is lost, confirmed
        +0s check a  | a: waiting -timer_done-> queued
        go a
        gone a runner | a: running -fail-> failed; job: running -> failed; a#2 is lost, confirmed
        = job failed (runner_lost), a failed (runner_lost)
    "#]],
    );
}

#[test]
fn a_policy_that_names_only_losses_retries_no_failure() {
    check(
        "a[stop retry:3 on:worker_lost]",
        "go a; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (exit_code), a failed (exit_code)
    "#]],
    );
}

#[test]
fn what_counts_as_failure() {
    check(
        "a[retry:9]",
        "go a; end a signal; next; go a; end a oom; next; go a; end a spawn; next; go a; end a badout; next; go a; end a timeout",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a signal | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a oom    | a: running -retry-> waiting; a#2 is ended, confirmed; ! forget a
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a spawn  | a: running -retry-> waiting; a#3 is ended, confirmed; ! forget a
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a badout | a: running -retry-> waiting; a#4 is ended, confirmed; ! forget a
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a timeout | a: running -retry-> waiting; a#5 is ended, confirmed; ! forget a
        = job running, a waiting (step_timeout) after 5 executions
    "#]],
    );
}

#[test]
fn bad_output_is_a_failure_although_it_ended_well() {
    check(
        "a -> b",
        "go a; end a badout",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a badout | a: running -fail-> failed; b: pending -skip-> skipped; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (bad_output), a failed (bad_output), b skipped
    "#]],
    );
}

#[test]
fn a_timeout_is_no_failure_for_the_policy() {
    check(
        "a[retry:2 on:timeout], b[retry:2 on:failure]",
        "go a; go b; end a timeout; end b timeout",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        go b
        end a timeout | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        end b timeout | b: running -fail-> failed; b#1 is ended, confirmed; ! forget b
        = job running, a waiting (step_timeout) after 1 executions, b failed (step_timeout)
    "#]],
    );
}

#[test]
fn losses_are_counted_in_a_row() {
    check(
        "a[effects:none retry:3]",
        "go a; gone a runner; go a; gone a runner; go a; end a 1; next; go a; gone a runner; go a; gone a runner; go a; end a 0",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            gone a runner | a: running -requeue-> queued; a#1 is lost, confirmed
            go a
            gone a runner | a: running -requeue-> queued; a#2 is lost, confirmed
            go a
            end a 1      | a: running -retry-> waiting; a#3 is ended, confirmed; ! forget a
            +0s check a  | a: waiting -timer_done-> queued
            go a
            gone a runner | a: running -requeue-> queued; a#4 is lost, confirmed
            go a
            gone a runner | a: running -requeue-> queued; a#5 is lost, confirmed
            go a
            end a 0      | a: running -succeed-> success; job: running -> success; a#6 is ended, confirmed; ! forget a
            = job success, a success
        "#]],
    );
}

#[test]
fn a_timeout_breaks_a_row_of_losses() {
    check(
        "a[effects:none retry:3 on:timeout timeout:10s]",
        "go a; gone a runner; go a; gone a runner; go a; next; end a timeout; next; go a; gone a runner",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            gone a runner | a: running -requeue-> queued; a#1 is lost, confirmed
            go a
            gone a runner | a: running -requeue-> queued; a#2 is lost, confirmed
            go a
            +11s check a | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            end a timeout | a: cancelling -complete-> waiting; a#3 is ended, confirmed; ! forget a
            +0s check a  | a: waiting -timer_done-> queued
            go a
            gone a runner | a: running -requeue-> queued; a#4 is lost, confirmed
            = job running, a queued after 1 executions
        "#]],
    );
}
