//! Links that break, workers that come back or do not, and attempts that are gone.

use expect_test::expect;

use crate::support::script::check;

#[test]
fn a_cut_and_a_return() {
    check(
        "a",
        "go a; lost a; pass 30s; back a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        pass 30s
        back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn a_step_that_ends_during_the_cut() {
    check(
        "a",
        "go a; lost a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        end a 0      | a: recovering -succeed-> success; job: recovering -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn a_step_that_fails_during_the_cut_is_retried() {
    check(
        "a[retry:2 delay:5s]",
        "go a; lost a; end a 1; next; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        end a 1      | a: recovering -retry-> waiting; job: recovering -> running; a#1 is ended, confirmed; ! forget a
        +5s check a  | a: waiting -timer_done-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn the_old_sockets_close_comes_after_the_new_hello() {
    check(
        "a",
        "go a; back a; lost a @1; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        back a       | a#1 is running
        lost a @1    | refused: stale: it was seen on an earlier link
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

/// The new link was lost as well; the word of its hello comes again.
#[test]
fn an_old_hello_cannot_bring_back_what_moved_on() {
    check(
        "a",
        "go a; back a; lost a; back a @2; back a @1; back a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        back a       | a#1 is running
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        back a @2    | refused: stale: it was seen on an earlier link
        back a @1    | refused: stale: it was seen on an earlier link
        back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn an_old_hello_during_a_stop() {
    check(
        "a",
        "go a; cancel; lost a; back a @1; back a; lost a @1; lost a @2",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
            lost a       | a: cancelling -recover-> cancelling
            back a @1    | refused: stale: it was seen on an earlier link
            back a       | a#1 is running; ! stop a (Graceful, Cancel)
            lost a @1    | refused: stale: it was seen on an earlier link
            lost a @2    | a: cancelling -recover-> cancelling
            = job cancelling, a cancelling
        "#]],
    );
}

#[test]
fn the_window_decides_writes() {
    check(
        "a -> b",
        "go a; lost a; pass 119s; check a; next; back a",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            pass 119s
            check a
            +1s check a  | a: unconfirmed; a: recovering -fail-> failed; b: pending -skip-> skipped; job: recovering -> failed; a#1 is lost
            back a       | refused: stale: the step has no such attempt now
            = job failed (worker_lost), a failed (worker_lost), b skipped
        "#]],
    );
}

#[test]
fn the_window_decides_none() {
    check(
        "a[effects:none]",
        "go a; lost a; next; back a#1; end a#1 0; go a; end a 0",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            +120s check a | a: unconfirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost
            back a#1     | refused: stale: the step has no such attempt now
            end a#1 0    | refused: stale: the step has no such attempt now
            go a
            end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
            = job success, a success
        "#]],
    );
}

#[test]
fn the_window_decides_a_lease() {
    check(
        "a[stop retry:2 on:worker_lost]",
        "go a; lost a; next; next; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        +120s check a | a: recovering -retry-> waiting; job: recovering -> running; a#1 is lost, confirmed
        +0s check a  | a: waiting -timer_done-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn worker_lost_without_a_lease_is_no_ground_for_writes() {
    check(
        "a[retry:3 on:worker_lost]",
        "go a; lost a; next",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            +120s check a | a: unconfirmed; a: recovering -fail-> failed; job: recovering -> failed; a#1 is lost
            = job failed (worker_lost), a failed (worker_lost)
        "#]],
    );
}

#[test]
fn a_lease_alone_repeats_nothing() {
    check(
        "a[stop]",
        "go a; lost a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        +120s check a | a: recovering -fail-> failed; job: recovering -> failed; a#1 is lost, confirmed
        = job failed (worker_lost), a failed (worker_lost)
    "#]],
    );
}

#[test]
fn the_lease_reports_its_own_end() {
    check(
        "a[stop effects:idempotent]",
        "go a; lost a; end a lease",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        end a lease  | a: recovering -requeue-> queued; job: recovering -> running; a#1 is ended, confirmed; ! forget a
        = job running, a queued
    "#]],
    );
}

#[test]
fn certain_losses_are_decided_at_once() {
    check(
        "a[effects:none]",
        "go a; gone a runner; go a; lost a; gone a reboot; go a; gone a torn",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        gone a runner | a: running -requeue-> queued; a#1 is lost, confirmed
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#2 is recovering
        gone a reboot | a: recovering -requeue-> queued; job: recovering -> running; a#2 is lost, confirmed
        go a
        gone a torn  | a: running -fail-> failed; job: running -> failed; a#3 is lost, confirmed
        = job failed (poison), a failed (poison)
    "#]],
    );
}

#[test]
fn certain_loss_of_writes_fails() {
    check(
        "a",
        "go a; gone a missing",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        gone a missing | a: running -fail-> failed; job: running -> failed; a#1 is lost, confirmed
        = job failed (runner_lost), a failed (runner_lost)
    "#]],
    );
}

#[test]
fn a_loss_seen_on_an_old_link_is_stale() {
    check(
        "a[effects:none]",
        "go a; back a; gone a missing @1; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        back a       | a#1 is running
        gone a missing @1 | refused: stale: it was seen on an earlier link
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

/// The hello that does not name the attempt came on a link that the attempt never was on.
#[test]
fn a_loss_seen_on_a_newer_link_is_true() {
    check(
        "a[effects:none]",
        "go a; lost a; gone a missing @7",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        gone a missing @7 | a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost, confirmed
        = job running, a queued
    "#]],
    );
}

#[test]
fn void_spends_nothing() {
    check(
        "a[retry:1]",
        "go a; gone a void; go a; lost a; gone a void; go a; end a 1",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            gone a void  | a: running -requeue-> queued; a#1 is lost, confirmed
            go a         | refused: the step is queued, so there is nothing to offer
            lost a       | refused: stale: the step has no such attempt now
            gone a void  | refused: stale: the step has no such attempt now
            go a         | refused: the step is queued, so there is nothing to offer
            end a 1      | refused: stale: the step has no such attempt now
            = job running, a queued
        "#]],
    );
}

/// Its disk was put back: it ran, so effects decide.
#[test]
fn a_start_that_only_its_worker_forgot_is_a_loss() {
    check(
        "a",
        "go a; gone a forgotten",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            gone a forgotten | a: running -fail-> failed; job: running -> failed; a#1 is lost, confirmed
            = job failed (runner_lost), a failed (runner_lost)
        "#]],
    );
    check(
        "a[effects:none]",
        "go a; gone a forgotten",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            gone a forgotten | a: running -requeue-> queued; a#1 is lost, confirmed
            = job running, a queued
        "#]],
    );
}

#[test]
fn a_second_cut_gets_a_window_of_its_own() {
    check(
        "a[effects:none]",
        "go a; lost a; pass 100s; back a; lost a; pass 100s; check a; pass 20s; check a",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            pass 100s
            back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
            lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
            pass 100s
            check a
            pass 20s
            check a      | a: unconfirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost
            = job running, a queued
        "#]],
    );
}

#[test]
fn a_cut_of_a_step_that_is_not_running() {
    check(
        "a -> b",
        "lost a; offer a; lost a; back a; gone a void",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        lost a       | refused: stale: the step has no such attempt now
        offer a      | a: offer made; ! offer a
        lost a       | refused: the step is queued, so there is nothing to recover
        back a       | refused: the step is queued, so there is nothing to continue
        gone a void  | refused: the step is queued, so there is nothing to give up
        = job pending, a queued, b pending
    "#]],
    );
}

#[test]
fn a_worker_told_to_end_its_steps() {
    check(
        "a[effects:none], b",
        "go a; go b; end a worker; end b worker",
        expect![[r#"
        submit       | a: pending -enqueue-> queued; b: pending -enqueue-> queued
        go a
        go b
        end a worker | a: running -requeue-> queued; a#1 is ended, confirmed; ! forget a
        end b worker | b: running -fail-> failed; b#1 is ended, confirmed; ! forget b
        = job running, a queued, b failed (worker_lost)
    "#]],
    );
}

#[test]
fn a_loss_of_a_link_that_the_attempt_is_not_on() {
    check(
        "a",
        "go a; lost a @9; lost a @0; lost a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a @9    | refused: stale: it was seen on an earlier link
        lost a @0    | refused: stale: it was seen on an earlier link
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        = job recovering, a recovering
    "#]],
    );
}

#[test]
fn void_is_no_execution() {
    check(
        "a[retry:2]",
        "go a; gone a void; go a; end a 1; next; go a; end a 1",
        expect![[r#"
            submit       | a: pending -enqueue-> queued
            go a
            gone a void  | a: running -requeue-> queued; a#1 is lost, confirmed
            go a         | refused: the step is queued, so there is nothing to offer
            end a 1      | refused: stale: the step has no such attempt now
            +1s check a
            go a
            end a 1      | a: running -retry-> waiting; a#2 is ended, confirmed; ! forget a
            = job running, a waiting (exit_code) after 1 executions
        "#]],
    );
}
