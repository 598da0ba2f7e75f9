//! Step timeouts, job timeouts, expiry.

use expect_test::expect;

use crate::support::script::check;

#[test]
fn the_server_is_the_second_guard() {
    check(
        "a[timeout:60s]",
        "go a; pass 60s; check a; next; end a timeout",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        pass 60s
        check a
        +1s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        end a timeout | a: cancelling -complete-> failed; job: running -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (step_timeout), a failed (step_timeout)
    "#]],
    );
}

#[test]
fn the_runner_stops_it_first() {
    check(
        "a[timeout:60s retry:2 delay:5s]",
        "go a; pass 60s; end a timeout; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        pass 60s
        end a timeout | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        +5s check a  | a: waiting -timer_done-> queued
        = job running, a queued (step_timeout) after 1 executions
    "#]],
    );
}

/// Nothing proves that the first copy is over, so there is no second one.
#[test]
fn no_answer_to_the_stop_of_a_connected_worker_is_no_ground() {
    check(
        "a[timeout:5s grace:5s retry:3 effects:none]",
        "go a; next; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            +15s check a | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
            = job failed (step_timeout), a failed (step_timeout)
        "#]],
    );
}

#[test]
fn no_answer_and_a_window_over_is_a_ground() {
    check(
        "a[timeout:5s grace:200s retry:3 effects:none]",
        "go a; next; lost a; next; next; go a",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            lost a       | a: cancelling -recover-> cancelling
            +210s check a | a: unconfirmed; a: cancelling -cancel_force-> waiting; a#1 is lost
            +0s check a  | a: waiting -timer_done-> queued
            go a
            = job running, a running
        "#]],
    );
}

#[test]
fn no_answer_and_a_window_over_is_no_ground_for_writes() {
    check(
        "a[timeout:5s grace:200s retry:3]",
        "go a; next; lost a; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            lost a       | a: cancelling -recover-> cancelling
            +210s check a | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
            = job failed (step_timeout), a failed (step_timeout)
        "#]],
    );
}

#[test]
fn a_leased_step_whose_window_is_over_may_follow() {
    check(
        "a[timeout:5s grace:200s retry:3 stop]",
        "go a; next; lost a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        lost a       | a: cancelling -recover-> cancelling
        +210s check a | a: cancelling -cancel_force-> waiting; a#1 is lost, confirmed
        = job running, a waiting (step_timeout) after 1 executions
    "#]],
    );
}

#[test]
fn a_timed_out_step_that_is_gone_is_retried() {
    check(
        "a[timeout:5s retry:2]",
        "go a; next; gone a runner; next; go a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        gone a runner | a: cancelling -complete-> waiting; a#1 is lost, confirmed
        +0s check a  | a: waiting -timer_done-> queued
        go a
        = job running, a running
    "#]],
    );
}

/// The runner keeps the step's time. One that was not stopped by it was in time, however late its word comes.
#[test]
fn a_step_that_its_runner_did_not_stop_ended_in_time() {
    check(
        "a[timeout:5s retry:2 on:failure]",
        "go a; next; end a 1; next; go a; next; end a 0",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            end a 1      | a: cancelling -complete-> waiting; a#1 is ended, confirmed; ! forget a
            +0s check a  | a: waiting -timer_done-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            end a 0      | a: cancelling -complete-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
            = job success, a success
        "#]],
    );
    check(
        "a[timeout:5s]",
        "go a; next; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        end a 0      | a: cancelling -complete-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

/// What ended it before its time was over is still what ended it: its lease, and so a loss.
#[test]
fn a_step_that_its_lease_ended_did_not_time_out() {
    check(
        "a[effects:none timeout:5s retry:2 on:timeout stop]",
        "go a; next; end a lease",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        end a lease  | a: cancelling -complete-> queued; a#1 is ended, confirmed; ! forget a
        = job running, a queued
    "#]],
    );
}

#[test]
fn timeouts_run_on_during_a_cut() {
    check(
        "a[timeout:60s]",
        "go a; lost a; pass 100s; back a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        pass 100s
        back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
        +0s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        = job running, a cancelling
    "#]],
    );
}

#[test]
fn a_long_timeout_is_looked_at_every_hour() {
    check(
        "a[timeout:3h]",
        "go a; next 4",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +3600s check a
        +3600s check job
        +3600s check a
        +3600s check job
        +3600s check a
        +3600s check job
        +1s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        = job running, a cancelling
    "#]],
    );
}

#[test]
fn a_job_timeout_stops_everything() {
    check(
        "a, b[unmatched:wait] -> c, timeout:60s",
        "go a; next; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        +60s check job | job: cancel the job's timeout is over; a: running -cancel_graceful-> cancelling; b: queued -cancel-> cancelled; c: pending -cancel-> cancelled; job: running -> cancelling; ! stop a (Graceful, JobTimeout)
        end a cancelled | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (job_timeout), a cancelled (job_timeout), b cancelled (job_timeout), c cancelled (job_timeout)
    "#]],
    );
}

#[test]
fn a_job_timeout_reaches_a_recovering_step() {
    check(
        "a, timeout:60s",
        "go a; lost a; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            +60s check job | job: cancel the job's timeout is over; a: unconfirmed; a: recovering -cancel_graceful-> cancelled; job: recovering -> cancelled; a#1 is lost
            = job cancelled (job_timeout), a cancelled (job_timeout)
        "#]],
    );
}

#[test]
fn a_job_timeout_counts_from_submit() {
    check(
        "a, timeout:60s",
        "pass 59s; go a; check job; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        pass 59s
        go a
        check job
        +1s check job | job: cancel the job's timeout is over; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, JobTimeout)
        = job cancelling, a cancelling
    "#]],
    );
}

#[test]
fn a_job_that_never_started_expires() {
    check(
        "a -> b[if:always()], c[unmatched:wait] -> d, expires:60s",
        "pass 55s; offer a; next; accept a#1",
        expect![[r#"
            submit       | a: pending -enqueue-> queued; c: pending -enqueue-> queued
            pass 55s
            offer a      | a: offer made; ! offer a
            +5s check job | b: pending -skip-> skipped; d: pending -skip-> skipped; a: queued -fail-> failed; c: queued -fail-> failed; job: pending -> failed; ! withdraw a
            accept a#1   | refused: stale: the step has no such attempt now
            = job failed (expired), a failed (expired), b skipped, c failed (expired), d skipped
        "#]],
    );
}

/// What a step is allowed is to fail, not that nothing was done.
#[test]
fn a_job_whose_steps_may_fail_expires_as_failed() {
    check(
        "a[allow_failure unmatched:wait], expires:60s",
        "next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        +60s check job | a: queued -fail-> failed; job: pending -> failed
        = job failed (expired), a failed (expired)
    "#]],
    );
    check(
        "a[allow_failure unmatched:wait] -> b[child:x], expires:60s",
        "next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        +60s check job | b: pending -skip-> skipped; a: queued -fail-> failed; job: pending -> failed
        = job failed (expired), a failed (expired), b skipped
    "#]],
    );
    check(
        "a[allow_failure approve] -> b, expires:60s",
        "next",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        +60s check job | b: pending -skip-> skipped; a: held -cancel-> cancelled; job: held -> failed
        = job failed (expired), a cancelled (expired), b skipped
    "#]],
    );
}

#[test]
fn a_job_that_started_does_not_expire() {
    check(
        "a, expires:20s",
        "go a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +3600s check a
        +3600s check job
        = job running, a running
    "#]],
    );
}

#[test]
fn a_held_job_expires_as_failed() {
    check(
        "a[approve] -> b, expires:60s",
        "next",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        +60s check job | b: pending -skip-> skipped; a: held -cancel-> cancelled; job: held -> failed
        = job failed (expired), a cancelled (expired), b skipped
    "#]],
    );
}

#[test]
fn a_waiting_job_expires_as_failed() {
    check(
        "a[wait:50m] -> b, expires:60s",
        "next",
        expect![[r#"
        submit       | a: pending -wait-> waiting
        +60s check job | b: pending -skip-> skipped; a: waiting -cancel-> cancelled; job: pending -> failed
        = job failed (expired), a cancelled (expired), b skipped
    "#]],
    );
}

#[test]
fn expiry_leaves_what_is_final() {
    check(
        "a[approve] -> b[unmatched:wait], expires:60s",
        "approve a; next",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: held -approve-> success; b: pending -enqueue-> queued; job: held -> pending
        +60s check job | b: queued -fail-> failed; job: pending -> failed
        = job failed (expired), a success, b failed (expired)
    "#]],
    );
}

#[test]
fn no_answer_and_a_cut_within_the_window_is_no_ground() {
    check(
        "a[timeout:5s grace:5s retry:3 effects:none]",
        "go a; next; lost a; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            lost a       | a: cancelling -recover-> cancelling
            +15s check a | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
            = job failed (step_timeout), a failed (step_timeout)
        "#]],
    );
}

#[test]
fn expiry_waits_for_its_time() {
    check(
        "a[unmatched:wait], expires:60s",
        "pass 59s; check job; pass 1s; check job",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        pass 59s
        check job
        pass 1s
        check job    | a: queued -fail-> failed; job: pending -> failed
        = job failed (expired), a failed (expired)
    "#]],
    );
}

#[test]
fn the_earlier_of_two_limits_counts() {
    check(
        "a[unmatched:wait], timeout:60s, expires:30s",
        "next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        +30s check job | a: queued -fail-> failed; job: pending -> failed
        = job failed (expired), a failed (expired)
    "#]],
    );
}
