//! The messages that people read when a step did not succeed, as a table. Their beginnings are matched on in the field.

use std::fmt::Write as _;

use engine::event::Event;
use engine::{Ctx, StepIx};
use expect_test::{Expect, expect};

use crate::support::script::world;
use crate::support::toy::Toy;
use crate::support::world::World;

/// For each story about step `a`: what is told of it, or of the job where `a` has no fault.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value, and a call reads better without `&`")]
fn check(stories: &[(&str, &str)], expected: Expect) {
    let mut table = String::new();
    for (graph, story) in stories {
        let world = world(graph, story);
        let story = format!("{graph} | {story}");
        let _ = writeln!(table, "{}\n  {}", story.trim_end_matches([' ', '|']), told(&world));
    }
    expected.assert_eq(&table);
}

fn told(world: &World) -> String {
    let of_step = world.job.step(world.step_named("a")).error.as_ref();
    let of_job = || world.job.header.error.as_ref().map(|error| &error.failure);
    of_step.or_else(of_job).map_or("nothing".to_owned(), ToString::to_string)
}

#[test]
fn of_an_end() {
    check(
        &[
            ("a", "go a; end a 3"),
            ("a", "go a; end a signal"),
            ("a", "go a; end a oom"),
            ("a", "go a; end a spawn"),
            ("a", "go a; end a badout"),
            ("a", "go a; end a unstored"),
            ("a", "go a; end a 3-unstored"),
            ("a[timeout:90s]", "go a; end a timeout"),
            ("a[timeout:90s]", "go a; end a timeout-unstored"),
            ("a", "go a; end a cancelled"),
            ("a", "go a; cancel; end a cancelled-unstored"),
            ("a[stop]", "go a; end a lease"),
            ("a[stop]", "go a; lost a; end a lease"),
            ("a", "go a; end a worker"),
            ("a", "go a; lost a; remove a; end a worker"),
        ],
        expect![[r#"
            a | go a; end a 3
              Step `a` exited with code 3 (exit_code)
            a | go a; end a signal
              Step `a` was ended by signal 9 (signal)
            a | go a; end a oom
              Step `a` was killed: out of memory (oom_killed)
            a | go a; end a spawn
              Step `a` could not be started: no such file (spawn_failed)
            a | go a; end a badout
              Step `a` ended well, but its outputs did not: line 3 has no `=` (bad_output)
            a | go a; end a unstored
              Step `a` ended well, but its artifacts were not stored: the disk is full (artifacts)
            a | go a; end a 3-unstored
              Step `a` exited with code 3; its artifacts were not stored: the disk is full (exit_code)
            a[timeout:90s] | go a; end a timeout
              Step `a` was stopped: it took longer than its timeout of 90s (step_timeout)
            a[timeout:90s] | go a; end a timeout-unstored
              Step `a` was stopped: it took longer than its timeout of 90s; its artifacts were not stored: the disk is full (step_timeout)
            a | go a; end a cancelled
              Step `a` was cancelled (cancelled)
            a | go a; cancel; end a cancelled-unstored
              Step `a` was cancelled by ann; its artifacts were not stored: the disk is full (cancelled)
            a[stop] | go a; end a lease
              Step stopped: its worker was cut off for longer than its lease (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (lease_expired)
            a[stop] | go a; lost a; end a lease
              Step stopped: its worker was cut off for longer than its lease (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (lease_expired)
            a | go a; end a worker
              Job failed: the worker was told to end the step with it (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (worker_lost)
            a | go a; lost a; remove a; end a worker
              Job failed: the worker no longer exists (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (worker_removed)
        "#]],
    );
}

#[test]
fn of_items() {
    check(
        &[
            ("a[each:3]", "go a[0]; end a[0] 0; go a[1]; end a[1] 3; go a[2]; end a[2] signal"),
            ("a[each:2 fail_fast]", "go a[0]; end a[0] 3"),
            ("a[each:10001]", ""),
        ],
        expect![[r#"
            a[each:3] | go a[0]; end a[0] 0; go a[1]; end a[1] 3; go a[2]; end a[2] signal
              2 of 3 items failed, first `a[1]`: Step `a[1]` exited with code 3 (exit_code)
            a[each:2 fail_fast] | go a[0]; end a[0] 3
              1 of 2 items failed, first `a[0]`: Step `a[0]` exited with code 3 (exit_code)
            a[each:10001]
              Step failed: it has 10001 items, and a step has at most 10000 (template)
        "#]],
    );
}

#[test]
fn of_a_child() {
    check(
        &[
            ("a[child:none]", ""),
            ("a[child:refused]", ""),
            ("a[child:{bad}]", ""),
            ("a[child:x]", "child a failed"),
            ("a[child:x]", "child a failed stray"),
            ("a[child:x]", "child a cancelled"),
        ],
        expect![[r#"
            a[child:none]
              Step failed: there was no task `child` when the job was submitted (unknown_task)
            a[child:refused]
              Step failed: the task `child` does not take its input: `refused` is no input (invalid_input)
            a[child:{bad}]
              Step failed: `bad` is not there (template)
            a[child:x] | child a failed
              Child job 00000000-0000-0000-ba7f-58127596bc87: it did not work out (exit_code)
            a[child:x] | child a failed stray
              Child job 00000000-0000-0000-ba7f-58127596bc87: it did not work out (exit_code)
            a[child:x] | child a cancelled
              Child job 00000000-0000-0000-ba7f-58127596bc87: it did not work out (cancelled)
        "#]],
    );
}

#[test]
fn of_a_loss() {
    check(
        &[
            ("a", "go a; gone a runner"),
            ("a", "go a; gone a torn"),
            ("a", "go a; gone a reboot"),
            ("a", "go a; gone a missing"),
            ("a", "go a; gone a forgotten"),
            ("a[stop]", "go a; gone a lease"),
            ("a", "go a; pass 5s; lost a; pass 120s; check a"),
            ("a", "go a; pass 5s; lost a; pass 7s; gone a runner"),
            ("a", "go a; leave a"),
            ("a", "go a; scaled a"),
            ("a", "go a; remove a"),
            ("a[effects:none]", "go a; gone a runner; go a; gone a torn; go a; gone a reboot"),
            ("a", "go a; silent a 300; end a worker"),
            ("a", "go a; silent a 300; next"),
            ("a", "go a; lost a; resolve a failed"),
        ],
        expect![[r#"
            a | go a; gone a runner
              Job failed: the step's runner died (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (runner_lost)
            a | go a; gone a torn
              Job failed: the step's result could not be read (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (result_not_available)
            a | go a; gone a reboot
              Job failed: the worker's machine was restarted; the step's process is gone (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (machine_rebooted)
            a | go a; gone a missing
              Job failed: the step's runner died; its worker has no trace of it (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (runner_lost)
            a | go a; gone a forgotten
              Job failed: the step's runner died; its worker does not remember that it had started (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (runner_lost)
            a[stop] | go a; gone a lease
              Step stopped: its worker was cut off for longer than its lease (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (lease_expired)
            a | go a; pass 5s; lost a; pass 120s; check a
              Job failed: agent disconnected and did not reconnect within the recovery window (recovery timeout exceeded): step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:45Z, window of 120s (worker_lost)
            a | go a; pass 5s; lost a; pass 7s; gone a runner
              Job failed: the step's runner died (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, cut off 1970-01-01T00:16:45Z, noticed 1970-01-01T00:16:52Z) (runner_lost)
            a | go a; leave a
              Job failed: agent disconnected, and had said that it will not reconnect (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (worker_lost)
            a | go a; scaled a
              Job failed: scaler-managed agent disconnected mid-execution (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (worker_lost)
            a | go a; remove a
              Job failed: the worker no longer exists (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (worker_removed)
            a[effects:none] | go a; gone a runner; go a; gone a torn; go a; gone a reboot
              Job failed: the step lost 3 workers in a row (step `a`); the last time: Job failed: the worker's machine was restarted; the step's process is gone (step `a` on worker w1 on h1, attempt 3, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (poison)
            a | go a; silent a 300; end a worker
              Job failed: no sign of life from the step's runner for 300s (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:16:40Z) (runner_stale)
            a | go a; silent a 300; next
              Job failed: no sign of life from the step's runner for 300s (step `a` on worker w1 on h1, attempt 1, started 1970-01-01T00:16:40Z, noticed 1970-01-01T00:17:20Z) (runner_stale)
            a | go a; lost a; resolve a failed
              Step `a` was marked as failed by ann: it did not (resolved)
        "#]],
    );
}

#[test]
fn of_what_never_ran() {
    check(
        &[
            ("a", "next 5; unmatched a"),
            ("a[unmatched:wait]", "offer a; next; offer a; next 2; offer a; next 2; offer a; next 2; offer a; next"),
            ("a, expires:60s", "next 2"),
            ("a[approve hold:1h]", "next"),
            ("a[approve]", "reject a"),
            ("a[argv:{bad}]", ""),
            ("a", "poison a"),
        ],
        expect![[r#"
            a | next 5; unmatched a
              No active worker with required tags to run this step: gpu (unmatched)
            a[unmatched:wait] | offer a; next; offer a; next 2; offer a; next 2; offer a; next 2; offer a; next
              Job failed: re-dispatch attempts exhausted after 5 attempts (dispatch_exhausted)
            a, expires:60s | next 2
              Job failed: it had not started when it expired (expired)
            a[approve hold:1h] | next
              Nobody approved it in time (hold_expired)
            a[approve] | reject a
              Rejected by ann: no (rejected)
            a[argv:{bad}]
              Step failed: `bad` is not there (template)
            a | poison a
              a bug (internal)
        "#]],
    );
}

#[test]
fn of_an_order() {
    check(
        &[
            ("a", "cancel"),
            ("a", "go a; cancel; end a cancelled"),
            ("a", "go a; cancel; next"),
            ("b -> a", "go b; cancel; end b cancelled"),
            ("a[timeout:5s]", "go a; next 2"),
            ("a, timeout:60s", "go a; next; end a cancelled"),
            ("a, timeout:60s", "go a; lost a; pass 60s; check job"),
            ("a", "poison job"),
        ],
        expect![[r#"
            a | cancel
              Step `a` was cancelled by ann (cancelled)
            a | go a; cancel; end a cancelled
              Step `a` was cancelled by ann (cancelled)
            a | go a; cancel; next
              Step `a` was cancelled by ann (cancelled)
            b -> a | go b; cancel; end b cancelled
              Step `a` was cancelled by ann (cancelled)
            a[timeout:5s] | go a; next 2
              Step `a` was stopped: it took longer than its timeout of 5s (step_timeout)
            a, timeout:60s | go a; next; end a cancelled
              Step cancelled: the job's timeout is over (job_timeout)
            a, timeout:60s | go a; lost a; pass 60s; check job
              Step cancelled: the job's timeout is over (job_timeout)
            a | poison job
              Step `a` was cancelled by the server, after an internal error (cancelled)
        "#]],
    );
}

/// A worker that nobody knows is named by its id.
#[test]
fn of_a_worker_without_a_name() {
    let world = world("a", "go a");
    let event = Event::LinkLost { ticket: world.ticket(StepIx(0)), epoch: world.epoch_of(StepIx(0)) };
    let clocks = world.clocks();
    let ctx = Ctx {
        now: clocks.now,
        heard: clocks.heard,
        verdicts_from: clocks.verdicts_from,
        random: 0,
        rules: &world.rules,
        workers: &(),
        evaluator: &Toy,
    };
    let changes = engine::apply(&world.job, &event, &ctx).expect("it runs");
    let reason = "the link to worker 00000000-0000-0000-0000-000000000001 is gone (link 1)";
    assert_eq!(changes.notes[0].reason, reason);
}
