//! Every decision can be read: the reasons that notes give, for each story about step `a` those of its last event.

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use crate::support::script::changes_of;

#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value, and a call reads better without `&`")]
fn check(stories: &[(&str, &str)], expected: Expect) {
    let mut table = String::new();
    for (graph, story) in stories {
        let _ = writeln!(table, "{graph} | {story}");
        for note in changes_of(graph, story).notes.iter().filter(|note| !note.reason.is_empty()) {
            let _ = writeln!(table, "  {}", note.reason);
        }
    }
    expected.assert_eq(&table);
}

/// Whole seconds are enough, but for very short times.
#[test]
fn of_a_silence() {
    check(
        &[
            ("a", "offer a; silent a 1.5"),
            ("a", "offer a; silent a 61.4"),
            ("a", "offer a; forsake a 61.6"),
            ("a", "go a; silent a 300"),
            ("a", "go a; forsake a 300"),
        ],
        expect![[r#"
            a | offer a; silent a 1.5
              no heartbeat from worker w1 on h1 for 1.5s
            a | offer a; silent a 61.4
              no heartbeat from worker w1 on h1 for 61s
            a | offer a; forsake a 61.6
              no heartbeat from worker w1 on h1 for 62s; ordered by ann
            a | go a; silent a 300
              no sign of life from the step's runner for 300s
            a | go a; forsake a 300
              no sign of life from the step's runner for 300s; ordered by ann
        "#]],
    );
}

#[test]
fn of_a_persons_word() {
    check(
        &[
            ("a", "go a; lost a; resolve a succeeded"),
            ("a", "go a; lost a; resolve a failed"),
            ("a", "go a; lost a; resolve a late"),
            ("a", "go a; lost a; resolve a rerun dead"),
            ("a[effects:none]", "go a; lost a; pass 2m; resolve a rerun"),
            ("a[stop]", "go a; lost a; pass 2m; resolve a rerun"),
            ("a[approve]", "approve a"),
            ("a[approve]", "reject a"),
            ("a", "cancel"),
            ("a", "go a; force"),
            ("a", "offer a; remove a"),
            ("a[effects:none]", "go a; remove a"),
        ],
        expect![[r#"
            a | go a; lost a; resolve a succeeded
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is given up and may still run
              resolved as succeeded by ann
            a | go a; lost a; resolve a failed
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is given up and may still run
              resolved as failed by ann
              Step `a` was marked as failed by ann: it did not (resolved)
            a | go a; lost a; resolve a late
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is given up and may still run
              resolved as accept_late by ann
            a | go a; lost a; resolve a rerun dead
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is over: ann says so
              resolved as rerun by ann (ground: a person says that it is dead)
            a[effects:none] | go a; lost a; pass 2m; resolve a rerun
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is given up and may still run
              resolved as rerun by ann (ground: its effects allow a repeat and its window is over)
            a[stop] | go a; lost a; pass 2m; resolve a rerun
              resolved as rerun by ann (ground: its lease is over)
            a[approve] | approve a
              approved by ann
            a[approve] | reject a
              Rejected by ann: no
              Rejected by ann: no (rejected)
            a | cancel
              asked by ann
              cancelled by ann
              Cancelled by ann (cancelled)
            a | go a; force
              asked by ann, by force
              cancelled by ann
            a | offer a; remove a
              its worker was removed by ann
            a[effects:none] | go a; remove a
              its worker was removed by ann; its window decides
        "#]],
    );
}

#[test]
fn of_a_loss() {
    check(
        &[
            ("a", "offer a; drop a"),
            ("a", "offer a; pass 10s; check a"),
            ("a", "go a; lost a"),
            ("a", "go a; lost a; pass 7.25s; back a"),
            ("a", "go a; cancel; lost a"),
            ("a", "go a; gone a void"),
            ("a[effects:none]", "go a; gone a runner"),
            ("a[effects:none]", "go a; lost a; pass 2m; check a"),
            ("a[effects:none stop]", "go a; lost a; pass 2m; check a"),
            ("a[stop retry:2 on:worker_lost]", "go a; lost a; pass 2m; check a"),
            ("a", "go a; lost a; pass 2m; check a"),
            ("a", "go a; lost a; more a"),
        ],
        expect![[r#"
            a | offer a; drop a
              the worker's link is gone (link 1)
            a | offer a; pass 10s; check a
              the worker did not answer in time
            a | go a; lost a
              the link to worker w1 on h1 is gone (link 1)
            a | go a; lost a; pass 7.25s; back a
              worker w1 on h1 came back after 7.2s (link 2)
            a | go a; cancel; lost a
              the worker's link is gone; the deadline decides
            a | go a; gone a void
              the attempt never started
            a[effects:none] | go a; gone a runner
              Job failed: the step's runner died (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z); its effects allow a repeat (ground: it was reported over)
            a[effects:none] | go a; lost a; pass 2m; check a
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is given up and may still run
              Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, window of 120s; its effects allow a repeat (ground: its effects allow a repeat and its window is over)
            a[effects:none stop] | go a; lost a; pass 2m; check a
              Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, window of 120s; its effects allow a repeat (ground: its lease is over)
            a[stop retry:2 on:worker_lost] | go a; lost a; pass 2m; check a
              Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, window of 120s; execution 2 of 2 is next
            a | go a; lost a; pass 2m; check a
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is given up and may still run
              Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, window of 120s
              Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, window of 120s (worker_lost)
            a | go a; lost a; more a
              many were lost
        "#]],
    );
}

#[test]
fn of_the_usual_way() {
    check(
        &[
            ("a", "offer a; accept a"),
            ("a -> b", "go a; end a 0"),
            ("a -> b", "go a; end a 1"),
            ("a -> b[if:false]", "go a; end a 0"),
            ("a -> b[approve]", "go a; end a 0"),
            ("a -> b[reviewers:1]", "go a; end a 0"),
            ("a -> b[wait:5s]", "go a; end a 0"),
            ("a[retry:2]", "go a; end a 1"),
            ("a[retry:2]", "go a; end a 1; check a"),
            ("a[wait:5s]", "pass 5s; check a"),
            ("a[wait:5s reviewers:1]", "pass 5s; check a"),
            ("a[timeout:5s]", "go a; pass 6s; check a"),
            ("a[grace:1s]", "go a; cancel; pass 11s; check a"),
            ("a, timeout:60s", "pass 60s; check job"),
            ("b, b -> a, expires:60s", "pass 60s; check job"),
        ],
        expect![[r#"
            a | offer a; accept a
              granted to the worker
            a -> b | go a; end a 0
              it ended well
              its needs are met
            a -> b | go a; end a 1
              Step `a` exited with code 1
              what it needs did not end as it asks
              Step `a` exited with code 1 (exit_code)
            a -> b[if:false] | go a; end a 0
              it ended well
              its condition is false
            a -> b[approve] | go a; end a 0
              it ended well
              it waits for approval
            a -> b[reviewers:1] | go a; end a 0
              it ended well
              its environment asks for approval
            a -> b[wait:5s] | go a; end a 0
              it ended well
              its environment asks for a wait
            a[retry:2] | go a; end a 1
              Step `a` exited with code 1; execution 2 of 2 is next
            a[retry:2] | go a; end a 1; check a
              the delay before the retry is over
            a[wait:5s] | pass 5s; check a
              the wait is over
            a[wait:5s reviewers:1] | pass 5s; check a
              the wait is over; its environment asks for approval
            a[timeout:5s] | go a; pass 6s; check a
              its timeout is over
            a[grace:1s] | go a; cancel; pass 11s; check a
              worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z is given up and may still run
              no answer to the order to stop
              Cancelled by ann (cancelled)
            a, timeout:60s | pass 60s; check job
              the job's timeout is over
              the job's timeout is over
              Job cancelled: its timeout is over (job_timeout)
            b, b -> a, expires:60s | pass 60s; check job
              the job expired
              Job failed: it had not started when it expired
              Job failed: it had not started when it expired (expired)
        "#]],
    );
}
