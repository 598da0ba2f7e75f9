//! A worker is taken out of the fleet: that ends waiting for it, and proves nothing.

use std::fmt::Write as _;

use expect_test::expect;

use crate::support::script::{check, world};

/// Where the end of the window can bring a new attempt, it is waited for; else the verdict is now.
#[test]
fn the_window_is_waited_for_only_where_something_can_come_of_it() {
    let stories = [
        ("a", "go a"),
        ("a[effects:none]", "go a"),
        ("a[stop]", "go a"),
        // A policy that names losses decides alone, and only as long as it has attempts left.
        ("a[stop retry:2 on:worker_lost]", "go a"),
        ("a[stop retry:2 on:worker_lost]", "go a; gone a runner; next; go a"),
        ("a[stop retry:1 on:worker_lost]", "go a"),
        ("a[effects:none retry:2 on:worker_lost]", "go a"),
        ("a[effects:none retry:1 on:worker_lost]", "go a"),
        // Silence is no ground for what writes and keeps, whatever its policy.
        ("a[retry:2 on:worker_lost]", "go a"),
        // Nor is anything repeated in a job that was told to end.
        ("b -> a[if:always() effects:none]", "go b; cancel; end b cancelled; go a"),
    ];
    let mut table = String::new();
    for (graph, story) in stories {
        let world = world(graph, &format!("{story}; remove a"));
        let step = world.job.step(world.step_named("a"));
        let _ = writeln!(table, "{graph} | {story} | {}", step.state.name());
    }
    expect![[r#"
        a | go a | failed
        a[effects:none] | go a | recovering
        a[stop] | go a | failed
        a[stop retry:2 on:worker_lost] | go a | recovering
        a[stop retry:2 on:worker_lost] | go a; gone a runner; next; go a | failed
        a[stop retry:1 on:worker_lost] | go a | failed
        a[effects:none retry:2 on:worker_lost] | go a | recovering
        a[effects:none retry:1 on:worker_lost] | go a | failed
        a[retry:2 on:worker_lost] | go a | failed
        b -> a[if:always() effects:none] | go b; cancel; end b cancelled; go a | failed
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_removed_worker_costs_what_it_may_not_repeat_and_proves_nothing() {
    check(
        "a",
        "go a; remove a; gone a runner",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        remove a     | a: unconfirmed; a: running -fail-> failed; job: running -> failed; a#1 is lost
        gone a runner | refused: stale: the step has no such attempt now
        = job failed (worker_removed), a failed (worker_removed)
    "#]],
    );
}

#[test]
fn what_may_be_repeated_waits_for_the_window_when_its_worker_is_removed() {
    check(
        "a[effects:none]",
        "go a; remove a; next; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        remove a     | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        +120s check a | a: unconfirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
    check(
        "a[effects:none]",
        "go a; lost a; pass 100s; remove a; pass 20s; check a; go a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        lost a       | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        pass 100s
        remove a
        pass 20s
        check a      | a: unconfirmed; a: recovering -requeue-> queued; job: recovering -> running; a#1 is lost
        go a
        = job running, a running
    "#]],
    );
}

#[test]
fn a_removed_worker_that_reports_its_end_is_proof_at_once() {
    check(
        "a[effects:none]",
        "go a; remove a; end a cancelled; go a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        remove a     | a: running -recover-> recovering; job: running -> recovering; a#1 is recovering
        end a cancelled | a: recovering -requeue-> queued; job: recovering -> running; a#1 is ended, confirmed; ! forget a
        go a
        = job running, a running
    "#]],
    );
}

#[test]
fn an_offer_to_a_removed_worker_goes_elsewhere() {
    check(
        "a",
        "offer a; remove a; accept a#1; go a; end a 0",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        offer a      | a: offer made; ! offer a
        remove a     | a: offer lost
        accept a#1   | refused: stale: the step has no such attempt now
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn removing_the_worker_of_a_step_that_is_told_to_stop_ends_the_wait() {
    check(
        "a[timeout:1m]",
        "go a; next; remove a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        +61s check a | a: running -stop-> cancelling; ! stop a (Graceful, StepTimeout)
        remove a     | a: unconfirmed; a: cancelling -cancel_force-> failed; job: running -> failed; a#1 is lost
        = job failed (step_timeout), a failed (step_timeout)
    "#]],
    );
    check(
        "a",
        "go a; cancel; remove a",
        expect![[r#"
        submit       | a: pending -enqueue-> queued
        go a
        cancel       | job: cancel asked by ann; a: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop a (Graceful, Cancel)
        remove a     | a: unconfirmed; a: cancelling -cancel_force-> cancelled; job: cancelling -> cancelled; a#1 is lost
        = job cancelled (cancelled), a cancelled (cancelled)
    "#]],
    );
}
