//! What a worker is told about each attempt that it brings back, as a table.

use std::fmt::Write as _;

use engine::verdict::{Held, Past, verdict};
use expect_test::{Expect, expect};

use crate::support::script::world;

/// For each story about step `a`: the verdicts on its first attempt, by what the worker has of it.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value, and a call reads better without `&`")]
fn check(stories: &[(&str, &str)], expected: Expect) {
    let mut table = String::new();
    for (graph, story) in stories {
        let world = world(graph, story);
        let ticket = world.tickets[0];
        let granted = world.job.step(ticket.step).attempts > 0;
        let past = |whole| granted.then_some(Past { number: 1, whole });
        let told = |held, whole| format!("{:?}", verdict(&world.job, ticket, held, past(whole)));
        let [waiting, running, ended, recorded] =
            [told(Held::Waiting, false), told(Held::Running, false), told(Held::Ended, false), told(Held::Ended, true)];
        let state = world.job.step(ticket.step).state.name();
        let _ = writeln!(table, "{graph} | {story} | {state}: {waiting}, {running}, {ended}, {recorded}");
    }
    expected.assert_eq(&table);
}

#[test]
fn on_the_current_attempt() {
    check(
        &[
            ("a", "offer a"),
            ("a", "go a"),
            ("a", "go a; lost a"),
            // Never `go` for what is to stop.
            ("a", "go a; cancel"),
            ("a", "go a; force"),
            ("a", "go a; lost a; back a; cancel; lost a"),
        ],
        expect![[r#"
            a | offer a | queued: Forget, Stop(Kill), SendResult, SendResult
            a | go a | running: Go, Continue, SendResult, SendResult
            a | go a; lost a | recovering: Go, Continue, SendResult, SendResult
            a | go a; cancel | cancelling: Stop(Graceful), Stop(Graceful), SendResult, SendResult
            a | go a; force | cancelling: Stop(Kill), Stop(Kill), SendResult, SendResult
            a | go a; lost a; back a; cancel; lost a | cancelling: Stop(Graceful), Stop(Graceful), SendResult, SendResult
        "#]],
    );
}

#[test]
fn on_an_attempt_that_was_given_up() {
    check(
        &[
            // Never granted.
            ("a", "offer a; drop a"),
            ("a", "offer a; drop a; go a"),
            // Given up without a successor.
            ("a", "go a; lost a; next"),
            ("a[stop]", "go a; lost a; next"),
            // Cancelled or timed out while it was away.
            ("a", "go a; lost a; cancel"),
            ("a", "go a; lost a; force"),
            ("a[timeout:60s]", "go a; next; lost a; next"),
            ("a, timeout:60s", "go a; lost a; next"),
            // With a successor, be it planned, at work or over.
            ("a[effects:none]", "go a; lost a; next"),
            ("a[effects:none]", "go a; lost a; next; offer a"),
            ("a[effects:none]", "go a; lost a; next; go a"),
            ("a[effects:none]", "go a; lost a; next; go a; end a 0"),
            ("a[effects:none]", "go a; lost a; next; go a; end a 1"),
            ("a[effects:none]", "go a; lost a; next; go a; cancel"),
            ("a[retry:2 delay:5s]", "go a; end a 1"),
            // It ended as it should.
            ("a", "go a; end a 0"),
            ("a", "go a; end a 1"),
        ],
        expect![[r#"
            a | offer a; drop a | queued: Forget, Stop(Kill), SendResult, SendResult
            a | offer a; drop a; go a | running: Stop(Kill), Stop(Kill), SendResult, Forget
            a | go a; lost a; next | failed: Stop(Kill), Finish, SendResult, Forget
            a[stop] | go a; lost a; next | failed: Stop(Kill), Stop(Kill), SendResult, Forget
            a | go a; lost a; cancel | cancelled: Stop(Kill), Stop(Graceful), SendResult, Forget
            a | go a; lost a; force | cancelled: Stop(Kill), Stop(Kill), SendResult, Forget
            a[timeout:60s] | go a; next; lost a; next | failed: Stop(Kill), Stop(Graceful), SendResult, Forget
            a, timeout:60s | go a; lost a; next | cancelled: Stop(Kill), Stop(Graceful), SendResult, Forget
            a[effects:none] | go a; lost a; next | queued: Stop(Kill), Stop(Kill), SendResult, Forget
            a[effects:none] | go a; lost a; next; offer a | queued: Stop(Kill), Stop(Kill), SendResult, Forget
            a[effects:none] | go a; lost a; next; go a | running: Stop(Kill), Stop(Kill), SendResult, Forget
            a[effects:none] | go a; lost a; next; go a; end a 0 | success: Stop(Kill), Stop(Kill), SendResult, Forget
            a[effects:none] | go a; lost a; next; go a; end a 1 | failed: Stop(Kill), Stop(Kill), SendResult, Forget
            a[effects:none] | go a; lost a; next; go a; cancel | cancelling: Stop(Kill), Stop(Kill), SendResult, Forget
            a[retry:2 delay:5s] | go a; end a 1 | waiting: Stop(Kill), Stop(Kill), SendResult, Forget
            a | go a; end a 0 | success: Stop(Kill), Finish, SendResult, Forget
            a | go a; end a 1 | failed: Stop(Kill), Finish, SendResult, Forget
        "#]],
    );
}
