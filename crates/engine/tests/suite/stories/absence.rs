//! Workers that will not come back, and losses that may be our own fault.

use expect_test::expect;

use crate::support::script::check;

#[test]
fn who_said_that_it_will_not_come_back_is_not_waited_for() {
    check(
        "a",
        "go a; leave a; back a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        leave a      | a: unconfirmed; a: running -fail-> failed; job: running -> failed; a#1 is lost
        back a       | refused: stale: the step has no such attempt now
        = job failed (worker_lost), a failed (worker_lost)
    "#]],
    );
    check(
        "a[effects:idempotent]",
        "go a; leave a; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        leave a      | a: unconfirmed; a: running -requeue-> queued; a#1 is lost
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a[effects:none retry:2 on:worker_lost]",
        "go a; leave a; next; go a; leave a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        leave a      | a: unconfirmed; a: running -retry-> waiting; a#1 is lost
        +0s check a  | a: waiting -timer_done-> queued
        go a
        leave a      | a: unconfirmed; a: running -fail-> failed; job: running -> failed; a#2 is lost
        = job failed (worker_lost), a failed (worker_lost)
    "#]],
    );
}

#[test]
fn what_is_bound_by_a_lease_gets_its_window_all_the_same() {
    check(
        "a[stop effects:none]",
        "go a; leave a; leave a; next; go a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        leave a      | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        leave a      | refused: the step is recovering, so there is nothing to give up
        +120s check a | a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost, confirmed
        go a
        = job running, a running
    "#]],
    );
}

#[test]
fn the_scalers_word_decides_within_the_window() {
    check(
        "a[effects:none]",
        "go a; lost a; pass 10s; scaled a; go a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        pass 10s
        scaled a     | a: unconfirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost
        go a
        = job running, a running
    "#]],
    );
    check(
        "a",
        "go a; lost a; back a; scaled a @1",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
        scaled a @1  | refused: stale: it was seen on an earlier link
        = job running, a running
    "#]],
    );
}

#[test]
fn a_window_is_made_longer_once_per_loss() {
    check(
        "a",
        "go a; more a; lost a; more a; more a; pass 120s; check a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        more a       | refused: the step is running, so there is nothing to give more time
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        more a       | a: moretime
        more a       | refused: the step is recovering, so there is nothing to give more time
        pass 120s
        check a
        +120s check a | a: unconfirmed; a: recovering -fail-> failed; job: recovering -> failed; a#1 is lost
        = job failed (worker_lost), a failed (worker_lost)
    "#]],
    );
    check(
        "a",
        "go a; lost a; more a; back a; lost a; more a; next",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        more a       | a: moretime
        back a       | a: recovering -start-> running; job: recovering -> running; a#1 is running
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        more a       | a: moretime
        +240s check a | a: unconfirmed; a: recovering -fail-> failed; job: recovering -> failed; a#1 is lost
        = job failed (worker_lost), a failed (worker_lost)
    "#]],
    );
}
