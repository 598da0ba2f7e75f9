//! Time in which nobody could be heard counts against nobody.

use expect_test::expect;

use crate::support::script::check;

/// The server was down for an hour: the window goes on where it stood, and those who were not heard may call in first.
#[test]
fn deaf_time_does_not_count() {
    check(
        "a",
        "go a; lost a; pass 100s; deaf 1h 90s; next; pass 89s; check a; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            pass 100s
            deaf 1h 90s
            +0s check a
            +0s check job
            pass 89s
            check a
            +1s check a  | a: unconfirmed; a: recovering -fail-> failed; job: recovering -> failed; a#1 is lost
            = job failed (worker_lost), a failed (worker_lost)
        "#]],
    );
}

/// A worker that comes back in the quiet stretch has lost nothing, though its window is over.
#[test]
fn the_quiet_stretch_is_for_those_who_come_back() {
    check(
        "a",
        "go a; lost a; pass 119s; deaf 1h 90s; pass 60s; check a; back a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        pass 119s
        deaf 1h 90s
        pass 60s
        check a
        back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

/// Nobody could answer: the offer is given its whole time again, and does not count as unanswered.
#[test]
fn an_offer_waits_through_deaf_time() {
    check(
        "a",
        "offer a; pass 9s; deaf 1h 90s; check a; accept a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        pass 9s
        deaf 1h 90s
        check a
        accept a     | a: queued -start-> running; job: pending -> running; a#1 is running; ! go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn nobody_is_unmatched_for_deaf_time() {
    check(
        "a",
        "pass 29s; deaf 1h 90s; unmatched a; pass 60s; unmatched a; pass 30s; unmatched a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        pass 29s
        deaf 1h 90s
        unmatched a  | refused: the step is queued, so there is nothing to fail as unmatched
        pass 60s
        unmatched a  | refused: the step is queued, so there is nothing to fail as unmatched
        pass 30s
        unmatched a  | a: queued -fail-> failed; job: pending -> failed
        = job failed (unmatched), a failed (unmatched)
    "#]],
    );
}

/// A timeout is not silence: it runs on.
#[test]
fn a_timeout_runs_on_through_deaf_time() {
    check(
        "a[timeout:60s]",
        "go a; deaf 1h 90s; check a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        deaf 1h 90s
        check a      | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        = job running, a cancelling
    "#]],
    );
}

/// Nor does deaf time make a cut that a stop waited out into a proof.
#[test]
fn a_cut_in_deaf_time_is_no_ground() {
    check(
        "a[effects:none timeout:10s retry:3 on:timeout grace:1s]",
        "go a; next; lost a; deaf 1h 90s; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            +11s check a | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
            lost a       | a: cancelling -recover-> cancelling
            deaf 1h 90s
            +0s check a  | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
            +0s check job | refused: the job is already failed
            = job failed (step_timeout), a failed (step_timeout)
        "#]],
    );
}
