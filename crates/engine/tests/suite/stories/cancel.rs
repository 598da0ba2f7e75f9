//! Ending a job on purpose, from every state.

use expect_test::expect;

use crate::support::script::check;

#[test]
fn pending_and_queued_end_at_once() {
    check(
        "a -> b",
        "offer a; cancel; accept a#1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        cancel       | job: cancel asked by ann; a: queued -cancel-> cancelled; b: pending -cancel-> cancelled; job: pending -> cancelled; ! withdraw a
        accept a#1   | refused: stale: the step has no such attempt now
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled)
    "#]],
    );
}

#[test]
fn running_is_told_to_stop() {
    check(
        "a -> b",
        "go a; cancel; cancel; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; b: pending -cancel-> cancelled; job: running -> cancelling; ! stop a (Graceful, Cancel)
        cancel
        end a cancelled | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled)
    "#]],
    );
}

#[test]
fn recovering_ends_at_once_and_stays_unconfirmed() {
    check(
        "a",
        "go a; lost a; cancel; end a 0",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            cancel       | job: cancel asked by ann; a: unconfirmed; a: recovering -cancel_graceful-> cancelled; job: recovering -> cancelled; a#1 is lost
            end a 0      | refused: stale: the step has no such attempt now
            = job cancelled (cancelled), a cancelled (cancelled)
        "#]],
    );
}

#[test]
fn waiting_and_held_end_at_once() {
    check(
        "a[retry:2 delay:5s], b[approve], c[wait:5s]",
        "go a; end a 1; cancel; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -hold-> held; c: pending -wait-> waiting
        go a
        end a 1      | a: running -retry-> waiting; a#1 is ended, confirmed; ! forget a
        cancel       | job: cancel asked by ann; a: waiting -cancel-> cancelled; b: held -cancel-> cancelled; c: waiting -cancel-> cancelled; job: running -> cancelled
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled), c cancelled (cancelled)
    "#]],
    );
}

#[test]
fn force_hardens_a_graceful_stop() {
    check(
        "a",
        "go a; cancel; pass 1s; force; force; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
            pass 1s
            force        | job: cancel asked by ann, by force; ! stop a (Kill, Cancel)
            force
            +10s check a | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
            = job cancelled (cancelled), a cancelled (cancelled)
        "#]],
    );
}

#[test]
fn force_kills_at_once() {
    check(
        "a[grace:1h]",
        "go a; force; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            force        | job: cancel asked by ann, by force; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Kill, Cancel)
            +10s check a | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
            = job cancelled (cancelled), a cancelled (cancelled)
        "#]],
    );
}

#[test]
fn no_answer_is_decided_by_the_deadline() {
    check(
        "a[grace:5s] -> b",
        "go a; cancel; pass 14s; check a; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; b: pending -cancel-> cancelled; job: running -> cancelling; ! stop a (Graceful, Cancel)
            pass 14s
            check a
            +1s check a  | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
            = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled)
        "#]],
    );
}

#[test]
fn a_child_that_ends_by_itself_in_the_race_is_cancelled() {
    check(
        "a",
        "go a; cancel; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        end a 0      | a: cancelling -succeed-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_child_that_fails_by_itself_in_the_race_is_cancelled() {
    check(
        "a[retry:3]",
        "go a; cancel; end a 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        end a 1      | a: cancelling -fail-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_stop_survives_a_cut() {
    check(
        "a",
        "go a; cancel; lost a; lost a; back a; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        lost a       | a: cancelling -recover-> cancelling
        lost a       | refused: the step is cancelling, so there is nothing to recover
        back a       | a#1 is running; ! stop a (Graceful, Cancel)
        end a cancelled | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_cut_during_a_stop_does_not_move_its_deadline() {
    check(
        "a[grace:5s effects:none]",
        "go a; cancel; pass 1s; lost a; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
            pass 1s
            lost a       | a: cancelling -recover-> cancelling
            +14s check a | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
            = job cancelled (cancelled), a cancelled (cancelled)
        "#]],
    );
}

#[test]
fn a_runner_gone_during_a_stop_is_cancelled() {
    check(
        "a[effects:none]",
        "go a; cancel; gone a runner",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        gone a runner | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is lost, confirmed
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn void_during_a_stop_is_cancelled() {
    check(
        "a[effects:none]",
        "go a; cancel; gone a void",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        gone a void  | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is lost, confirmed
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}

#[test]
fn always_gets_its_say_after_a_cancel() {
    check(
        "a -> b[if:always()] -> c",
        "go a; cancel; end a cancelled; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; c: pending -cancel-> cancelled; job: running -> cancelling; ! stop a (Graceful, Cancel)
        end a cancelled | a: cancelling -complete-> cancelled; b: pending -enqueue-> queued; a#1 is ended, confirmed; ! forget a
        go b
        end b 0      | b: running -succeed-> success; job: cancelling -> cancelled; b#1 is ended, confirmed; ! forget b
        = job cancelled (cancelled), a cancelled (cancelled), b success, c cancelled (cancelled)
    "#]],
    );
}

#[test]
fn always_also_after_a_queued_need() {
    check(
        "a -> b[if:cancelled()]",
        "cancel; go b; end b 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        cancel       | job: cancel asked by ann; a: queued -cancel-> cancelled; b: pending -enqueue-> queued; job: pending -> cancelling
        go b
        end b 0      | b: running -succeed-> success; job: cancelling -> cancelled; b#1 is ended, confirmed; ! forget b
        = job cancelled (cancelled), a cancelled (cancelled), b success
    "#]],
    );
}

/// The need is met, for its failure is allowed; but the job is being cancelled.
#[test]
fn success_means_nothing_was_cancelled() {
    check(
        "a[allow_failure timeout:5s grace:0s] -> b[if:success()]",
        "go a; next; cancel; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            cancel       | job: cancel asked by ann; job: running -> cancelling
            +10s check a | a: unconfirmed; a: cancelling -cancel_force-> failed; b: pending -cancel-> cancelled; job: cancelling -> cancelled; a#1 is lost
            = job cancelled (cancelled), a failed (step_timeout), b cancelled (cancelled)
        "#]],
    );
}

#[test]
fn force_leaves_no_always() {
    check(
        "a -> b[if:always()]",
        "go a; force; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        force        | job: cancel asked by ann, by force; a: running -cancel_graceful-> cancelling; b: pending -cancel-> cancelled; job: running -> cancelling; ! stop a (Kill, Cancel)
        end a cancelled | a: cancelling -complete-> cancelled; job: cancelling -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled)
    "#]],
    );
}

#[test]
fn force_after_a_graceful_cancel_ends_always_too() {
    check(
        "a -> b[if:always()], b -> c[if:always()]",
        "cancel; go b; force; end b cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        cancel       | job: cancel asked by ann; a: queued -cancel-> cancelled; b: pending -enqueue-> queued; job: pending -> cancelling
        go b
        force        | job: cancel asked by ann, by force; b: running -cancel_graceful-> cancelling; c: pending -cancel-> cancelled; ! stop b (Kill, Cancel)
        end b cancelled | b: cancelling -complete-> cancelled; job: cancelling -> cancelled; b#1 is ended, confirmed; ! forget b
        = job cancelled (cancelled), a cancelled (cancelled), b cancelled (cancelled), c cancelled (cancelled)
    "#]],
    );
}

#[test]
fn a_cleanup_that_never_started_is_handed_over_again() {
    check(
        "a -> b[if:always()]",
        "cancel; go b; gone b void; next; go b; end b 0",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            cancel       | job: cancel asked by ann; a: queued -cancel-> cancelled; b: pending -enqueue-> queued; job: pending -> cancelling
            go b
            gone b void  | b: running -requeue-> queued; b#1 is lost, confirmed
            +1s check b
            go b
            end b 0      | b: running -succeed-> success; job: cancelling -> cancelled; b#2 is ended, confirmed; ! forget b
            = job cancelled (cancelled), a cancelled (cancelled), b success
        "#]],
    );
}

#[test]
fn a_final_job_cannot_be_cancelled() {
    check(
        "a",
        "go a; end a 0; cancel; force",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        cancel       | refused: the job is already success
        force        | refused: the job is already success
        = job success, a success
    "#]],
    );
}

#[test]
fn what_was_final_stays() {
    check(
        "a, b -> c",
        "go a; end a 1; go b; cancel; end b cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        end a 1      | a: running -fail-> failed; a#1 is ended, confirmed; ! forget a
        go b
        cancel       | job: cancel asked by ann; b: running -cancel_graceful-> cancelling; c: pending -cancel-> cancelled; job: running -> cancelling; ! stop b (Graceful, Cancel)
        end b cancelled | b: cancelling -complete-> cancelled; job: cancelling -> cancelled; b#1 is ended, confirmed; ! forget b
        = job cancelled (cancelled), a failed (exit_code), b cancelled (cancelled), c cancelled (cancelled)
    "#]],
    );
}

#[test]
fn no_retry_after_a_cancel() {
    check(
        "a[retry:3 timeout:5s grace:0s]",
        "go a; next; cancel; end a timeout",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +6s check a  | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        cancel       | job: cancel asked by ann; job: running -> cancelling
        end a timeout | a: cancelling -complete-> failed; job: cancelling -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (step_timeout), a failed (step_timeout)
    "#]],
    );
}

#[test]
fn a_report_of_a_cancel_that_nobody_ordered() {
    check(
        "a -> b",
        "go a; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        end a cancelled | a: running -cancel-> cancelled; b: pending -skip-> skipped; job: running -> cancelled; a#1 is ended, confirmed; ! forget a
        = job cancelled (cancelled), a cancelled (cancelled), b skipped
    "#]],
    );
}

#[test]
fn the_same_report_after_a_cut() {
    check(
        "a -> b",
        "go a; lost a; end a cancelled",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        end a cancelled | a: recovering -fail-> failed; b: pending -skip-> skipped; job: recovering -> failed; a#1 is ended, confirmed; ! forget a
        = job failed (cancelled), a failed (cancelled), b skipped
    "#]],
    );
}

/// A job that is asked to end does not start to try again.
#[test]
fn a_cleanup_after_a_cancel_gets_one_try() {
    check(
        "a -> b[if:always() retry:3]",
        "cancel; go b; end b 1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        cancel       | job: cancel asked by ann; a: queued -cancel-> cancelled; b: pending -enqueue-> queued; job: pending -> cancelling
        go b
        end b 1      | b: running -fail-> failed; job: cancelling -> cancelled; b#1 is ended, confirmed; ! forget b
        = job cancelled (cancelled), a cancelled (cancelled), b failed (exit_code)
    "#]],
    );
}

#[test]
fn a_cleanup_after_a_cancel_is_not_repeated_by_effects() {
    check(
        "a -> b[if:always() effects:none]",
        "cancel; go b; gone b runner",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        cancel       | job: cancel asked by ann; a: queued -cancel-> cancelled; b: pending -enqueue-> queued; job: pending -> cancelling
        go b
        gone b runner | b: running -fail-> failed; job: cancelling -> cancelled; b#1 is lost, confirmed
        = job cancelled (cancelled), a cancelled (cancelled), b failed (runner_lost)
    "#]],
    );
}

#[test]
fn a_stop_survives_two_cuts() {
    check(
        "a",
        "go a; cancel; lost a; back a; lost a; back a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        lost a       | a: cancelling -recover-> cancelling
        back a       | a#1 is running; ! stop a (Graceful, Cancel)
        lost a       | a: cancelling -recover-> cancelling
        back a       | a#1 is running; ! stop a (Graceful, Cancel)
        = job cancelling, a cancelling
    "#]],
    );
}

#[test]
fn force_hardens_the_stop_of_a_job_timeout() {
    check(
        "a, timeout:60s",
        "go a; next; force",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +60s check job | job: cancel the job's timeout is over; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, JobTimeout)
        force        | job: cancel asked by ann, by force; ! stop a (Kill, JobTimeout)
        = job cancelling, a cancelling
    "#]],
    );
}
