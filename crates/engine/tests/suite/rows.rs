//! What the history keeps of an attempt, after each event that writes its row.

use std::fmt::Write as _;

use engine::attempt::Attempt;
use expect_test::{Expect, expect};

use crate::support::script::changes_of;
use crate::support::world::START;

/// For each story about step `a`: the row that its last event writes.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value, and a call reads better without `&`")]
fn check(stories: &[(&str, &str)], expected: Expect) {
    let mut table = String::new();
    for (graph, story) in stories {
        let rows: Vec<String> = changes_of(graph, story).attempts.iter().map(told).collect();
        let _ = writeln!(table, "{graph} | {story} | {}", rows.join("; "));
    }
    expected.assert_eq(&table);
}

fn told(row: &Attempt) -> String {
    let parts = [
        Some(format!("#{} {} on link {}", row.live.number, row.state.word(), row.live.epoch.0)),
        row.confirmed.then(|| "confirmed".to_owned()),
        row.ended_at.map(|at| format!("at {}s", at.since(START).as_secs())),
        row.exit_code.map(|code| format!("exit {code}")),
        row.signal.map(|signal| format!("signal {signal}")),
        row.error.as_ref().map(|error| error.kind.code().to_owned()),
        row.cleanup.as_ref().map(|cleanup| format!("cleanup {:?}", cleanup.state()).to_lowercase()),
        (row.usage.cpu_ms > 0).then(|| format!("{} ms, {} bytes", row.usage.cpu_ms, row.usage.memory_bytes_max)),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

#[test]
fn of_an_attempt_that_goes_on() {
    check(
        &[
            ("a", "offer a; accept a"),
            ("a", "go a; pass 5s; lost a"),
            ("a", "go a; lost a; back a"),
            ("a", "go a; back a"),
            ("a", "go a; cancel; lost a; back a"),
            ("a[effects:none]", "go a; pass 5s; remove a"),
        ],
        expect![[r#"
            a | offer a; accept a | #1 running on link 1
            a | go a; pass 5s; lost a | #1 recovering on link 1
            a | go a; lost a; back a | #1 running on link 2
            a | go a; back a | #1 running on link 2
            a | go a; cancel; lost a; back a | #1 running on link 2
            a[effects:none] | go a; pass 5s; remove a | #1 recovering on link 1
        "#]],
    );
}

/// The exit stands in the row whatever the step made of it.
#[test]
fn of_an_end() {
    check(
        &[
            ("a", "go a; pass 5s; end a 0"),
            ("a", "go a; pass 5s; end a 3"),
            ("a", "go a; end a signal"),
            ("a", "go a; end a oom"),
            ("a", "go a; end a spawn"),
            ("a", "go a; end a badout"),
            ("a[timeout:60s]", "go a; end a timeout"),
            ("a", "go a; cancel; end a 0"),
            ("a", "go a; cancel; end a cancelled"),
            ("a[cleanup:20s]", "go a; cancel; end a cleaned"),
            ("a[cleanup:20s]", "go a; cancel; end a uncleaned"),
            ("a[effects:none]", "go a; end a worker"),
            ("a", "go a; lost a; end a 0"),
        ],
        expect![[r#"
            a | go a; pass 5s; end a 0 | #1 ended on link 1, confirmed, at 5s, exit 0, 40 ms, 9000 bytes
            a | go a; pass 5s; end a 3 | #1 ended on link 1, confirmed, at 5s, exit 3, exit_code, 40 ms, 9000 bytes
            a | go a; end a signal | #1 ended on link 1, confirmed, at 0s, signal 9, signal, 40 ms, 9000 bytes
            a | go a; end a oom | #1 ended on link 1, confirmed, at 0s, signal 9, oom_killed, 40 ms, 9000 bytes
            a | go a; end a spawn | #1 ended on link 1, confirmed, at 0s, spawn_failed, 40 ms, 9000 bytes
            a | go a; end a badout | #1 ended on link 1, confirmed, at 0s, exit 0, bad_output, 40 ms, 9000 bytes
            a[timeout:60s] | go a; end a timeout | #1 ended on link 1, confirmed, at 0s, signal 15, step_timeout, 40 ms, 9000 bytes
            a | go a; cancel; end a 0 | #1 ended on link 1, confirmed, at 0s, exit 0, 40 ms, 9000 bytes
            a | go a; cancel; end a cancelled | #1 ended on link 1, confirmed, at 0s, signal 15, cancelled, 40 ms, 9000 bytes
            a[cleanup:20s] | go a; cancel; end a cleaned | #1 ended on link 1, confirmed, at 0s, signal 15, cancelled, cleanup success, 40 ms, 9000 bytes
            a[cleanup:20s] | go a; cancel; end a uncleaned | #1 ended on link 1, confirmed, at 0s, signal 15, cancelled, cleanup failed, 40 ms, 9000 bytes
            a[effects:none] | go a; end a worker | #1 ended on link 1, confirmed, at 0s, signal 15, worker_lost, 40 ms, 9000 bytes
            a | go a; lost a; end a 0 | #1 ended on link 1, confirmed, at 0s, exit 0, 40 ms, 9000 bytes
        "#]],
    );
}

/// Only proof confirms: a lost attempt of which nobody knows stays open for it.
#[test]
fn of_a_loss() {
    check(
        &[
            ("a", "go a; pass 5s; gone a runner"),
            ("a", "go a; gone a void"),
            ("a", "go a; lost a; pass 120s; check a"),
            ("a[stop]", "go a; lost a; pass 120s; check a"),
            ("a", "go a; leave a"),
            ("a", "go a; remove a"),
            ("a", "go a; lost a; cancel"),
            ("a[grace:1s]", "go a; cancel; pass 11s; check a"),
            ("a[grace:1s]", "go a; cancel; gone a runner"),
            ("a", "go a; lost a; resolve a succeeded"),
            ("a", "go a; lost a; resolve a rerun dead"),
            // A lease that is over is proof whoever acts on it.
            ("a[stop]", "go a; lost a; pass 119s; resolve a failed"),
            ("a[stop]", "go a; lost a; pass 120s; resolve a failed"),
            ("a[stop]", "go a; lost a; pass 120s; resolve a rerun"),
            ("a[stop]", "go a; lost a; pass 120s; cancel"),
            ("a[stop]", "go a; lost a; pass 120s; remove a"),
            ("a[stop grace:1s]", "go a; cancel; lost a; pass 119s; check a"),
            ("a[stop grace:1s]", "go a; cancel; lost a; pass 120s; check a"),
            ("a[effects:none]", "go a; lost a; pass 120s; resolve a rerun"),
            ("a", "go a; poison a"),
            ("a", "go a; cancel; poison a"),
            ("a, b", "go a; go b; lost a; lost b; cancel"),
        ],
        expect![[r#"
            a | go a; pass 5s; gone a runner | #1 lost on link 1, confirmed, at 5s, runner_lost
            a | go a; gone a void | #1 lost on link 1, confirmed, at 0s, runner_lost
            a | go a; lost a; pass 120s; check a | #1 lost on link 1, at 120s, worker_lost
            a[stop] | go a; lost a; pass 120s; check a | #1 lost on link 1, confirmed, at 120s, worker_lost
            a | go a; leave a | #1 lost on link 1, at 0s, worker_lost
            a | go a; remove a | #1 lost on link 1, at 0s, worker_removed
            a | go a; lost a; cancel | #1 lost on link 1, at 0s, cancelled
            a[grace:1s] | go a; cancel; pass 11s; check a | #1 lost on link 1, at 11s, cancelled
            a[grace:1s] | go a; cancel; gone a runner | #1 lost on link 1, confirmed, at 0s, runner_lost
            a | go a; lost a; resolve a succeeded | #1 lost on link 1, at 0s, resolved
            a | go a; lost a; resolve a rerun dead | #1 lost on link 1, confirmed, at 0s, resolved
            a[stop] | go a; lost a; pass 119s; resolve a failed | #1 lost on link 1, at 119s, resolved
            a[stop] | go a; lost a; pass 120s; resolve a failed | #1 lost on link 1, confirmed, at 120s, resolved
            a[stop] | go a; lost a; pass 120s; resolve a rerun | #1 lost on link 1, confirmed, at 120s, resolved
            a[stop] | go a; lost a; pass 120s; cancel | #1 lost on link 1, confirmed, at 120s, cancelled
            a[stop] | go a; lost a; pass 120s; remove a | #1 lost on link 1, confirmed, at 120s, worker_removed
            a[stop grace:1s] | go a; cancel; lost a; pass 119s; check a | #1 lost on link 1, at 119s, cancelled
            a[stop grace:1s] | go a; cancel; lost a; pass 120s; check a | #1 lost on link 1, confirmed, at 120s, cancelled
            a[effects:none] | go a; lost a; pass 120s; resolve a rerun | #1 lost on link 1, at 120s, resolved
            a | go a; poison a | #1 lost on link 1, at 0s, internal
            a | go a; cancel; poison a | #1 lost on link 1, at 0s, internal
            a, b | go a; go b; lost a; lost b; cancel | #1 lost on link 1, at 0s, cancelled; #1 lost on link 1, at 0s, cancelled
        "#]],
    );
}
