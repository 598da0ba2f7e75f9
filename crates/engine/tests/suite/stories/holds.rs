//! Steps that wait for a person or for a time.

use expect_test::expect;

use crate::support::script::{check, world};

#[test]
fn an_approval_is_a_success() {
    check(
        "a[approve] -> b",
        "approve b; approve a; approve a; go b; end b 0",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve b    | refused: the step is pending, so there is nothing to approve
        approve a    | a: held -approve-> success; b: pending -enqueue-> queued; job: held -> pending
        approve a    | refused: the step is success, so there is nothing to approve
        go b
        end b 0      | b: running -succeed-> success; job: running -> success; b#1 is ended, confirmed; ! forget b
        = job success, a success, b success
    "#]],
    );
}

#[test]
fn a_rejection_cancels_and_what_follows_is_skipped() {
    check(
        "a[approve] -> b, c",
        "reject a; go c; end c 0",
        expect![[r#"
        submit       | a: pending -hold-> held; c: pending -enqueue-> queued
        reject a     | a: held -reject-> cancelled; b: pending -skip-> skipped
        go c
        end c 0      | c: running -succeed-> success; job: running -> cancelled; c#1 is ended, confirmed; ! forget c
        = job cancelled (rejected), a cancelled (rejected), b skipped, c success
    "#]],
    );
}

#[test]
fn a_hold_expires() {
    check(
        "a[approve hold:60s] -> b",
        "pass 59s; check a; next",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        pass 59s
        check a
        +1s check a  | a: held -expire-> cancelled; b: pending -skip-> skipped; job: held -> cancelled
        = job cancelled (hold_expired), a cancelled (hold_expired), b skipped
    "#]],
    );
}

/// The job tells what was decided first, wherever that stands in the file.
#[test]
fn the_first_of_several_decisions_is_the_jobs_error() {
    check(
        "a[approve hold:60s], b[approve hold:90s]",
        "reject b; next",
        expect![[r#"
            submit       | a: pending -hold-> held; b: pending -hold-> held; job: pending -> held
            reject b     | b: held -reject-> cancelled
            +60s check a | a: held -expire-> cancelled; job: held -> cancelled
            = job cancelled (rejected), a cancelled (hold_expired), b cancelled (rejected)
        "#]],
    );
    let named = |graph: &str, story: &str| {
        let job = world(graph, story).job;
        let error = job.header.error.as_ref().expect("it has one");
        error.step.map(|ix| job.name(ix).into_owned()).expect("of a step")
    };
    assert_eq!(named("a, b", "go a; go b; end b 3; pass 1s; end a 4"), "b");
    assert_eq!(named("a, b", "go a; go b; end b 3; end a 4"), "a", "at the same time: by its place");
    assert_eq!(named("a[each:2 unmatched:wait]", "go a[0]; end a[0] 3; pass 1s; go a[1]; end a[1] 0"), "a");
}

#[test]
fn reviewers_are_counted() {
    check(
        "a[reviewers:2]",
        "approve a; approve a bob fine; go a; end a 0",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: approved by ann (1 of 2)
        approve a bob fine | a: held -approve-> queued; job: held -> pending
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn nobody_counts_twice() {
    check(
        "a[reviewers:2]",
        "approve a; approve a; approve a; approve a bob",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: approved by ann (1 of 2)
        approve a    | refused: ann has approved it already, and 1 more must
        approve a    | refused: ann has approved it already, and 1 more must
        approve a bob | a: held -approve-> queued; job: held -> pending
        = job pending, a queued
    "#]],
    );
}

#[test]
fn who_submitted_a_job_may_not_approve_it_where_four_eyes_are_wanted() {
    check(
        "a[approve four_eyes], b[reviewers:1]",
        "approve b; approve a; approve a bob",
        expect![[r#"
        submit       | a: pending -hold-> held; b: pending -hold-> held; job: pending -> held
        approve b    | b: held -approve-> queued; job: held -> pending
        approve a    | refused: ann submitted the job, and its approval is for others to give
        approve a bob | a: held -approve-> success
        = job pending, a success, b queued
    "#]],
    );
}

#[test]
fn approvals_count_only_once_the_wait_is_over() {
    check(
        "a[wait:60s reviewers:2 hold:60s]",
        "approve a bob; next; approve a bob; pass 59s; next",
        expect![[r#"
        submit       | a: pending -wait-> waiting
        approve a bob | refused: the step is waiting, so there is nothing to approve
        +60s check a | a: waiting -timer_done-> held; job: pending -> held
        approve a bob | a: approved by bob (1 of 2)
        pass 59s
        +1s check a  | a: held -expire-> cancelled; job: held -> cancelled
        = job cancelled (hold_expired), a cancelled (hold_expired)
    "#]],
    );
}

#[test]
fn a_wait_comes_before_the_reviewer() {
    check(
        "a[wait:60s reviewers:1]",
        "approve a; next; approve a; go a; end a 0",
        expect![[r#"
        submit       | a: pending -wait-> waiting
        approve a    | refused: the step is waiting, so there is nothing to approve
        +60s check a | a: waiting -timer_done-> held; job: pending -> held
        approve a    | a: held -approve-> queued; job: held -> pending
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn a_wait_alone() {
    check(
        "a[wait:60s]",
        "next; go a; end a 0",
        expect![[r#"
        submit       | a: pending -wait-> waiting
        +60s check a | a: waiting -timer_done-> queued
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#1 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn a_retry_asks_nobody_again() {
    check(
        "a[reviewers:1 retry:2]",
        "approve a; go a; end a 1; next; go a; end a 0",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: held -approve-> queued; job: held -> pending
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
fn a_requeue_asks_nobody_again() {
    check(
        "a[reviewers:1 effects:none]",
        "approve a; go a; gone a runner; go a; end a 0",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        approve a    | a: held -approve-> queued; job: held -> pending
        go a
        gone a runner | a: running -requeue-> queued; a#1 is lost, confirmed
        go a
        end a 0      | a: running -succeed-> success; job: running -> success; a#2 is ended, confirmed; ! forget a
        = job success, a success
    "#]],
    );
}

#[test]
fn held_time_does_not_count_towards_the_jobs_timeout() {
    check(
        "a[approve] -> b, timeout:60s",
        "pass 10h; check job; approve a; go b; pass 59s; check job; pass 1s; check job",
        expect![[r#"
        submit       | a: pending -hold-> held; job: pending -> held
        pass 10h
        check job
        approve a    | a: held -approve-> success; b: pending -enqueue-> queued; job: held -> pending
        go b
        pass 59s
        check job
        pass 1s
        check job    | job: cancel the job's timeout is over; b: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop b (Graceful, JobTimeout)
        = job cancelling, a success, b cancelling
    "#]],
    );
}

#[test]
fn a_hold_beside_a_running_step_stops_no_clock() {
    check(
        "a[approve], b, timeout:60s",
        "go b; next",
        expect![[r#"
        submit       | a: pending -hold-> held; b: pending -enqueue-> queued
        go b
        +60s check job | job: cancel the job's timeout is over; a: held -cancel-> cancelled; b: running -cancel_graceful-> cancelling; job: running -> cancelling; ! stop b (Graceful, JobTimeout)
        = job cancelling, a cancelled (job_timeout), b cancelling
    "#]],
    );
}

#[test]
fn a_hold_stops_the_clock_once_nothing_else_moves() {
    check(
        "a[approve], b, timeout:60s",
        "go b; pass 20s; end b 0; pass 10h; check job; approve a",
        expect![[r#"
        submit       | a: pending -hold-> held; b: pending -enqueue-> queued
        go b
        pass 20s
        end b 0      | b: running -succeed-> success; job: running -> held; b#1 is ended, confirmed; ! forget b
        pass 10h
        check job
        approve a    | a: held -approve-> success; job: held -> success
        = job success, a success, b success
    "#]],
    );
}
